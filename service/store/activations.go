package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/vramplan/vramplan/service"
)

// Activate implements service.Store.
func (s *Store) Activate(ctx context.Context, look int, decide func([]service.Activation) (*service.Activation,
	error)) (a *service.Activation, err error) {
	err = s.write(ctx, func(tx *writeTx) error {
		// Whoever has this row is the only one to activate until the end of the transaction.
		number, err := count(ctx, tx, "activations")
		if err != nil {
			return err
		}
		var newest []service.Activation
		err = each(ctx, tx, newestActivations, []any{number, look}, func(rows *sql.Rows) error {
			one, err := scanActivation(rows)
			newest = append(newest, one)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the activations: %w", err)
		}
		if a, err = decide(newest); err != nil {
			return err
		}
		a.Number = number
		return insertActivation(ctx, tx, a)
	})
	return a, err
}

func insertActivation(ctx context.Context, tx *writeTx, a *service.Activation) error {
	sealing, err := sealedActivations.begin(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
INSERT INTO calibration_activations (number, calibration_id, key_id, key_name, activated_at) VALUES ($1, $2, $3, $4, $5)`,
		a.Number, a.Calibration, a.By.KeyID, a.By.Name, timestamp(a.At))
	if err == nil {
		err = sealing.add(ctx, a.Number, a.Calibration, a.By.KeyID, a.By.Name, timestamp(a.At))
	}
	if err == nil {
		err = sealing.end(ctx)
	}
	if err == nil && (a.Refused != "" || a.Reason != "") {
		err = insertDecision(ctx, tx, a)
	}
	if err != nil {
		return fmt.Errorf("activate the calibration %s: %w", a.Calibration, err)
	}
	return nil
}

func insertDecision(ctx context.Context, tx *writeTx, a *service.Activation) error {
	sealing, err := sealedDecisions.begin(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO calibration_decisions (activation, refused, reason) VALUES ($1, $2, $3)`,
		a.Number, a.Refused, a.Reason)
	if err != nil {
		return err
	}
	if err := sealing.add(ctx, a.Number, a.Refused, a.Reason); err != nil {
		return err
	}
	return sealing.end(ctx)
}

// newestActivations are in the order of the history.
const newestActivations = `
SELECT a.number, a.calibration_id, a.key_id, a.key_name, a.activated_at, COALESCE(d.refused, ''), COALESCE(d.reason, '')
FROM calibration_activations AS a LEFT JOIN calibration_decisions AS d ON d.activation = a.number
WHERE a.number < $1 ORDER BY a.number DESC LIMIT $2`

// Activations implements service.Store.
func (s *Store) Activations(ctx context.Context, f service.CalibrationFilter) ([]service.Activation, error) {
	activations, err := list(ctx, s, scanActivation, newestActivations, before(f), f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the activations: %w", err)
	}
	return activations, nil
}

func scanActivation(rows *sql.Rows) (a service.Activation, err error) {
	var at string
	if err := rows.Scan(&a.Number, &a.Calibration, &a.By.KeyID, &a.By.Name, &at, &a.Refused, &a.Reason); err != nil {
		return a, err
	}
	a.At, err = parseTime(at)
	return a, err
}
