package store

import (
	"context"
	"database/sql"
	"encoding/json"
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
func (s *Store) Observations(ctx context.Context, f service.ObservationFilter) ([]service.Observation, error) {
	observations, err := list(ctx, s, scanObservation, `
SELECT document FROM observations
WHERE ($1 = '' OR id < $1) AND ($2 = '' OR gpu = $2) AND ($3 = '' OR "family" = $3)
ORDER BY id DESC LIMIT $4`, f.Before, f.GPU, f.Family, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the observations: %w", err)
	}
	return observations, nil
}

func scanObservation(rows *sql.Rows) (o service.Observation, err error) { return o, scanJSON(rows, &o) }

// scanJSON reads a row of one column, a document.
func scanJSON(rows *sql.Rows, to any) error {
	var text string
	if err := rows.Scan(&text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), to)
}
