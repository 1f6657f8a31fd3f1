package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

const (
	// corruptionsVariable is how many corruptions each store gets; without it, one of each kind.
	corruptionsVariable = "VRAMPLAN_CORRUPTIONS"
	// corruptionSeedVariable chooses which.
	corruptionSeedVariable = "VRAMPLAN_CORRUPTION_SEED"
)

// corruption is a way to harm a database; it says what it did, or why it could not.
type corruption struct {
	name string
	do   func(r *rand.Rand, name string) (string, error)
}

// Whatever is done to a database behind the service is noticed when it starts, while it serves or by Verify, or changes
// nothing that is read. In no case does an equal revision name other entries, or is a calibration another one than its
// id says.
func TestCorruptionsAreNoticed(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		older, newer := filled(t, backends[0].create(t))
		corrupt(t, slices.Concat(rowCorruptions, fileCorruptions(older)), func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "vramplan.db")
			copyFiles(t, newer, path, "", "-wal", "-acknowledged")
			return "file:" + path
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		template := pgtest.Database(t)
		filled(t, template)
		corrupt(t, rowCorruptions, func(t *testing.T) string { return pgtest.Copy(t, template) })
	})
}

// The same with the pages of a PostgreSQL server's files, which is stopped meanwhile.
func TestPageCorruptionsOfAServerAreNoticed(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t, "-c", "autovacuum=off") // which looks into damaged tables, too
	template := server.Database(t)
	filled(t, template)
	corrupt(t, pageCorruptions(server), func(t *testing.T) string {
		server.Stop() // a damaged page may have ended it already
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		return server.Copy(t, template)
	})
}

