package store_test

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

var _ service.Store = (*store.Store)(nil)

// backend is one kind of database that a store can be on.
type backend struct {
	name string
	// create returns the name of a new, empty database.
	create func(testing.TB) string
}

var backends = []backend{
	{"sqlite", func(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "vramplan.db") }},
	{"postgres", func(t testing.TB) string { return pgtest.Database(t) }},
	// As CockroachDB runs every transaction: of two that write what the other reads, one fails and is run again.
	{"serializable", func(t testing.TB) string {
		return pgtest.Database(t) + "&default_transaction_isolation=serializable"
	}},
}

// onEach runs a test on every kind of database: what it says holds for all of them.
func onEach(t *testing.T, test func(t *testing.T, database string)) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			test(t, b.create(t))
		})
	}
}

func open(t testing.TB, database string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), database)
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

func migrated(t testing.TB, database string) *store.Store {
	t.Helper()
	s := open(t, database)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t *testing.T, s *store.Store) *catalog.Catalog {
	t.Helper()
	contents, err := s.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Of(contents)
}

// direct opens a database beside the store, to do what a store would not.
func direct(t *testing.T, database string) *sql.DB {
	t.Helper()
	driver, name := "pgx", database
	if strings.HasPrefix(database, "file:") {
		driver, name = "sqlite", database+"?_pragma=foreign_keys(1)&_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func exec1(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// A new database and the embedded snapshot hold the same catalog, entry by entry.
func TestDatabaseAndSnapshotAgree(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		database := load(t, s)
		embedded := service.EmbeddedCatalog()
		if database.Revision() != embedded.Revision() || embedded.Revision() != migrations.CatalogRevision {
			t.Errorf("revisions: database %s, embedded %s", database.Revision(), embedded.Revision())
		}
		compare(t, "GPU", database.GPUs, embedded.GPUs)
		compare(t, "model", database.Models, embedded.Models)
	})
}

func compare[E any](t *testing.T, kind string, database, embedded func() ([]E, error)) {
	t.Helper()
	got, err := database()
	if err != nil {
		t.Fatal(err)
	}
	want, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d %ss in the database, %d embedded", len(got), kind, len(want))
	}
	for i := range want {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("%s %d differs (-embedded +database):\n%s", kind, i, diff)
		}
	}
}

func TestMigrateTwice(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		statuses, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range statuses {
			if !m.Applied || m.AppliedAt == nil && m.Version > 0 {
				t.Errorf("%s has not run", m.Name)
			}
			names = append(names, m.Name)
		}
		if diff := cmp.Diff(append(numbered(t), "catalog "+migrations.CatalogRevision), names); diff != "" {
			t.Error(diff)
		}
		ran, err := open(t, name).Migrate(t.Context())
		if err != nil || len(ran) != 0 {
			t.Errorf("the second time: ran %v, %v", ran, err)
		}
	})
}

// numbered are the migrations' names: those of one dialect and of the other.
func numbered(t *testing.T) []string {
	t.Helper()
	var names [2][]string
	for i, of := range []struct {
		files  embed.FS
		folder string
	}{{migrations.SQLite, "sqlite"}, {migrations.Postgres, "postgres"}} {
		list, err := of.files.ReadDir(of.folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			names[i] = append(names[i], f.Name())
		}
	}
	if diff := cmp.Diff(names[0], names[1]); diff != "" || len(names[0]) < 15 {
		t.Fatalf("the dialects' migrations (-SQLite +PostgreSQL):\n%s", diff)
	}
	return names[0]
}

func TestStatusOfNewDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := open(t, name)
		statuses, err := s.Status(t.Context())
		if err != nil || len(statuses) != len(numbered(t))+1 ||
			slices.ContainsFunc(statuses, func(m store.Migration) bool {
				return m.Applied
			}) {
			t.Errorf("%+v, %v", statuses, err)
		}
		if _, err := s.Catalog(t.Context()); err == nil {
			t.Error("read a catalog from a database without tables")
		}
	})
}

