// Package store keeps the catalog in a database: SQLite now, through
// database/sql, with SQL that PostgreSQL understands too outside the migrations.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// busyTimeout is how long a statement waits for another process that writes.
const busyTimeout = 10 * time.Second

// Store is an open database.
type Store struct {
	db *sql.DB
	// path is the database's file.
	path string
}

// Open opens a database, and makes it if it does not exist; Migrate gives it its
// tables. The name is file:PATH, with SQLite's own parameters behind it
// where wanted. PostgreSQL is not supported yet, and a database in
// memory is refused, since each connection of the pool would get its own.
func Open(ctx context.Context, name string) (*Store, error) {
	dsn, path, err := sqliteDSN(name)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	// SQLite has one writer; a few more connections let reads go on beside it.
	db.SetMaxOpenConns(4)
	if err := retryBusy(ctx, func() error { return db.PingContext(ctx) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, err), db.Close())
	}
	return &Store{db: db, path: path}, nil
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// sqliteDSN adds what every connection needs to a database's name.
func sqliteDSN(name string) (dsn, path string, err error) {
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		return "", "", errors.New("database postgres://…: PostgreSQL is not supported yet; use file:PATH")
	case name == "":
		return "", "", errors.New("the database has no name; use file:PATH, such as file:vramplan.db")
	case !strings.HasPrefix(name, "file:") && strings.Contains(name, "://"):
		return "", "", fmt.Errorf("database %q: use file:PATH, such as file:vramplan.db", name)
	}
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
