// Package store keeps what users enter in a database: SQLite in a file, or
// PostgreSQL and what speaks its language, through database/sql.
//
// The two behave alike: one suite of tests runs on both, and one text of SQL serves
// both, written so that CockroachDB and YugabyteDB take it too: no extensions, no
// triggers, no stored procedures, no types beyond TEXT, INTEGER and BIGINT. What
// differs is in the dialects and in the first migration of each.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Store is an open database.
type Store struct {
	db *sql.DB
	// name is the database as logs and errors may show it: without a password.
	name    string
	dialect dialect
	// guard watches the file of an SQLite database; nil for a server.
	guard *guard

	mu sync.Mutex
	// acknowledged are the writes of each table that this process has acknowledged.
	acknowledged map[string]int64

	outcomes outcomes
}

// dialect is what the kinds of database do differently.
type dialect struct {
	goose goose.Dialect
	// migrations are the numbered SQL files.
	migrations fs.FS
	// lock makes what lets one process at a time migrate.
	lock func(*Store) lock.Locker
	// snapshot are the options of a transaction that reads everything as of one moment.
	snapshot sql.TxOptions
	// again says that a transaction failed only because of others that ran
	// beside it, and did nothing.
	again func(error) bool
}

// Open opens a database: file:PATH is an SQLite file, which is made if it does
// not exist, and postgres://… a PostgreSQL server, which need not be there yet.
// Migrate gives it its tables.
func Open(ctx context.Context, name string) (*Store, error) {
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		return openPostgres(name)
	case name == "":
		return nil, errors.New("the database has no name; use file:PATH, such as file:vramplan.db, or " +
			"postgres://USER@HOST/DATABASE")
	case !strings.HasPrefix(name, "file:") && strings.Contains(name, "://"):
		scheme, _, _ := strings.Cut(name, "://") // the rest may hold a password
		return nil, fmt.Errorf("database %.20q: use file:PATH, such as file:vramplan.db, or "+
			"postgres://USER@HOST/DATABASE", scheme+"://…")
	}
	return openSQLite(ctx, name)
}

// ErrDamaged is what errors of databases are that could be opened only if they were what was written.
var ErrDamaged = errors.New("the database is damaged")

type damaged struct{ error }

func (d *damaged) Is(target error) bool { return target == ErrDamaged }

func (d *damaged) Unwrap() error { return d.error }

// OpenExisting is Open, and makes no file.
func OpenExisting(ctx context.Context, name string) (*Store, error) {
	if path, parameters, _ := strings.Cut(name, "?"); !strings.Contains(path, "://") && path != "" &&
		!strings.Contains(parameters, "mode=") {
		name = path + "?mode=rw"
		if parameters != "" {
			name += "&" + parameters
		}
	}
	return Open(ctx, name)
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Name is the database's name for logs, without a password.
func (s *Store) Name() string { return s.name }

// Remote says that the database is a server, which can be gone while the process lives.
func (s *Store) Remote() bool { return s.dialect.goose != goose.DialectSQLite3 }
