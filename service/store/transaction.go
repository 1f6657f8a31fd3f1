package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// write runs do in a transaction, and again where the database gave the
// transaction up in favour of another: do must change nothing but the database.
// An error of do undoes all of it.
func (s *Store) write(ctx context.Context, do func(tx *sql.Tx) error) error {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		err := s.writeOnce(ctx, do)
		if err == nil || !s.dialect.again(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
	}
}

func (s *Store) writeOnce(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to write: %w", err)
	}
	defer tx.Rollback() // does nothing after the commit
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// timestamp is a time as the database keeps it.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// optional is a time that may be missing.
func optional(t *time.Time) sql.NullString {
	if t == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: timestamp(*t), Valid: true}
}

func parseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) }

func parseOptional(s sql.NullString) (*time.Time, error) {
	if !s.Valid {
		return nil, nil
	}
	t, err := parseTime(s.String)
	return &t, err
}
