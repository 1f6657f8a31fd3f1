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
func (s *Store) AddObservations(ctx context.Context, list []service.StoredObservation) (stored []service.StoredObservation, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		stored = make([]service.StoredObservation, len(list))
		for i := range list {
			if err := addObservation(ctx, tx, list[i], &stored[i]); err != nil {
				return fmt.Errorf("store the observation %s: %w", list[i].ID, err)
			}
		}
		return nil
	})
	return stored, err
}

func addObservation(ctx context.Context, tx *sql.Tx, o service.StoredObservation, stored *service.StoredObservation) error {
	document, err := json.Marshal(&o.Observation)
	if err != nil {
		return err
	}
	key := sql.NullString{String: o.IdempotencyKey, Valid: o.IdempotencyKey != ""} // NULL differs from every other NULL
	result, err := tx.ExecContext(ctx, `
INSERT INTO observations (id, key_id, idempotency_key, request_digest, gpu, "family", document) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (key_id, idempotency_key) DO NOTHING`, o.ID, o.By.KeyID, key, o.Digest, o.GPU, o.Family, string(document))
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil || n > 0 {
		*stored = o
		return err
	}
	*stored = service.StoredObservation{IdempotencyKey: o.IdempotencyKey, Known: true}
	var text string
	err = tx.QueryRowContext(ctx, `SELECT request_digest, document FROM observations WHERE key_id = $1 AND idempotency_key = $2`, o.By.KeyID, o.IdempotencyKey).
		Scan(&stored.Digest, &text)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), &stored.Observation)
}

// Observations implements service.Store.
func (s *Store) Observations(ctx context.Context, f service.ObservationFilter) (list []service.Observation, more bool, err error) {
	err = s.repeat(ctx, func() error {
		list, more = nil, false
		bytes := 0
		err := each(ctx, s.db, `
SELECT document FROM observations
WHERE ($1 = '' OR id < $1) AND ($2 = '' OR gpu = $2) AND ($3 = '' OR "family" = $3)
ORDER BY id DESC LIMIT $4`, []any{f.Before, f.GPU, f.Family, f.Limit}, func(rows *sql.Rows) error {
			var text sql.RawBytes
			if err := rows.Scan(&text); err != nil {
				return err
			}
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
	return list, more || len(list) == f.Limit, nil
}

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

// scanJSON reads a row of one column, a document.
func scanJSON(rows *sql.Rows, to any) error {
	var text string
	if err := rows.Scan(&text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), to)
}
