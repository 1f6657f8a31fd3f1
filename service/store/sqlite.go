package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/vramplan/vramplan/migrations"
)

// busyTimeout is how long a statement waits for another process that writes.
const busyTimeout = 10 * time.Second

func openSQLite(ctx context.Context, name string) (*Store, error) {
	dsn, path, err := sqliteDSN(name)
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations.SQLite, "sqlite")
	if err != nil {
		return nil, fmt.Errorf("open the migrations: %w", err)
	}
	g := &guard{path: path, dsn: dsn}
	if err := g.before(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	// SQLite has one writer; a few more connections let reads go on beside it.
	db.SetMaxOpenConns(4)
	if err := retryBusy(ctx, func() error { return db.PingContext(ctx) }); err != nil {
		err = fmt.Errorf("open database %s: %w", path, err)
		if isDamage(err) {
			err = &damaged{err}
		}
		return nil, errors.Join(err, db.Close())
	}
	if err := retryBusy(ctx, func() error { return g.open(ctx, db) }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{db: db, name: path, guard: g, acknowledged: map[string]int64{}, dialect: dialect{
		goose:      goose.DialectSQLite3,
		migrations: files,
		lock:       func(*Store) lock.Locker { return &fileLock{path: path + "-migrate"} },
		snapshot:   sql.TxOptions{ReadOnly: true}, // all of SQLite's transactions see one moment
		again:      isBusy,
	}}, nil
}

// sqliteDSN adds what every connection needs to a database's name.
func sqliteDSN(name string) (dsn, path string, err error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(name, "file:"), "?")
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return "", "", fmt.Errorf("database %q: parameters: %w", name, err)
	}
	if path == "" || strings.Contains(path, ":memory:") || parameters.Get("mode") == "memory" {
		return "", "", fmt.Errorf("database %q is not a file; use file:PATH, such as file:vramplan.db", name)
	}
	for _, pragma := range []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(WAL)", // readers do not wait for the writer
		"synchronous(FULL)", // what was acknowledged is on disk
		"foreign_keys(1)",
	} {
		parameters.Add("_pragma", pragma)
	}
	// A transaction that reads and then writes would fail at the write if another
	// wrote in between; taking the lock at its beginning makes it wait instead.
	parameters.Set("_txlock", "immediate")
	return "file:" + path + "?" + parameters.Encode(), path, nil
}
