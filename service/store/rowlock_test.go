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
	for name, release := range map[string]func(*testing.T, *rowLock, *sql.DB){
		"unlocked": func(t *testing.T, l *rowLock, db *sql.DB) {
			if err := l.Unlock(t.Context(), db); err != nil {
				t.Error(err)
			}
		},
		"died": func(t *testing.T, l *rowLock, db *sql.DB) {
			var pid int
			if err := l.tx.QueryRow(`SELECT pg_backend_pid()`).Scan(&pid); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(`SELECT pg_terminate_backend($1)`, pid); err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(t.Context(), db); err == nil {
				t.Error("nobody was told that the lock was lost")
			}
		},
	} {
		for _, isolation := range []string{"read%20committed", "serializable"} {
			t.Run(name+"/"+isolation, func(t *testing.T) {
				s, err := openPostgres(pgtest.Database(t) + "&default_transaction_isolation=" + isolation)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				a, b := &rowLock{repeat: s.repeat}, &rowLock{repeat: s.repeat}
				if err := a.Lock(t.Context(), s.db); err != nil {
					t.Fatal(err)
				}
				locked := make(chan error, 1)
				go func() { locked <- b.Lock(context.Background(), s.db) }()
				waitForWaiter(t, s.db, locked)
				release(t, a, s.db)
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
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}
