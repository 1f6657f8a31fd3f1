package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/vramplan/vramplan/service"
)

// repeat does again what the database gave up in favour of others: do must change
// nothing but the database, and begin its answer anew. Servers that run every
// transaction serializable do so with reads too.
func (s *Store) repeat(ctx context.Context, do func() error) error {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		err := do()
		if err == nil || !s.dialect.again(err) {
			return explained(err)
		}
		// Not all at the same time: of those that write one row, each round lets one through.
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(rand.N(wait)):
		}
	}
}

// writeTx is a transaction that writes, with how often the tables that it wrote were written by then.
type writeTx struct {
	*sql.Tx
	writes map[string]int64
}

// acknowledge remembers what a transaction wrote that is about to be acknowledged: a database that has fewer writes has
// lost some.
func (s *Store) acknowledge(writes map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for table, n := range writes {
		s.acknowledged[table] = max(s.acknowledged[table], n)
	}
}

func (s *Store) acknowledgedWrites() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.acknowledged)
}

// write runs do in a transaction. An error of do undoes all of it. An error that is a service.NotStored came before the
// database was asked to commit, so that nothing of the transaction is kept.
func (s *Store) write(ctx context.Context, do func(tx *writeTx) error) error {
	committing := false
	err := s.repeat(ctx, func() error {
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return fmt.Errorf("begin to write: %w", err)
		}
		defer tx.Rollback() // does nothing after the commit
		writing := &writeTx{tx, map[string]int64{}}
		if err := do(writing); err != nil {
			return err
		}
		var number int64
		if s.guard != nil {
			if number, err = s.guard.count(ctx, tx); err != nil {
				return err
			}
		}
		committing = true
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if s.guard != nil {
			if err := s.guard.acknowledge(number); err != nil {
				return err
			}
		}
		s.acknowledge(writing.writes)
		return nil
	})
	s.outcomes.note(err)
	if err != nil && !committing {
		return &service.NotStored{Err: err}
	}
	return err
}

// list reads all rows of a query.
func list[T any](ctx context.Context, s *Store, scan func(*sql.Rows) (T, error), query string,
	args ...any) (all []T, err error) {
	err = s.repeat(ctx, func() error {
		all = nil
		return each(ctx, s.db, query, args, func(rows *sql.Rows) error {
			one, err := scan(rows)
			all = append(all, one)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// first reads the first row of a query; nil is none.
func first[T any](ctx context.Context, s *Store, scan func(*sql.Rows) (T, error), query string,
	args ...any) (*T, error) {
	all, err := list(ctx, s, scan, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// each hands every row of a query to do.
func each(ctx context.Context, q querier, query string, args []any, do func(*sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, query, args...)
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