func TestSchemaRefusesWhatIsNotJSON(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		migrated(t, name)
		db := direct(t, name)
		for _, statement := range []string{
			`INSERT INTO gpus (id, origin, document, created_at, updated_at) VALUES ('x', 'user', '{', '', '')`,
			`INSERT INTO gpus (id, origin, document, created_at, updated_at) VALUES ('x', 'somebody', '{}', '', '')`,
			`INSERT INTO gpu_aliases (alias, origin, gpu_id) VALUES ('x', 'user', 'no-such-card')`,
		} {
			if _, err := db.Exec(statement); err == nil {
				t.Errorf("accepted: %s", statement)
			}
		}
	})
}

// A server that makes each table at once, whatever becomes of the transaction, leaves tables behind
// when a migration is cut short: it can be run again over what is there.
func TestMigrationsRunAgain(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		mustChange(t, s, put(card("lab-card", 1), service.Created))
		_, err := s.Activate(t.Context(), 1, func([]service.Activation) (*service.Activation, error) {
			return &service.Activation{Calibration: "cal", By: ci, Refused: "other", Reason: "worse"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		before := load(t, s)
		db := direct(t, name)
		exec1(t, db, `DELETE FROM goose_db_version WHERE version_id > 0`)
		exec1(t, db, `DROP INDEX observations_by_group`) // the last statement of its migration
		if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != len(numbered(t)) {
			t.Fatalf("ran %v, %v", ran, err)
		}
		if after := load(t, s).Revision(); after != before.Revision() {
			t.Errorf("the catalog was %s and is %s", before.Revision(), after)
		}
		if mark, err := s.CalibrationMark(t.Context()); err != nil || mark.Activations != 1 {
			t.Errorf("mark %+v, %v", mark, err)
		}
		exec1(t, db, `DROP INDEX observations_by_group`) // it is there again
	})
}

// In one process.
func TestConcurrentMigrations(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				if err := openAndCount(t.Context(), name); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		wantOneRunEach(t, name)
	})
}

const childDatabase = "VRAMPLAN_TEST_DATABASE"

// In several processes, as replicas that start at once.
func TestConcurrentProcesses(t *testing.T) {
	if name := os.Getenv(childDatabase); name != "" {
		if err := openAndCount(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		return
	}
	onEach(t, func(t *testing.T, name string) {
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestConcurrentProcesses$")
				child.Env = append(os.Environ(), childDatabase+"="+name)
				if out, err := child.CombinedOutput(); err != nil {
					t.Errorf("a process failed: %v\n%s", err, out)
				}
			})
		}
		wait.Wait()
		wantOneRunEach(t, name)
	})
}

func openAndCount(ctx context.Context, name string) error {
	s, err := store.Open(ctx, name)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Migrate(ctx); err != nil {
		return err
	}
	c, err := s.Catalog(ctx)
	if err != nil {
		return err
	}
	if c.Revision != migrations.CatalogRevision || len(c.Faults) > 0 {
		return fmt.Errorf("the catalog %s with the faults %v", c.Revision, c.Faults)
	}
	return nil
}

func wantOneRunEach(t *testing.T, name string) {
	t.Helper()
	var runs, versions int
	err := direct(t, name).QueryRow(`SELECT count(*), count(DISTINCT version_id) FROM goose_db_version WHERE version_id > 0`).Scan(&runs, &versions)
	if want := len(numbered(t)); err != nil || runs != want || versions != want {
		t.Errorf("%d runs of %d migrations, want one of each of %d; %v", runs, versions, want, err)
	}
}

func TestCancelledContext(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Catalog(ctx); err == nil {
			t.Error("read the catalog for a caller who had gone")
		}
		err := service.New(service.EmbeddedCatalog(), service.WithStore(s)).Refresh(ctx)
		if service.ErrorCode(err) != service.CodeUnavailable {
			t.Errorf("code %s of %v", service.ErrorCode(err), err)
		}
	})
}

func BenchmarkCatalog(b *testing.B) {
	for _, kind := range backends {
		b.Run(kind.name, func(b *testing.B) {
			s := migrated(b, kind.create(b))
			for b.Loop() {
				if _, err := s.Catalog(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
