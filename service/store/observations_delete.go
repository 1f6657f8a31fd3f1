package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/vramplan/vramplan/service"
)

// ObservationMark implements service.Store.
func (s *Store) ObservationMark(ctx context.Context) (m service.ObservationMark, err error) {
	err = s.repeat(ctx, func() error {
		return s.db.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(MAX(id), '') FROM observations`).Scan(&m.Count, &m.Newest)
	})
	if err != nil {
		return m, fmt.Errorf("count the observations: %w", err)
	}
	return m, nil
}

// DeleteObservation implements service.Store.
func (s *Store) DeleteObservation(ctx context.Context, id string) (deleted bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, `DELETE FROM observations WHERE id = $1`, id))
		deleted = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete an observation: %w", err)
	}
	return deleted, nil
}

// DropObservations implements service.Store.
func (s *Store) DropObservations(ctx context.Context, before string, limit int) (dropped int64, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		dropped, err = affected(tx.ExecContext(ctx, `
DELETE FROM observations WHERE id IN (SELECT id FROM observations WHERE id < $1 ORDER BY id LIMIT $2)`, before, limit))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete old observations: %w", err)
	}
	return dropped, nil
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