func corrupt(t *testing.T, kinds []corruption, copyOf func(*testing.T) string) {
	t.Helper()
	count, seed := len(kinds), uint64(1)
	for variable, to := range map[string]func(int){corruptionsVariable: func(n int) {
		count = n
	}, corruptionSeedVariable: func(n int) { seed = uint64(n) }} {
		if text := os.Getenv(variable); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				t.Fatalf("%s is %q", variable, text)
			}
			to(n)
		}
	}
	want := dump(t, copyOf(t))
	noticed := map[string]int{}
	for i := range count {
		kind := kinds[i%len(kinds)]
		t.Run(fmt.Sprint(i, " ", kind.name), func(t *testing.T) {
			name := copyOf(t)
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			// Every other one happens while a service has the database open.
			var serving *store.Store
			if i%2 == 1 {
				serving = open(t, name)
				if _, err := serving.CatalogMark(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			did, err := kind.do(r, name)
			if err != nil {
				t.Fatalf("%s could not be done: %v", kind.name, err)
			}
			where := ""
			if serving != nil {
				where = look(t, serving, want)
			}
			if where == "" { // also what a service has missed
				s, err := store.Open(t.Context(), name)
				switch {
				case err != nil:
					where = "at the start"
				default:
					if _, err := s.Migrate(t.Context()); err != nil {
						where = "at the start"
					} else {
						where = look(t, s, want)
					}
					_ = s.Close() // of a damaged file it may fail
				}
			}
			if where == "" {
				where = "harmless"
				if got := dump(t, name); got.String() != want.String() {
					t.Errorf("%s: nobody noticed, and it reads\n%s\nwhere it was\n%s", did, got, want)
				}
			}
			noticed[where]++
			t.Logf("%s: %s", did, where)
		})
	}
	t.Logf("%d corruptions with the seed %d: %v", count, seed, noticed)
}

// look is what a service finds that has the database open; empty is nothing.
func look(t *testing.T, s *store.Store, want contents) string {
	t.Helper()
	c, err := s.Catalog(t.Context())
	if err == nil {
		if got := textOf(t, c.GPUs) + textOf(t, c.Models); c.Revision == want.Revision && got != want.Catalog {
			t.Errorf("the revision %s names other entries:\n%s\nwhere they were\n%s", c.Revision, got, want.Catalog)
		}
	}
	for id, text := range want.Calibrations {
		if cal, _, err := s.Calibration(t.Context(), id); err == nil && cal != nil && textOf(t, cal) != text {
			t.Errorf("the calibration %s is %s, and was %s", id, textOf(t, cal), text)
		}
	}
	if _, markErr := s.CatalogMark(t.Context()); err != nil || markErr != nil {
		return "by the look for changes"
	}
	if len(c.Faults) > 0 {
		return "in the catalog"
	}
	check, err := s.Check(t.Context())
	if err != nil || check.Count > 0 {
		return "in the whole"
	}
	return ""
}

// contents is everything that a store can be asked for.
type contents struct {
	Revision, Catalog, History, Keys, Observations, Activations string
	Calibrations                                                map[string]string
}

// String is the same for the same contents: maps are printed in the order of their keys.
func (c contents) String() string { return fmt.Sprintf("%+v", c.plain()) }

func (c contents) plain() any {
	type plain contents // without String
	return plain(c)
}

func textOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func dump(t *testing.T, name string) (c contents) {
	t.Helper()
	s := open(t, name)
	all, err := s.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Revision, c.Catalog = all.Revision, textOf(t, all.GPUs)+textOf(t, all.Models)
	const many = 1 << 20
	history, err1 := s.CatalogHistory(t.Context(), service.HistoryFilter{Limit: many})
	keys, err2 := s.Keys(t.Context())
	observations, _, err3 := s.Observations(t.Context(), service.ObservationFilter{Limit: many})
	activations, err4 := s.Activations(t.Context(), service.CalibrationFilter{Limit: many})
	c.Calibrations = map[string]string{}
	err5 := s.EachCalibration(t.Context(), many, func(cal *service.Calibration, _ int) (bool, error) {
		c.Calibrations[cal.ID] = textOf(t, cal)
		return true, nil
	})
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	c.History, c.Keys, c.Observations, c.Activations = textOf(t, history), textOf(t, keys), textOf(t, observations),
		textOf(t, activations)
	return c
}

// filled fills a database with something of everything. Of an SQLite file it returns copies of an older and of the
// present state, as a killed process leaves them.
func filled(t *testing.T, name string) (older, newer string) {
	t.Helper()
	s := migrated(t, name)
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	snapshot := func() string {
		if s.Remote() {
			return ""
		}
		to := filepath.Join(t.TempDir(), "copy.db")
		copyFiles(t, strings.TrimPrefix(name, "file:"), to, "", "-wal", "-acknowledged")
		return to
	}
	for round := range 2 {
		for i := range 3 {
			id := fmt.Sprintf("card-%d-%d", round, i)
			mustChange(t, s, put(card(id, int64(1000+i)), service.Created))
			mustChange(t, s, put(card(id, int64(2000+i)), service.Replaced))
		}
		mustChange(t, s, put(card("rtx-4090", int64(3000+round)), service.Replaced))
		mustChange(t, s, func(*catalog.Contents) (*service.CatalogChange, error) {
			return &service.CatalogChange{Kind: service.GPUEntryKind, ID: fmt.Sprintf("card-%d-0", round),
				Action: service.Deleted, By: ci, At: at}, nil
		})
		for i := range 6 {
			add(t, s, fmt.Sprintf("obs-%d%d", round, i))
		}
		for i := range 2 {
			k := service.Key{ID: fmt.Sprintf("key-%d-%d", round, i), Name: "ci", Hash: "0123",
				Scopes: []service.Scope{"catalog:write"}, CreatedAt: at}
			if err := s.CreateKey(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		if ok, err := s.RevokeKey(t.Context(), fmt.Sprintf("key-%d-1", round), at); err != nil || !ok {
			t.Fatalf("%v %v", ok, err)
		}
		c, _, err := s.AddCalibration(t.Context(), fmt.Sprint("digest-", round), fitted(fmt.Sprint("digest-", round)))
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"", "better"} {
			_, err := s.Activate(t.Context(), 1, func([]service.Activation) (*service.Activation, error) {
				return &service.Activation{Calibration: c.ID, By: ci, At: at, Reason: reason}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			older = snapshot()
		}
	}
	newer = snapshot()
	if err := s.Close(); err != nil { // a server copies what nobody has open
		t.Fatal(err)
	}
	return older, newer
}

func copyFiles(t *testing.T, from, to string, suffixes ...string) {
	t.Helper()
	for _, suffix := range suffixes {
		content, err := os.ReadFile(from + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
