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
	c, err := first(ctx, s, scanStored, `SELECT number, document FROM calibrations WHERE id = $1`, id)
	if err != nil {
		return nil, 0, fmt.Errorf("read a calibration: %w", err)
	}
	if c == nil {
		return nil, 0, nil
	}
	return &c.calibration, c.bytes, nil
}

// stored is a calibration as its row has it.
type stored struct {
	number      int64
	calibration service.Calibration
	bytes       int
}

func scanStored(rows *sql.Rows) (c stored, err error) {
	var text string
	if err := rows.Scan(&c.number, &text); err != nil {
		return c, err
	}
	c.bytes = len(text)
	return c, json.Unmarshal([]byte(text), &c.calibration)
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

// EachCalibration implements service.Store.
func (s *Store) EachCalibration(ctx context.Context, limit int, do func(c *service.Calibration, bytes int) (more bool, err error)) error {
	before := int64(math.MaxInt64)
	err := s.repeat(ctx, func() error {
		return each(ctx, s.db, `SELECT number, document FROM calibrations WHERE number < $1 ORDER BY number DESC LIMIT $2`, []any{before, limit}, func(rows *sql.Rows) error {
			c, err := scanStored(rows)
			if err != nil {
				return err
			}
			// Rows never change: one that was handed over is not read again.
			before, limit = c.number, limit-1
			more, err := do(&c.calibration, c.bytes)
			if err == nil && !more {
				err = errEnough
			}
			return err
		})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read the calibrations: %w", err)
	}
	return nil
}

// Calibrations implements service.Store.
func (s *Store) Calibrations(ctx context.Context, f service.CalibrationFilter) ([]service.Calibration, error) {
	calibrations, err := list(ctx, s, scanSummary, `SELECT summary FROM calibrations WHERE number < $1 ORDER BY number DESC LIMIT $2`, before(f), f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the calibrations: %w", err)
	}
	return calibrations, nil
}

func scanSummary(rows *sql.Rows) (c service.Calibration, err error) { return c, scanJSON(rows, &c) }

func before(f service.CalibrationFilter) int64 {
	if f.Before == 0 {
		return math.MaxInt64
	}
	return f.Before
}

// CalibrationMark implements service.Store.
func (s *Store) CalibrationMark(ctx context.Context) (m service.CalibrationMark, err error) {
	err = s.repeat(ctx, func() error {
		return s.db.QueryRowContext(ctx, `SELECT versions, activations FROM calibration_state WHERE id = 1`).Scan(&m.Versions, &m.Activations)
	})
	if err != nil {
		return m, fmt.Errorf("query the state of the calibrations: %w", err)
	}
	return m, nil
}

// ActiveCalibration implements service.Store.
func (s *Store) ActiveCalibration(ctx context.Context, activation int64) (*service.Calibration, error) {
	c, err := first(ctx, s, scanStored, `
SELECT c.number, c.document FROM calibration_activations AS a JOIN calibrations AS c ON c.id = a.calibration_id WHERE a.number = $1`, activation)
	if err != nil {
		return nil, fmt.Errorf("read the active calibration: %w", err)
	}
	if c == nil {
		return nil, nil
	}
	return &c.calibration, nil
}
