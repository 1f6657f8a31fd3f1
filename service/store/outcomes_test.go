package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// Writes count as refused from the first that failed until one succeeds, whichever write it is, and whichever of its
// calls failed; a probe is one.
func TestWritesAreRefusedUntilOneSucceeds(t *testing.T) {
	for name, create := range faultyStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := create(t)
			for i, w := range writings() {
				if w.before != nil {
					if err := w.before(t.Context(), s, i); err != nil {
						t.Fatalf("before %s: %v", w.name, err)
					}
				}
				if since, _ := s.WritesRefused(); !since.IsZero() {
					t.Fatalf("before %s writes are refused since %v", w.name, since)
				}
				f.how, f.failing = refused, 1
				if err := w.do(t.Context(), s, i); err == nil {
					t.Fatalf("%s succeeded", w.name)
				}
				first, reason := s.WritesRefused()
				if first.IsZero() || reason == nil || !strings.Contains(reason.Error(), f.err.Error()) {
					t.Fatalf("after a %s that failed writes are refused since %v: %v", w.name, first, reason)
				}
				f.how, f.failing = refused, 1
				if err := s.ProbeWrite(t.Context()); err == nil {
					t.Fatal("the probe succeeded")
				}
				if since, _ := s.WritesRefused(); since != first {
					t.Errorf("after a second failure writes are refused since %v, not %v", since, first)
				}
				f.failing = 0
				if err := s.ProbeWrite(t.Context()); err != nil {
					t.Fatalf("probe: %v", err)
				}
			}
			verify(t, s, "after the probes")
		})
	}
}

// What the service itself refuses, and a client that left, say nothing of the database.
func TestRefusalsAreNoFailures(t *testing.T) {
	for name, create := range faultyStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := create(t)
			_, err := s.ChangeCatalog(t.Context(), func(*catalog.Contents) (*service.CatalogChange, error) {
				return nil, &service.Error{Code: service.CodeConflict, Message: "taken"}
			})
			if err == nil {
				t.Fatal("the change was made")
			}
			gone, leave := context.WithCancel(t.Context())
			leave()
			if err := s.ProbeWrite(gone); !errors.Is(err, context.Canceled) {
				t.Fatalf("a probe of nobody: %v", err)
			}
			if since, reason := s.WritesRefused(); !since.IsZero() {
				t.Errorf("writes are refused since %v: %v", since, reason)
			}
		})
	}
}

// A server that takes connections, reads and statements, and does not commit, since it waits for a standby that there
// is not, and one that has become read-only.
func TestServerThatTakesNoWrites(t *testing.T) {
	for name, setting := range map[string]struct{ key, on, off string }{
		"does not commit": {"synchronous_standby_names", "nobody", ""},
		"read-only":       {"default_transaction_read_only", "on", "off"},
	} {
		t.Run(name, func(t *testing.T) {
			server := pgtest.Own(t)
			database := server.Database(t)
			s, admin := open(t, database), open(t, database)
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			set := func(value string) {
				t.Helper()
				for _, statement := range []string{"SET default_transaction_read_only = off",
					"ALTER SYSTEM SET " + setting.key + " = '" + value + "'", "SELECT pg_reload_conf()"} {
					if _, err := admin.db.ExecContext(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
			}
			probe := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				return s.ProbeWrite(ctx)
			}
			until := func(what string, done func() bool) {
				t.Helper()
				// a server reads its settings a moment later
				for deadline := time.Now().Add(20 * time.Second); !done(); {
					if time.Now().After(deadline) {
						t.Fatal(what)
					}
				}
			}
			set(setting.on)
			until("the server takes writes all the same", func() bool { return probe() != nil })
			if since, reason := s.WritesRefused(); since.IsZero() || reason == nil {
				t.Error("a write that was not taken is no refusal")
			}
			if _, err := s.CatalogMark(t.Context()); err != nil {
				t.Errorf("it reads: %v", err)
			}
			set(setting.off)
			until("the server takes no writes any more", func() bool { return probe() == nil })
			if since, _ := s.WritesRefused(); !since.IsZero() {
				t.Errorf("writes are refused since %v", since)
			}
		})
	}
}

func open(t *testing.T, database string) *Store {
	t.Helper()
	s, err := Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A folder without room for what a probe writes refuses it, and keeps nothing of it.
func TestProbeLooksForRoom(t *testing.T) {
	folder := t.TempDir()
	if err := room(folder); err != nil {
		t.Fatal(err)
	}
	if err := room(filepath.Join(folder, "gone")); err == nil {
		t.Error("there is room in a folder that is not there")
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
