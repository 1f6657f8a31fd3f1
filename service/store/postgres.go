package store

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/vramplan/vramplan/migrations"
)

const (
	// connectTimeout bounds the wait for a server that does not answer at all, unless the name says otherwise.
	connectTimeout = 5 * time.Second
	// maxConnections is small on purpose: answers are given from memory, and many
	// replicas share one server.
	maxConnections = 8
	// maxConnectionAge lets connections move to another server behind the same name.
	maxConnectionAge = 15 * time.Minute
)

// openPostgres does not connect yet: a service must be able to start while its
// database is away.
func openPostgres(name string) (*Store, error) {
	config, err := pgx.ParseConfig(name)
	if err != nil {
		// The error repeats the name; pgx takes the password out of it.
		return nil, fmt.Errorf("database: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if _, given := config.RuntimeParams["application_name"]; !given {
		config.RuntimeParams["application_name"] = "vramplan"
	}
	files, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		return nil, fmt.Errorf("open the migrations: %w", err)
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	db.SetConnMaxLifetime(maxConnectionAge)
	return &Store{db: db, name: withoutPassword(name), acknowledged: map[string]int64{}, dialect: dialect{
		goose:      goose.DialectPostgres,
		migrations: files,
		lock:       func(s *Store) lock.Locker { return &rowLock{repeat: s.repeat} },
		snapshot:   sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead},
		again:      isConflict,
	}}, nil
}

// withoutPassword is a database's name that may be shown: its parameters can hold a
// password too, so they are left out.
func withoutPassword(name string) string {
	u, err := url.Parse(name)
	if err != nil {
		return "postgres://…"
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host") // a unix socket
	}
	shown := url.URL{Scheme: "postgres", Host: host, Path: u.Path}
	if u.User != nil {
		shown.User = url.User(u.User.Username())
	}
	return shown.String()
}

// isConflict recognises a transaction that the server gave up in favour of another.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	const serializationFailure, deadlock = "40001", "40P01"
	return ok && (e.Code == serializationFailure || e.Code == deadlock)
}

// explained says what an operator can do about an error that is neither the network's nor the server's.
func explained(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	const insufficientPrivilege = "42501"
	if ok && e.Code == insufficientPrivilege {
		return fmt.Errorf("the server answers, and the database's role has no right to this (GRANT it, or use "+
			"another role): %w", err)
	}
	return err
}
