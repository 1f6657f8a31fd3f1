package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/vramplan/vramplan/migrations"
)

// Migration is one step of the schema's history.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
	// AppliedAt is nil for a migration that has not run.
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

// Migrate brings the database to the present schema and catalog, and returns what it
// ran: nothing if the database was up to date. Processes that start at
// once run each migration once; the others wait for the one that is at it.
func (s *Store) Migrate(ctx context.Context) ([]Migration, error) {
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate database %s: %w", s.path, err)
	}
	ran := make([]Migration, len(results))
	for i, r := range results {
		ran[i] = Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path), Applied: true}
	}
	return ran, nil
}

// Status lists all migrations, run or not.
func (s *Store) Status(ctx context.Context) ([]Migration, error) {
	provider, err := s.provider()
	if err != nil {
		return nil, err
	}
	statuses, err := provider.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the migrations of database %s: %w", s.path, err)
	}
	list := make([]Migration, len(statuses))
	for i, m := range statuses {
		list[i] = Migration{Version: m.Source.Version, Name: path.Base(m.Source.Path), Applied: m.State == goose.StateApplied}
		if list[i].Applied {
			at := m.AppliedAt.UTC()
			list[i].AppliedAt = &at
		}
	}
	return list, nil
}

func (s *Store) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations.SQLite, "sqlite")
	if err != nil {
		return nil, fmt.Errorf("open the migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, s.db, files, goose.WithLocker(&fileLock{path: s.path + "-migrate"}))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

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
