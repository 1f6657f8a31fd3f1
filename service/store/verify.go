package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/vramplan/vramplan/service"
)

// mostFaults bounds what a report names; the others are counted.
const mostFaults = 1000

// Fault is something in a database that is not what the service wrote.
type Fault struct {
	// Table and Row say where; both may be empty, where it is about the whole.
	Table   string `json:"table,omitempty"`
	Row     string `json:"row,omitempty"`
	Problem string `json:"problem"`
}

func (f Fault) String() string {
	switch {
	case f.Row != "":
		return f.Table + " " + f.Row + ": " + f.Problem
	case f.Table != "":
		return f.Table + ": " + f.Problem
	}
	return f.Problem
}

// Report is what Verify found.
type Report struct {
	// Faults are up to a thousand; Count counts all of them.
	Faults []Fault `json:"faults"`
	Count  int     `json:"count"`
	// Rows counts the rows that were compared with their digests, by table.
	Rows map[string]int64 `json:"rows"`
	// Writes counts the transactions that wrote a table since it has digests.
	Writes map[string]int64 `json:"writes"`
}

// NewReport is one without faults.
func NewReport() *Report {
	return &Report{Faults: []Fault{}, Rows: map[string]int64{}, Writes: map[string]int64{}}
}

// Note adds a fault of the whole.
func (r *Report) Note(problem string) { r.add("", "", "%s", problem) }

func (r *Report) add(table, row, problem string, args ...any) {
	if r.Count++; len(r.Faults) < mostFaults {
		r.Faults = append(r.Faults, Fault{table, row, fmt.Sprintf(problem, args...)})
	}
}

// Verify looks at all that the database holds: whether rows are what was written and all of them are there, counters
// agree with what they count, the catalog is what was shipped and entered, references lead somewhere, every migration
// ran and the tables are those that they make. It changes nothing. The error is of a database that could not be looked
// at.
func (s *Store) Verify(ctx context.Context) (*Report, error) {
	r := NewReport()
	if s.guard != nil {
		if err := s.guard.check(); err != nil {
			r.Note(err.Error())
			return r, nil
		}
		if err := s.inspect(ctx, r, "", s.verifyFile); err != nil {
			return nil, err
		}
	}
	missing, err := s.verifyMigrations(ctx, r)
	if err != nil || missing {
		return r, err
	}
	if err := s.inspect(ctx, r, "", s.verifySchema); err != nil {
		return nil, err
	}
	acknowledged := s.acknowledgedWrites() // before what is there is read
	for _, t := range sealedTables {
		if err := s.inspect(ctx, r, t.name, t.verify); err != nil {
			return nil, err
		}
		if has, known := r.Writes[t.name]; known && has < acknowledged[t.name] {
			r.add(t.name, "", "this process acknowledged its write number %d, and it was written %d times: "+
				"writes were lost", acknowledged[t.name], has)
		}
	}
	for _, check := range []inspection{verifyCatalog, verifyCalibrations, verifyReferences} {
		if err := s.inspect(ctx, r, "", check); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// inspection is a check of what a transaction sees.
type inspection func(context.Context, *sql.Tx, *Report) error

// inspect runs a check on one moment of the database. What the database says of its own damage is what the check was
// for.
func (s *Store) inspect(ctx context.Context, r *Report, table string, check inspection) error {
	var found *Report
	err := s.repeat(ctx, func() error {
		found = NewReport()
		tx, err := s.db.BeginTx(ctx, &s.dialect.snapshot)
		if err != nil {
			return err
		}
		defer tx.Rollback() // nothing was written
		return check(ctx, tx, found)
	})
	for _, f := range found.Faults {
		r.add(f.Table, f.Row, "%s", f.Problem)
	}
	r.Count += found.Count - len(found.Faults)
	maps.Copy(r.Rows, found.Rows)
	maps.Copy(r.Writes, found.Writes)
	if isDamage(err) {
		r.add(table, "", "it cannot be read: %v", err)
		return nil
	}
	if err != nil && table != "" {
		return fmt.Errorf("verify the table %s: %w", table, err)
	}
	return err
}

// isDamage recognises a database's own words for files that are not what it wrote, and what is not there any more.
func isDamage(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_IOERR:
			return true
		}
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code[:2] {
		// internal errors with damaged data among them, errors of files, data that cannot be what a type is
		case "XX", "58", "22":
			return true
		}
		return e.Code == "42P01" || e.Code == "42703" // a table or a column is missing
	}
	return false
}

// verify compares every row with its digest, and the digests with their sum.
func (t sealed) verify(ctx context.Context, tx *sql.Tx, r *Report) error {
	var digests sum
	var count, rows int64
	err := each(ctx, tx, t.rows(""), nil, func(in *sql.Rows) error {
		row, err := t.scan(in)
		if err != nil {
			return err
		}
		rows++
		switch row.seal {
		case altered:
			r.add(t.name, row.key, "it was altered: its digest is another")
		case unsealed:
			r.add(t.name, row.key, "it has no digest: an older version of vramplan wrote it, or somebody "+
				"behind the service")
			return nil
		}
		count++
		if digests.add(row.stored) != nil {
			r.add(t.name, row.key, "its digest is none")
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Rows[t.name] = rows
	err = each(ctx, tx, `
SELECT d.row_key, d.digest FROM row_digests AS d LEFT JOIN `+t.name+` AS t ON CAST(t.`+t.key+` AS TEXT) = d.row_key
WHERE d.table_name = $1 AND t.`+t.key+` IS NULL`, []any{t.name}, func(in *sql.Rows) error {
		var key, digest string
		if err := in.Scan(&key, &digest); err != nil {
			return err
		}
		r.add(t.name, key, "it is missing: there is a digest of it")
		count++
		_ = digests.add(digest) // what is no digest makes another sum
		return nil
	})
	if err != nil {
		return err
	}
	var writes, counted int64
	var text string
	err = tx.QueryRowContext(ctx, `SELECT writes, row_count, digest FROM table_digests WHERE table_name = $1`,
		t.name).Scan(&writes, &counted, &text)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		r.add(t.name, "", "its digest is missing in table_digests")
		return nil
	case err != nil:
		return err
	}
	r.Writes[t.name] = writes
	if writes < 0 {
		r.add(t.name, "", "its rows have no digests yet: vramplan migrate makes them")
		return nil
	}
	if total, err := parseSum(text); err != nil || counted != count || total.n.Cmp(&digests.n) != 0 {
		r.add(t.name, "", "rows were put back or taken away: it has %d digests, of which the sum is not that of the "+
			"%d that were written", count, counted)
	}
	return nil
}

// verifyFile asks SQLite about its file.
func (s *Store) verifyFile(ctx context.Context, tx *sql.Tx, r *Report) error {
	return each(ctx, tx, `PRAGMA integrity_check(100)`, nil, func(rows *sql.Rows) error {
		var said string
		err := rows.Scan(&said)
		if err == nil && said != "ok" {
			r.add("", "", "the file: %s", said)
		}
		return err
	})
}

// Check is Verify for a service.
func (s *Store) Check(ctx context.Context) (*service.StoreCheck, error) {
	r, err := s.Verify(ctx)
	if err != nil {
		return nil, err
	}
	c := &service.StoreCheck{Count: r.Count, Writes: r.Writes}
	for _, f := range r.Faults {
		c.Faults = append(c.Faults, f.String())
	}
	return c, nil
}
