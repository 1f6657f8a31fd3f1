package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/vramplan/vramplan/service"
)

// AddCalibration implements service.Store.
func (s *Store) AddCalibration(ctx context.Context, digest string,
	name func(number int64) *service.Calibration) (c *service.Calibration, known bool, err error) {
	err = s.write(ctx, func(tx *writeTx) error {
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

func insertCalibration(ctx context.Context, tx *writeTx, c *service.Calibration) error {
	document, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the calibration %s: %w", c.ID, err)
	}
	short := c.Summary()
	summary, err := json.Marshal(&short)
	if err != nil {
		return fmt.Errorf("encode the calibration %s: %w", c.ID, err)
	}
	sealing, err := sealedCalibrations.begin(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
INSERT INTO calibrations (number, id, digest, summary, document) VALUES ($1, $2, $3, $4, $5)`, c.Number, c.ID, c.Digest, string(summary), string(document))
	if err == nil {
		err = sealing.add(ctx, c.Number, c.ID, c.Digest, string(summary), string(document))
	}
	if err == nil {
		err = sealing.end(ctx)
	}
	if err != nil {
		return fmt.Errorf("store the calibration %s: %w", c.ID, err)
	}
	return nil
}

// count adds one to a column of calibration_state, which makes others wait, and reads it. The column is put into SQL,
// so it is not a client's.
func count(ctx context.Context, tx *writeTx, column string) (n int64, err error) {
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
	c, err := first(ctx, s, scanStored, sealedCalibrations.rows(`WHERE t.id = $1`), id)
	if err != nil {
		return nil, 0, fmt.Errorf("read a calibration: %w", err)
	}
	if c == nil {
		return nil, 0, nil
	}
	if c.altered {
		return nil, 0, &service.AlteredError{What: "the calibration " + id}
	}
	return &c.calibration, c.bytes, nil
}

// stored is a calibration as its row has it.
type stored struct {
	number      int64
	calibration service.Calibration
	bytes       int
	altered     bool // the rest is not to be used
}

// Where columns are among those of a calibration.
const (
	calibrationID = iota
	calibrationDigest
	calibrationSummary
	calibrationDocument
)

func scanStored(rows *sql.Rows) (c stored, err error) {
	r, err := sealedCalibrations.scan(rows)
	if err != nil {
		return c, err
	}
	if c.number, err = strconv.ParseInt(r.key, 10, 64); err != nil {
		return c, err
	}
	text := r.values[calibrationDocument]
	c.bytes = len(text)
	if r.seal != altered {
		err = json.Unmarshal(text, &c.calibration)
	}
	c.altered = r.seal == altered || err == nil && string(r.values[calibrationID]) != c.calibration.ID
	return c, err
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

// EachCalibration implements service.Store.
func (s *Store) EachCalibration(ctx context.Context, limit int, do func(c *service.Calibration, bytes int) (more bool,
	err error)) error {
	before := int64(math.MaxInt64)
	query := sealedCalibrations.rows(`WHERE t.number < $1 ORDER BY t.number DESC LIMIT $2`)
	err := s.repeat(ctx, func() error {
		return each(ctx, s.db, query, []any{before, limit}, func(rows *sql.Rows) error {
			c, err := scanStored(rows)
			if err != nil {
				return err
			}
			// Rows never change: one that was handed over is not read again.
			before, limit = c.number, limit-1
			if c.altered {
				return nil
			}
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
	rows, err := list(ctx, s, scanSummary,
		sealedCalibrations.rows(`WHERE t.number < $1 ORDER BY t.number DESC LIMIT $2`), before(f), f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the calibrations: %w", err)
	}
	calibrations := make([]service.Calibration, 0, len(rows))
	for _, c := range rows {
		if c != nil {
			calibrations = append(calibrations, *c)
		}
	}
	return calibrations, nil
}

// scanSummary is nil for a row that was altered.
func scanSummary(rows *sql.Rows) (*service.Calibration, error) {
	r, err := sealedCalibrations.scan(rows)
	if err != nil || r.seal == altered {
		return nil, err
	}
	var c service.Calibration
	return &c, json.Unmarshal(r.values[calibrationSummary], &c)
}

func before(f service.CalibrationFilter) int64 {
	if f.Before == 0 {
		return math.MaxInt64
	}
	return f.Before
}

// CalibrationMark implements service.Store.
func (s *Store) CalibrationMark(ctx context.Context) (m service.CalibrationMark, err error) {
	err = s.repeat(ctx, func() error {
		return s.db.QueryRowContext(ctx,
			`SELECT versions, activations FROM calibration_state WHERE id = 1`).Scan(&m.Versions, &m.Activations)
	})
	if err != nil {
		return m, fmt.Errorf("query the state of the calibrations: %w", err)
	}
	return m, nil
}

// ActiveCalibration implements service.Store.
func (s *Store) ActiveCalibration(ctx context.Context, activation int64) (*service.Calibration, error) {
	id, err := first(ctx, s, scanActivated, sealedActivations.rows(`WHERE t.number = $1`), activation)
	if err != nil {
		return nil, fmt.Errorf("read the active calibration: %w", err)
	}
	switch {
	case id == nil && activation == 0:
		return nil, nil
	case id == nil || *id == "":
		return nil, &service.AlteredError{What: fmt.Sprintf("the activation %d of a calibration", activation)}
	}
	c, _, err := s.Calibration(ctx, *id)
	return c, err
}

// scanActivated is the id that was activated; empty where the row was altered.
func scanActivated(rows *sql.Rows) (id string, err error) {
	r, err := sealedActivations.scan(rows)
	if err != nil || r.seal == altered {
		return "", err
	}
	return string(r.values[0]), nil
}
