package store

import (
	"context"
	"database/sql"
	"testing"

	"github.com/vramplan/vramplan/service/store/pgtest"
)

// The second waits for the first, which ends by itself or with its connection.
func TestRowLock(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(t *testing.T, l *rowLock, db, watcher *sql.DB){
		"unlocked": func(t *testing.T, l *rowLock, db, _ *sql.DB) {
			if err := l.Unlock(t.Context(), db); err != nil {
				t.Error(err)
			}
		},
		"died": func(t *testing.T, l *rowLock, db, watcher *sql.DB) {
			if _, err := watcher.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`); err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(t.Context(), db); err == nil {
				t.Error("nobody was told that the lock was lost")
			}
		},
	} {
		for _, isolation := range []string{"read%20committed", "serializable"} {
			t.Run(name+"/"+isolation, func(t *testing.T) {
				database := pgtest.Database(t)
				s, err := openPostgres(database + "&default_transaction_isolation=" + isolation)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				watcher, err := sql.Open("pgx", database)
				if err != nil {
					t.Fatal(err)
				}
				defer watcher.Close()
				a, b := &rowLock{repeat: s.repeat}, &rowLock{repeat: s.repeat}
				if err := a.Lock(t.Context(), s.db); err != nil {
					t.Fatal(err)
				}
				locked := make(chan error, 1)
				go func() { locked <- b.Lock(context.Background(), s.db) }()
				waitForWaiter(t, watcher, locked)
				release(t, a, s.db, watcher)
				if err := <-locked; err != nil {
					t.Fatal(err)
				}
				if err := b.Unlock(t.Context(), s.db); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// waitForWaiter returns when somebody waits for a row of this database.
func waitForWaiter(t *testing.T, db *sql.DB, locked <-chan error) {
	t.Helper()
	for n := 0; n == 0; {
		select {
		case err := <-locked:
			t.Fatalf("both have the lock: %v", err)
		default:
		}
		err := db.QueryRowContext(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}
