package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// lockPatience is how long one process waits for another that migrates.
const lockPatience = 5 * time.Minute

// rowLock lets one process at a time migrate a database on a server: a row that a
// transaction on a connection of its own has changed and will not commit. Others that
// change it wait until the transaction ends, as it does with its process.
//
// PostgreSQL's advisory locks would need no table. CockroachDB has functions of these names
// that lock nothing, YugabyteDB has none before 2025.1, and a pooler that shares sessions
// takes the lock on one connection and migrates on another.
type rowLock struct {
	repeat func(context.Context, func() error) error
	tx     *sql.Tx
}

// Lock waits for the lock.
func (l *rowLock) Lock(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	err := l.repeat(ctx, func() error {
		if err := prepareLock(ctx, db); err != nil {
			return err
		}
		// Not ctx itself: the transaction would end, and the lock with it, when ctx does.
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `UPDATE migration_lock SET taken = taken + 1 WHERE id = 1`)
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(fmt.Errorf("the table migration_lock has %d rows with the id 1, not one", n), err,
				tx.Rollback())
		}
		l.tx = tx
		return nil
	})
	if err != nil {
		return fmt.Errorf("lock the migrations: %w", err)
	}
	return nil
}

// prepareLock makes the row where it is not there yet.
func prepareLock(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx,
		`CREATE TABLE IF NOT EXISTS migration_lock (id INTEGER PRIMARY KEY, taken BIGINT NOT NULL)`)
	if err != nil && !isMade(err) {
		return err
	}
	_, err = db.ExecContext(ctx, `INSERT INTO migration_lock (id, taken) VALUES (1, 0) ON CONFLICT (id) DO NOTHING`)
	return err
}

// isMade says that another process made the table at the same time, which IF NOT EXISTS does not cover.
func isMade(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	const duplicateTable, duplicateType, uniqueViolation = "42P07", "42710", "23505"
	return ok && (e.Code == duplicateTable || e.Code == duplicateType || e.Code == uniqueViolation)
}

// Unlock lets the next process in.
func (l *rowLock) Unlock(context.Context, *sql.DB) error {
	if err := l.tx.Rollback(); err != nil {
		return fmt.Errorf("unlock the migrations: %w", err)
	}
	return nil
}
