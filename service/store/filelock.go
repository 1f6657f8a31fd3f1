package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// fileLock lets one process at a time migrate a database. goose reads which
// migrations have run before it runs the others, each in a transaction of its own, so
// SQLite's lock on the database alone does not keep two processes from running
// the same one. This lock is SQLite's too, on an empty database beside it: it
// works wherever the database does, and goes away with the process that holds it.
type fileLock struct {
	path string
	db   *sql.DB
	tx   *sql.Tx
}

// Lock waits for the lock, as long as ctx lets it.
func (l *fileLock) Lock(ctx context.Context, _ *sql.DB) error {
	db, err := sql.Open("sqlite", "file:"+l.path+"?_txlock=exclusive")
	if err != nil {
		return fmt.Errorf("lock the migrations: %w", err)
	}
	var tx *sql.Tx
	err = retryBusy(ctx, func() (err error) {
		// Not ctx itself: the transaction would end, and the lock with it, when ctx does.
		tx, err = db.BeginTx(context.WithoutCancel(ctx), nil)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("lock the migrations with %s: %w", l.path, err), db.Close())
	}
	l.db, l.tx = db, tx
	return nil
}

// Unlock lets the next process in.
func (l *fileLock) Unlock(context.Context, *sql.DB) error {
	return errors.Join(l.tx.Rollback(), l.db.Close())
}
