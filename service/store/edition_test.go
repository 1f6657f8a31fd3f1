package store_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store"
)

// formerSeeds are the migrations that wrote the built-in catalog until its editions were data: the same SQL for both
// dialects, as the last program had it that ran them.
const formerSeeds = "testdata/former-seeds.tar.gz"

// lastFormer is the last migration of that program.
const lastFormer = 14

// formerMigrations are those of a dialect as that program had them.
func formerMigrations(t *testing.T, dialect string) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	now, err := fs.Sub(map[string]fs.FS{"sqlite": migrations.SQLite, "postgres": migrations.Postgres}[dialect], dialect)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range numbered(t)[:lastFormer] {
		text, err := fs.ReadFile(now, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	packed, err := os.Open(formerSeeds)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name] == nil {
			t.Fatalf("no migration has the name of the former %s", header.Name)
		}
		files[header.Name].Data = text
	}
}

// formerly runs the former migrations up to a number.
func formerly(t *testing.T, database string, to int64) {
	t.Helper()
	dialect, of := goose.DialectPostgres, "postgres"
	if strings.HasPrefix(database, "file:") {
		dialect, of = goose.DialectSQLite3, "sqlite"
	}
	provider, err := goose.NewProvider(dialect, direct(t, database), formerMigrations(t, of))
	if err == nil {
		_, err = provider.UpTo(t.Context(), to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// users fills a database of a former edition with what users enter: an entry of their own, one in the place of a
// built-in one, ones whose ids and names later editions have, one that was changed and one that was deleted.
func users(t *testing.T, database string, number int64, later []migrations.Entry) {
	t.Helper()
	const now = "2026-11-22T10:00:00Z"
	var lateModel migrations.Entry
	for _, e := range later {
		if len(e.Aliases) > 0 {
			lateModel = e
			break
		}
	}
	db := direct(t, database)
	if number < lastFormer {
		// What no program does, and seeds write over.
		exec1(t, db, `INSERT INTO models (id, origin, document, created_at, updated_at) VALUES ('withdrawn', 'builtin', '{}', $1, $1)`, now)
		exec1(t, db, `UPDATE models SET document = '{"name":"altered"}' WHERE id = 'openai-community/gpt2' AND origin = 'builtin'`)
		exec1(t, db, `DELETE FROM models WHERE id = 'facebook/opt-125m' AND origin = 'builtin'`)
	}
	changes := []service.CatalogChange{
		{Action: service.Created, ID: "lab-card"},
		{Action: service.Created, ID: "rtx-4070"},
		{Action: service.Replaced, ID: "lab-card"},
		{Action: service.Created, ID: "gone"},
		{Action: service.Deleted, ID: "gone"},
		{Action: service.Created, Kind: service.ModelEntryKind, ID: "openai-community/gpt2-medium"},
	}
	if lateModel.ID != "" {
		changes = append(changes,
			service.CatalogChange{Action: service.Created, Kind: service.ModelEntryKind, ID: lateModel.ID},
			service.CatalogChange{Action: service.Created, Kind: service.ModelEntryKind, ID: "lab/model"})
	}
	for i := range changes {
		c := &changes[i]
		c.By, c.At = ci, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		if c.Action == service.Deleted {
			c.Kind = service.GPUEntryKind
			continue
		}
		if c.Kind == "" {
			c.Kind, c.GPU = service.GPUEntryKind, card(c.ID, int64(i)+1)
			if c.ID == "lab-card" {
				c.GPU.Aliases = append(c.GPU.Aliases, "rtx-3060") // as a built-in one
			}
			continue
		}
		c.Model = &catalog.Model{}
		if c.Model.ID, c.Model.Aliases = c.ID, []string{c.ID + " of the lab"}; c.ID == "lab/model" {
			c.Model.Aliases = []string{lateModel.Aliases[0].Name}
		}
	}
	if number >= 8 { // since when changes are as they are
		s := open(t, database)
		for _, c := range changes {
			mustChange(t, s, func(*catalog.Contents) (*service.CatalogChange, error) { return &c, nil })
		}
		return
	}
	for _, statement := range []string{
		`INSERT INTO gpus (id, origin, document, created_at, updated_at) VALUES ('rtx-4070', 'user', '{"name":"our 4070"}', $1, $1), ('lab-card', 'user', '{"name":"lab"}', $1, $1)`,
		`INSERT INTO models (id, origin, document, created_at, updated_at) VALUES ('` + lateModel.ID + `', 'user', '{"family":"ours"}', $1, $1), ('lab/model', 'user', '{"family":"lab"}', $1, $1)`,
	} {
		exec1(t, db, statement, now)
	}
	exec1(t, db, `INSERT INTO gpu_aliases (alias, origin, gpu_id, note) VALUES ('the-lab', 'user', 'lab-card', ''), ('rtx-3060', 'user', 'lab-card', 'ours')`)
	exec1(t, db, `INSERT INTO model_aliases (alias, origin, model_id) VALUES ($1, 'user', 'lab/model')`, lateModel.Aliases[0].Name)
	exec1(t, db, `UPDATE catalog_state SET user_changes = 4`)
}

// rowsOf are all rows of all tables, each as text, in an order of their own.
func rowsOf(t *testing.T, database string) map[string][]string {
	t.Helper()
	db := direct(t, database)
	all := map[string][]string{}
	for _, table := range slices.Concat(store.Tables(), []string{"goose_db_version"}) {
		query := `SELECT * FROM ` + table
		if table == "goose_db_version" {
			query = fmt.Sprintf(`SELECT version_id, is_applied FROM %s WHERE version_id <= %d`, table, lastFormer)
		}
		rows, err := db.Query(query)
		if err != nil {
			if table == "catalog_edition" { // which the former way has not
				continue
			}
			t.Fatal(err)
		}
		all[table] = texts(t, rows)
	}
	delete(all, "catalog_edition")
	return all
}

func texts(t *testing.T, rows *sql.Rows) (list []string) {
	t.Helper()
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		for i, v := range values {
			value := *(v.(*any))
			if raw, ok := value.([]byte); ok {
				value = string(raw)
			}
			fmt.Fprintf(&b, "%s=%v ", columns[i], value)
		}
		list = append(list, b.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// lastEdition is the one that the former seeds end with.
const lastEdition = "c-7"

// A database of any former edition, with users' entries in it, has the same rows whether the former seeds or the
// embedded edition bring it up to date.
func TestEditionsOfFormerPrograms(t *testing.T) {
	final, err := migrations.Entries(migrations.Models)
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []struct {
		name   string
		number int64
	}{{"c-1", 3}, {"c-1", 8}, {"c-2", 9}, {"c-3", 10}, {"c-4", 11}, {"c-5", 12}, {"c-6", 13}, {"c-7", 14}} {
		for _, b := range backends[:2] {
			t.Run(fmt.Sprintf("%s of migration %d on %s", from.name, from.number, b.name), func(t *testing.T) {
				t.Parallel()
				databases := [2]string{b.create(t), b.create(t)}
				for _, name := range databases {
					formerly(t, name, from.number)
					var builtin string
					db := direct(t, name)
					if err := db.QueryRow(`SELECT builtin FROM catalog_state`).Scan(&builtin); err != nil || builtin != from.name {
						t.Fatalf("the edition is %s, %v", builtin, err)
					}
					has, err := idsOf(db)
					if err != nil {
						t.Fatal(err)
					}
					users(t, name, from.number, slices.DeleteFunc(slices.Clone(final), func(e migrations.Entry) bool {
						return slices.Contains(has, e.ID)
					}))
				}
				// The former way, and what follows it in both.
				formerly(t, databases[0], lastFormer)
				if err := store.Adopt(t.Context(), open(t, databases[0])); err != nil {
					t.Fatal(err)
				}
				if builtin := rowsOf(t, databases[0])["catalog_state"]; !strings.Contains(builtin[0], "builtin="+lastEdition+" ") {
					t.Fatalf("the former way ends with %s", builtin)
				}
				s := migrated(t, databases[1])
				if migrations.CatalogRevision == lastEdition {
					if diff := cmp.Diff(rowsOf(t, databases[0]), rowsOf(t, databases[1])); diff != "" {
						t.Errorf("rows (-seeds +embedded):\n%s", diff)
					}
				} else {
					// Later editions are no seeds' any more: both ways lead on to what is embedded.
					migrated(t, databases[0])
					if diff := cmp.Diff(rowsOf(t, databases[0]), rowsOf(t, databases[1])); diff != "" {
						t.Errorf("rows (-by the seeds first +at once):\n%s", diff)
					}
				}
				if c, err := s.Catalog(t.Context()); err != nil || slices.ContainsFunc(c.Faults, func(f string) bool {
					return strings.Contains(f, "built-in")
				}) {
					t.Errorf("faults %q, %v", c.Faults, err)
				}
			})
		}
	}
}

func idsOf(db *sql.DB) (ids []string, err error) {
	rows, err := db.Query(`SELECT id FROM models`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// stale makes a database one of an older edition.
func stale(t *testing.T, db *sql.DB) {
	t.Helper()
	exec1(t, db, `UPDATE catalog_state SET builtin = 'c-1'`)
	exec1(t, db, `UPDATE catalog_edition SET digest = 'other'`)
}

// A user's entries live through an upgrade; built-in ones become what is embedded.
func TestUpgradeKeepsUserEntries(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		db := direct(t, name)
		const now = "2026-11-22T10:00:00Z"
		whole := rowsOf(t, name)
		exec1(t, db, `INSERT INTO gpus (id, origin, document, created_at, updated_at) VALUES
			('rtx-4070', 'user', '{"name":"our 4070","memory_bytes":1,"usable_bytes":1}', $1, $1), ('lab-card', 'user', '{"name":"lab","memory_bytes":2,"usable_bytes":2}', $1, $1)`, now)
		exec1(t, db, `INSERT INTO gpu_aliases (alias, origin, gpu_id, note) VALUES ('the-lab', 'user', 'lab-card', ''), ('rtx-3060', 'user', 'lab-card', 'ours')`)
		exec1(t, db, `UPDATE catalog_state SET user_changes = 2`)
		want := rowsOf(t, name)

		exec1(t, db, `UPDATE gpus SET document = '{"name":"stale"}', revision = 7 WHERE id = 'rtx-4090' AND origin = 'builtin'`)
		exec1(t, db, `UPDATE gpus SET position = 0 WHERE id = 'rtx-4080' AND origin = 'builtin'`)
		exec1(t, db, `DELETE FROM models WHERE id = 'openai-community/gpt2' AND origin = 'builtin'`)
		exec1(t, db, `UPDATE gpu_aliases SET gpu_id = 't4' WHERE gpu_id = 'rtx-4080' AND origin = 'builtin'`)
		exec1(t, db, `INSERT INTO gpus (id, origin, document, created_at, updated_at) VALUES ('withdrawn', 'builtin', '{}', $1, $1)`, now)
		exec1(t, db, `INSERT INTO gpu_aliases (alias, origin, gpu_id) VALUES ('an-old-name', 'builtin', 'withdrawn'), ('another', 'builtin', 't4')`)
		stale(t, db)
		if faults := verified(t, s); !strings.Contains(faults, "those of c-1: vramplan migrate brings them to "+migrations.CatalogRevision) {
			t.Errorf("before the upgrade: %s", faults)
		}
		if statuses, err := s.Status(t.Context()); err != nil || statuses[len(statuses)-1].Applied {
			t.Errorf("%+v, %v", statuses, err)
		}
		ran, err := s.Migrate(t.Context())
		if err != nil || len(ran) != 1 || ran[0].Name != "catalog "+migrations.CatalogRevision {
			t.Fatalf("ran %v, %v", ran, err)
		}
		if diff := cmp.Diff(want, rowsOf(t, name)); diff != "" {
			t.Errorf("rows (-as they were +after the upgrade):\n%s", diff)
		}
		c := load(t, s)
		if !strings.HasPrefix(c.Revision(), migrations.CatalogRevision+".2-") {
			t.Errorf("revision %s", c.Revision())
		}
		for name, want := range map[string]struct {
			name   string
			origin catalog.Origin
		}{
			"rtx-4070": {"our 4070", catalog.User},
			"the-lab":  {"lab", catalog.User},
			"rtx 3060": {"lab", catalog.User}, // a user's alias goes before a built-in one
			"rtx-4090": {"GeForce RTX 4090", catalog.Builtin},
		} {
			if g, err := c.GPU(name); err != nil || g.Name != want.name || g.Origin != want.origin {
				t.Errorf("%q: %+v, %v; want %v", name, g, err, want)
			}
		}
		exec1(t, db, `DELETE FROM gpu_aliases WHERE origin = 'user'`)
		exec1(t, db, `DELETE FROM gpus WHERE origin = 'user'`)
		exec1(t, db, `UPDATE catalog_state SET user_changes = 0`)
		if diff := cmp.Diff(whole, rowsOf(t, name)); diff != "" {
			t.Errorf("rows (-as shipped +without users' entries):\n%s", diff)
		}
	})
}

// A program beside a newer one leaves the newer one's entries alone, and says so; one of an edition that has the same
// name and is another is written anew, and so is one that lost its digest.
func TestEditionsBesideThisOne(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		db := direct(t, name)
		stale(t, db)
		exec1(t, db, `UPDATE gpus SET document = '{"name":"another"}' WHERE id = 'rtx-4090' AND origin = 'builtin'`)
		for _, newer := range []string{"c-9999", "made elsewhere"} {
			exec1(t, db, `UPDATE catalog_state SET builtin = $1`, newer)
			before := rowsOf(t, name)
			if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != 0 {
				t.Errorf("%s: ran %v, %v", newer, ran, err)
			}
			if diff := cmp.Diff(before, rowsOf(t, name)); diff != "" {
				t.Errorf("%s was written over:\n%s", newer, diff)
			}
			if faults := verified(t, s); !strings.Contains(faults, "those of "+newer) || !strings.Contains(faults, "older than the database") {
				t.Errorf("%s: %s", newer, faults)
			}
			if c, err := s.Catalog(t.Context()); err != nil || !strings.HasPrefix(c.Revision, newer+"+") {
				t.Errorf("%s, %v", c.Revision, err)
			}
		}
		exec1(t, db, `UPDATE catalog_state SET builtin = $1`, migrations.CatalogRevision)
		for _, lost := range []string{`UPDATE catalog_edition SET digest = 'other'`, `DELETE FROM catalog_edition`} {
			exec1(t, db, lost)
			if faults := verified(t, s); !strings.Contains(faults, "catalog_edition 1: ") {
				t.Errorf("%s: %s", lost, faults)
			}
			if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != 1 {
				t.Errorf("%s: ran %v, %v", lost, ran, err)
			}
			if faults := verified(t, s); faults != "" {
				t.Errorf("after %s: %s", lost, faults)
			}
		}
		exec1(t, db, `DELETE FROM catalog_state`)
		if ran, err := s.Migrate(t.Context()); err != nil || len(ran) != 0 {
			t.Errorf("without the state: ran %v, %v", ran, err)
		}
	})
}

// The SQL of all migrations is what makes tables: no catalog comes back into it.
func TestMigrationsAreSmall(t *testing.T) {
	size := 0
	for _, files := range []fs.FS{migrations.SQLite, migrations.Postgres} {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(files, name)
			size += len(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if size == 0 || size > 64<<10 {
		t.Errorf("%d bytes of SQL", size)
	}
}
