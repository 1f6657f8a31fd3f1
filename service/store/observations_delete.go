package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/vramplan/vramplan/service"
)

// ObservationMark implements service.Store.
func (s *Store) ObservationMark(ctx context.Context) (m service.ObservationMark, err error) {
	err = s.repeat(ctx, func() error {
		return s.db.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(MAX(id), '') FROM observations`).Scan(&m.Count,
			&m.Newest)
	})
	if err != nil {
		return m, fmt.Errorf("count the observations: %w", err)
	}
	return m, nil
}

// DeleteObservation implements service.Store.
func (s *Store) DeleteObservation(ctx context.Context, id string) (deleted bool, err error) {
	err = s.write(ctx, func(tx *writeTx) error {
		sealing, err := sealedObservations.begin(ctx, tx)
		if err != nil {
			return err
		}
		n, err := affected(tx.ExecContext(ctx, `DELETE FROM observations WHERE id = $1`, id))
		if err != nil {
			return err
		}
		if deleted = n > 0; deleted {
			if err := sealing.remove(ctx, id); err != nil {
				return err
			}
		}
		return sealing.end(ctx)
	})
	if err != nil {
		return false, fmt.Errorf("delete an observation: %w", err)
	}
	return deleted, nil
}

// DropObservations implements service.Store.
func (s *Store) DropObservations(ctx context.Context, before string, limit int) (dropped int64, err error) {
	err = s.write(ctx, func(tx *writeTx) error {
		sealing, err := sealedObservations.begin(ctx, tx)
		if err != nil {
			return err
		}
		var ids []string
		err = each(ctx, tx, `SELECT id FROM observations WHERE id < $1 ORDER BY id LIMIT $2`, []any{before, limit},
			func(rows *sql.Rows) error {
				var id string
				err := rows.Scan(&id)
				ids = append(ids, id)
				return err
			})
		if err != nil || len(ids) == 0 {
			return errors.Join(err, sealing.end(ctx))
		}
		dropped, err = affected(tx.ExecContext(ctx, `
DELETE FROM observations WHERE id IN (SELECT id FROM observations WHERE id < $1 ORDER BY id LIMIT $2)`, before, limit))
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := sealing.remove(ctx, id); err != nil {
				return err
			}
		}
		return sealing.end(ctx)
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
