package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vramplan/vramplan/service"
)

// AddObservations implements service.Store.
func (s *Store) AddObservations(ctx context.Context,
	list []service.StoredObservation) (stored []service.StoredObservation, err error) {
	err = s.write(ctx, func(tx *writeTx) error {
		sealing, err := sealedObservations.begin(ctx, tx)
		if err != nil {
			return err
		}
		stored = make([]service.StoredObservation, len(list))
		for i := range list {
			if err := addObservation(ctx, sealing, list[i], &stored[i]); err != nil {
				return fmt.Errorf("store the observation %s: %w", list[i].ID, err)
			}
		}
		return sealing.end(ctx)
	})
	return stored, err
}

func addObservation(ctx context.Context, sealing *sealing, o service.StoredObservation,
	stored *service.StoredObservation) error {
	document, err := json.Marshal(&o.Observation)
	if err != nil {
		return err
	}
	key := sql.NullString{String: o.IdempotencyKey, Valid: o.IdempotencyKey != ""} // NULL differs from every other NULL
	values := []any{o.By.KeyID, key, o.Digest, o.GPU, o.Family, string(document)}
	n, err := affected(sealing.tx.ExecContext(ctx, `
INSERT INTO observations (id, key_id, idempotency_key, request_digest, gpu, "family", document) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (key_id, idempotency_key) DO NOTHING`, append([]any{o.ID}, values...)...))
	if err != nil {
		return err
	}
	if n > 0 {
		*stored = o
		return sealing.add(ctx, o.ID, values...)
	}
	*stored = service.StoredObservation{IdempotencyKey: o.IdempotencyKey, Known: true}
	var text string
	err = sealing.tx.QueryRowContext(ctx,
		`SELECT request_digest, document FROM observations WHERE key_id = $1 AND idempotency_key = $2`, o.By.KeyID,
		o.IdempotencyKey).
		Scan(&stored.Digest, &text)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), &stored.Observation)
}

// Observations implements service.Store.
func (s *Store) Observations(ctx context.Context,
	f service.ObservationFilter) (list []service.Observation, more bool, err error) {
	var bytes, read int
	err = s.repeat(ctx, func() error {
		list, more = nil, false
		bytes, read = 0, 0
		err := each(ctx, s.db, sealedObservations.rows(`WHERE ($1 = '' OR t.id < $1) AND ($2 = '' OR t.gpu = $2) AND ($3 = '' OR t."family" = $3)
ORDER BY t.id DESC LIMIT $4`), []any{f.Before, f.GPU, f.Family, f.Limit}, func(rows *sql.Rows) error {
			r, err := sealedObservations.scan(rows)
			if err != nil {
				return err
			}
			if read++; r.seal == altered { // which the next look at the whole database tells
				return nil
			}
			text := r.values[observationDocument]
			if bytes += len(text); f.MaxBytes > 0 && bytes > f.MaxBytes && len(list) > 0 {
				more = true
				return errEnough
			}
			o, err := decodeObservation(text, f.WithoutJobs)
			list = append(list, o)
			return err
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the observations: %w", err)
	}
	return list, more || read == f.Limit, nil
}

// observationDocument is where the document is among the columns.
const observationDocument = 5

// decodeObservation reads an observation, all of it or what it was measured and predicted to take.
func decodeObservation(text []byte, withoutJob bool) (o service.Observation, err error) {
	if !withoutJob {
		return o, json.Unmarshal(text, &o)
	}
	figures := struct {
		*service.Observation
		Job      struct{} `json:"job"` // stands in the place of the job, which is most of the text
		Versions struct{} `json:"versions"`
	}{Observation: &o}
	return o, json.Unmarshal(text, &figures)
}
