package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/vramplan/vramplan/service"
)

// AddCalibration implements service.Store.
func (s *Store) AddCalibration(ctx context.Context, digest string, name func(number int64) *service.Calibration) (c *service.Calibration, known bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		// Whoever has this row is the only one to add a calibration until the end of the transaction.
		number, err := count(ctx, tx, "versions")
		if err != nil {
			return err
		}
		c, known = nil, false
		var text string
		switch err = tx.QueryRowContext(ctx, `SELECT document FROM calibrations WHERE digest = $1`, digest).Scan(&text); {
		case err == nil:
			known = true
			if err := json.Unmarshal([]byte(text), &c); err != nil {
				return fmt.Errorf("read the calibration with these figures: %w", err)
			}
			// The number is given back: numbers have no gaps.
			_, err = tx.ExecContext(ctx, `UPDATE calibration_state SET versions = versions - 1 WHERE id = 1`)
			return err
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("look for a calibration with these figures: %w", err)
		}
		c = name(number)
		return insertCalibration(ctx, tx, c)
	})
	return c, known, err
}

func insertCalibration(ctx context.Context, tx *sql.Tx, c *service.Calibration) error {
	document, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the calibration %s: %w", c.ID, err)
	}
	short := c.Summary()
	summary, err := json.Marshal(&short)
	if err != nil {
		return fmt.Errorf("encode the calibration %s: %w", c.ID, err)
	}
	_, err = tx.ExecContext(ctx, `
INSERT INTO calibrations (number, id, digest, summary, document) VALUES ($1, $2, $3, $4, $5)`, c.Number, c.ID, c.Digest, string(summary), string(document))
	if err != nil {
		return fmt.Errorf("store the calibration %s: %w", c.ID, err)
	}
	return nil
}

// count adds one to a column of calibration_state, which makes others wait, and reads it. The column is put into SQL, so it is not a
// client's.
func count(ctx context.Context, tx *sql.Tx, column string) (n int64, err error) {
	if _, err := tx.ExecContext(ctx, `UPDATE calibration_state SET `+column+` = `+column+` + 1 WHERE id = 1`); err != nil {
		return 0, fmt.Errorf("lock the calibrations: %w", err)
	}
	if err := tx.QueryRowContext(ctx, `SELECT `+column+` FROM calibration_state WHERE id = 1`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the calibrations: %w", err)
	}
	return n, nil
}

// Calibration implements service.Store.
func (s *Store) Calibration(ctx context.Context, id string) (*service.Calibration, int, error) {
	return calibrationOf(s.db.QueryRowContext(ctx, `SELECT document FROM calibrations WHERE id = $1`, id))
}

// calibrationOf reads a document; nil where there is none.
func calibrationOf(row *sql.Row) (*service.Calibration, int, error) {
	var text string
	switch err := row.Scan(&text); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("query a calibration: %w", err)
	}
	var c service.Calibration
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return nil, 0, fmt.Errorf("read a calibration: %w", err)
	}
	return &c, len(text), nil
}

// EachCalibration implements service.Store.
func (s *Store) EachCalibration(ctx context.Context, limit int, do func(c *service.Calibration, bytes int) (more bool, err error)) error {
	rows, err := s.db.QueryContext(ctx, `SELECT document FROM calibrations ORDER BY number DESC LIMIT $1`, limit)
	if err != nil {
		return fmt.Errorf("query the calibrations: %w", err)
	}
	defer rows.Close() // its error is that of rows.Err
	for more := true; more && rows.Next(); {
		var text string
		if err := rows.Scan(&text); err != nil {
			return fmt.Errorf("query the calibrations: %w", err)
		}
		var c service.Calibration
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return fmt.Errorf("read a calibration: %w", err)
		}
		if more, err = do(&c, len(text)); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Calibrations implements service.Store.
func (s *Store) Calibrations(ctx context.Context, f service.CalibrationFilter) ([]service.Calibration, error) {
	var list []service.Calibration
	err := s.each(ctx, `SELECT summary FROM calibrations WHERE number < $1 ORDER BY number DESC LIMIT $2`, []any{before(f), f.Limit}, func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		var c service.Calibration
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return err
		}
		list = append(list, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the calibrations: %w", err)
	}
	return list, nil
}

func before(f service.CalibrationFilter) int64 {
	if f.Before == 0 {
		return math.MaxInt64
	}
	return f.Before
}

// each hands every row of a query to do.
func (s *Store) each(ctx context.Context, query string, args []any, do func(*sql.Rows) error) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close() // its error is that of rows.Err
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Activate implements service.Store.
func (s *Store) Activate(ctx context.Context, a service.Activation) (*service.Activation, error) {
	err := s.write(ctx, func(tx *sql.Tx) error {
		number, err := count(ctx, tx, "activations")
		if err != nil {
			return err
		}
		a.Number = number
		_, err = tx.ExecContext(ctx, `
INSERT INTO calibration_activations (number, calibration_id, key_id, key_name, activated_at) VALUES ($1, $2, $3, $4, $5)`,
			a.Number, a.Calibration, a.By.KeyID, a.By.Name, timestamp(a.At))
		if err != nil {
			return fmt.Errorf("activate the calibration %s: %w", a.Calibration, err)
		}
		return nil
	})
	return &a, err
}

// Activations implements service.Store.
func (s *Store) Activations(ctx context.Context, f service.CalibrationFilter) ([]service.Activation, error) {
	var list []service.Activation
	err := s.each(ctx, `
SELECT number, calibration_id, key_id, key_name, activated_at FROM calibration_activations
WHERE number < $1 ORDER BY number DESC LIMIT $2`, []any{before(f), f.Limit}, func(rows *sql.Rows) error {
		var a service.Activation
		var at string
		err := rows.Scan(&a.Number, &a.Calibration, &a.By.KeyID, &a.By.Name, &at)
		if err == nil {
			a.At, err = parseTime(at)
		}
		list = append(list, a)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the activations: %w", err)
	}
	return list, nil
}

// CalibrationMark implements service.Store.
func (s *Store) CalibrationMark(ctx context.Context) (m service.CalibrationMark, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT versions, activations FROM calibration_state WHERE id = 1`).Scan(&m.Versions, &m.Activations); err != nil {
		return m, fmt.Errorf("query the state of the calibrations: %w", err)
	}
	return m, nil
}

// ActiveCalibration implements service.Store.
func (s *Store) ActiveCalibration(ctx context.Context, activation int64) (*service.Calibration, error) {
	c, _, err := calibrationOf(s.db.QueryRowContext(ctx, `
SELECT c.document FROM calibration_activations AS a JOIN calibrations AS c ON c.id = a.calibration_id WHERE a.number = $1`, activation))
	return c, err
}
