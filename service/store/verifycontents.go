package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// verifyCatalog holds the catalog against what was shipped and entered, and its counter against the history.
func verifyCatalog(ctx context.Context, tx *sql.Tx, r *Report) error {
	c, err := reader{tx}.contents(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		r.add("catalog_state", "1", "it is missing")
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range c.Faults {
		r.add("", "", "%s", f)
	}
	if err := verifyEdition(ctx, tx, r); err != nil {
		return err
	}
	return verifyCounter(ctx, tx, r, "catalog_state", "user_changes", sealedHistory)
}

// verifyCounter compares a counter with the rows that it counts: their numbers have no gaps.
func verifyCounter(ctx context.Context, tx *sql.Tx, r *Report, table, column string, of sealed) error {
	var counted, rows, last int64
	err := tx.QueryRowContext(ctx, `SELECT `+column+` FROM `+table+` WHERE id = 1`).Scan(&counted)
	if errors.Is(err, sql.ErrNoRows) {
		r.add(table, "1", "it is missing")
		return nil
	}
	if err != nil {
		return err
	}
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(MAX(`+of.key+`), 0) FROM `+of.name).Scan(&rows, &last)
	if err == nil && (counted != rows || counted != last) {
		r.add(table, "1", "%s is %d, and %s has %d rows up to the number %d", column, counted, of.name, rows, last)
	}
	return err
}

// verifyCalibrations looks into the calibrations: their documents are those of their rows.
func verifyCalibrations(ctx context.Context, tx *sql.Tx, r *Report) error {
	err := each(ctx, tx, sealedCalibrations.rows(""), nil, func(rows *sql.Rows) error {
		row, err := sealedCalibrations.scan(rows)
		if err != nil || row.seal == altered {
			return err
		}
		var named struct {
			ID     string `json:"id"`
			Number int64  `json:"number"`
			Digest string `json:"digest"`
		}
		id, digest := string(row.values[calibrationID]), string(row.values[calibrationDigest])
		err = json.Unmarshal(row.values[calibrationDocument], &named)
		if err != nil || named.ID != id || fmt.Sprint(named.Number) != row.key || named.Digest != digest {
			r.add("calibrations", row.key, "its document is not that of %s", id)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := verifyCounter(ctx, tx, r, "calibration_state", "versions", sealedCalibrations); err != nil {
		return err
	}
	return verifyCounter(ctx, tx, r, "calibration_state", "activations", sealedActivations)
}

// references are rows that name another which is not there, with what is wrong with them.
var references = []struct{ table, query, problem string }{
	{"gpu_aliases", `SELECT a.alias FROM gpu_aliases AS a LEFT JOIN gpus AS e ON e.id = a.gpu_id AND e.origin = a.origin WHERE e.id IS NULL`, "its card is not there"},
	{"model_aliases", `SELECT a.alias FROM model_aliases AS a LEFT JOIN models AS e ON e.id = a.model_id AND e.origin = a.origin WHERE e.id IS NULL`, "its model is not there"},
	{"calibration_decisions", `
SELECT CAST(d.activation AS TEXT) FROM calibration_decisions AS d LEFT JOIN calibration_activations AS a ON a.number = d.activation WHERE a.number IS NULL`, "its activation is not there"},
	{"calibration_activations", `
SELECT CAST(a.number AS TEXT) FROM calibration_activations AS a LEFT JOIN calibrations AS c ON c.id = a.calibration_id
WHERE a.calibration_id LIKE 'cal-%' AND c.id IS NULL`, "its calibration is not there"},
}

func verifyReferences(ctx context.Context, tx *sql.Tx, r *Report) error {
	for _, reference := range references {
		err := each(ctx, tx, reference.query, nil, func(rows *sql.Rows) error {
			var row string
			err := rows.Scan(&row)
			if err == nil {
				r.add(reference.table, row, "%s", reference.problem)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
