package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// everyFault is a variable. Where it is set, every call fails once in every way, and the whole database is looked at
// after each; else every third call fails in each way, another third in each, and the database is looked at after all
// of a way.
const everyFault = "VRAMPLAN_EVERY_FAULT"

// writing is something that a store writes, as its i-th time: what has to be there before, the write, and whether it
// was made, wholly.
type writing struct {
	name   string
	before func(ctx context.Context, s *Store, i int) error
	do     func(ctx context.Context, s *Store, i int) error
	made   func(ctx context.Context, s *Store, i int) (bool, error)
}

// Whichever call of whatever the store writes fails, with what a disk, a lack of memory or a network does: what was
// acknowledged is there, what is said not to be stored is not, nothing is half written, and the next write goes well.
func TestEveryCallMayFail(t *testing.T) {
	for name, create := range faultyStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := create(t)
			faults, unknown := 0, 0
			every, step := os.Getenv(everyFault) != "", 3
			if every {
				step = 1
			}
			for _, how := range []fault{refused, unheard, broken} {
				for _, w := range writings() {
					for n := 1 + int(how)%step; ; n += step {
						i := int(how)*1000 + n
						if w.before != nil {
							if err := w.before(t.Context(), s, i); err != nil {
								t.Fatalf("before %s: %v", w.name, err)
							}
						}
						f.how, f.failing = how, n
						err := w.do(t.Context(), s, i)
						reached := f.failing <= 0
						f.failing = 0
						made, lookErr := w.made(t.Context(), s, i)
						_, nothing := errors.AsType[*service.NotStored](err)
						switch {
						case lookErr != nil:
							t.Fatalf("%s, call %d %s: %v, and then %v", w.name, n, how, err, lookErr)
						case err == nil && !made:
							t.Fatalf("%s, call %d %s: it was acknowledged and is not there", w.name, n, how)
						case nothing && made:
							t.Fatalf("%s, call %d %s: it is there, and was said not to be: %v", w.name, n, how, err)
						case err != nil && !nothing:
							unknown++
						}
						if every {
							verify(t, s, fmt.Sprintf("%s, call %d %s", w.name, n, how))
						}
						if !reached {
							if n < 5 || err != nil {
								t.Fatalf("%s makes %d calls, and says %v", w.name, n-1, err)
							}
							break
						}
						faults++
					}
					verify(t, s, fmt.Sprintf("%s, %s", w.name, how))
				}
			}
			t.Logf("%d calls failed; of %d writes nobody was told whether they were made", faults, unknown)
		})
	}
}

// A disk or a server that says that a commit was made, and has lost it: the next look says so, before or after the next
// write.
func TestLostCommitsAreNoticed(t *testing.T) {
	for name, create := range faultyStores {
		for _, w := range writings() {
			t.Run(name+" "+w.name, func(t *testing.T) {
				t.Parallel()
				s, f := create(t)
				for i := range 2 {
					if w.before != nil {
						if err := w.before(t.Context(), s, i); err != nil {
							t.Fatal(err)
						}
					}
					f.how, f.failing = lied, i // the second is lost
					if err := w.do(t.Context(), s, i); err != nil || i == 1 && f.failing != 0 {
						t.Fatalf("%v, %d", err, f.failing)
					}
				}
				if made, err := w.made(t.Context(), s, 1); err != nil || made {
					t.Fatalf("the write was not lost: %v", err)
				}
				_, markErr := s.CatalogMark(t.Context())
				r, err := s.Verify(t.Context())
				if err != nil || markErr == nil && r.Count == 0 || s.guard != nil && markErr == nil {
					t.Errorf("nobody noticed: %v, %v", markErr, err)
				}
				if s.guard == nil {
					return
				}
				// A file that has lost writes takes no more.
				if err := w.do(t.Context(), s, 2); !errors.Is(err, ErrDamaged) {
					t.Errorf("the next write: %v", err)
				}
			})
		}
	}
}

func verify(t *testing.T, s *Store, when string) {
	t.Helper()
	if r, err := s.Verify(t.Context()); err != nil || r.Count > 0 {
		t.Fatalf("%s: %+v, %v", when, r, err)
	}
}

// faultyStores make migrated stores behind drivers that fail.
var faultyStores = map[string]func(t *testing.T) (*Store, *faulty){
	"sqlite": func(t *testing.T) (*Store, *faulty) {
		s, err := openSQLite(t.Context(), "file:"+filepath.Join(t.TempDir(), "vramplan.db"))
		if err != nil {
			t.Fatal(err)
		}
		return behind(t, s, &faulty{Connector: plainConnector{s.db.Driver(), s.guard.dsn},
			err: errors.New("disk I/O error")})
	},
	"postgres": func(t *testing.T) (*Store, *faulty) {
		name := pgtest.Database(t)
		s, err := openPostgres(name)
		if err != nil {
			t.Fatal(err)
		}
		config, err := pgx.ParseConfig(name)
		if err != nil {
			t.Fatal(err)
		}
		return behind(t, s, &faulty{Connector: stdlib.GetConnector(*config),
			err: &pgconn.PgError{Code: "53200", Message: "out of memory"}})
	},
}

func behind(t *testing.T, s *Store, f *faulty) (*Store, *faulty) {
	t.Helper()
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.db = sql.OpenDB(f)
	s.db.SetMaxOpenConns(4)
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, f
}

func writings() []writing {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	by := service.Author{KeyID: "key", Name: "ci"}
	observation := func(id string) service.StoredObservation {
		var o service.StoredObservation
		o.ID, o.GPU, o.Family, o.By = id, "a100", "gpt2", by
		return o
	}
	observe := func(prefix string) func(ctx context.Context, s *Store, i int) error {
		return func(ctx context.Context, s *Store, i int) error {
			_, err := s.AddObservations(ctx,
				[]service.StoredObservation{observation(fmt.Sprintf("obs-%s%05da", prefix, i)),
					observation(fmt.Sprintf("obs-%s%05db", prefix, i))})
			return err
		}
	}
	observed := func(prefix string) func(ctx context.Context, s *Store, i int) (int, error) {
		return func(ctx context.Context, s *Store, i int) (n int, err error) {
			list, _, err := s.Observations(ctx, service.ObservationFilter{Limit: 1 << 20})
			for _, o := range list {
				if strings.HasPrefix(o.ID, fmt.Sprintf("obs-%s%05d", prefix, i)) {
					n++
				}
			}
			return n, err
		}
	}
	createKey := func(ctx context.Context, s *Store, i int) error {
		return s.CreateKey(ctx, service.Key{ID: fmt.Sprint("key-", i), Name: "ci", Hash: "h", CreatedAt: at})
	}
	change := func(id string, memory int64,
		action service.Action) func(*catalog.Contents) (*service.CatalogChange, error) {
		return func(*catalog.Contents) (*service.CatalogChange, error) {
			g := &catalog.GPU{ID: id, Name: "card", MemoryBytes: memory, Aliases: []string{id + " a", id + " b"},
				Origin: catalog.User}
			return &service.CatalogChange{Kind: service.GPUEntryKind, ID: id, Action: action, GPU: g, By: by, At: at},
				nil
		}
	}
	memoryOf := func(ctx context.Context, s *Store, id string) (int64, error) {
		c, err := s.Catalog(ctx)
		if err != nil {
			return 0, err
		}
		if len(c.Faults) > 0 {
			return 0, fmt.Errorf("half written: %v", c.Faults)
		}
		at := slices.IndexFunc(c.GPUs, func(g catalog.GPU) bool { return g.ID == id })
		if at < 0 {
			return 0, nil
		}
		if len(c.GPUs[at].Aliases) != 2 {
			return 0, fmt.Errorf("half written: %+v", c.GPUs[at])
		}
		return c.GPUs[at].MemoryBytes, nil
	}
	some := func(want int) func(n int, err error) (bool, error) {
		return func(n int, err error) (bool, error) {
			if err == nil && n != 0 && n != want {
				err = fmt.Errorf("%d of %d are there", n, want)
			}
			return n == want, err
		}
	}
	return []writing{
		{"create an entry", nil, func(ctx context.Context, s *Store, i int) error {
			_, err := s.ChangeCatalog(ctx, change(fmt.Sprint("card-", i), 7, service.Created))
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			m, err := memoryOf(ctx, s, fmt.Sprint("card-", i))
			return m == 7, err
		}},
		{"replace an entry", func(ctx context.Context, s *Store, _ int) error {
			_, err := s.ChangeCatalog(ctx, change("lab-card", 1<<40, service.Created))
			return err
		}, func(ctx context.Context, s *Store, i int) error {
			_, err := s.ChangeCatalog(ctx, change("lab-card", int64(i+1), service.Replaced))
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			m, err := memoryOf(ctx, s, "lab-card")
			return m == int64(i+1), err
		}},
		{"delete an entry", func(ctx context.Context, s *Store, i int) error {
			_, err := s.ChangeCatalog(ctx, change(fmt.Sprint("old-", i), 7, service.Created))
			return err
		}, func(ctx context.Context, s *Store, i int) error {
			_, err := s.ChangeCatalog(ctx, change(fmt.Sprint("old-", i), 0, service.Deleted))
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			m, err := memoryOf(ctx, s, fmt.Sprint("old-", i))
			return m == 0, err
		}},
		{"add observations", nil, observe("n"), func(ctx context.Context, s *Store, i int) (bool, error) {
			return some(2)(observed("n")(ctx, s, i))
		}},
		{"delete an observation", observe("d"), func(ctx context.Context, s *Store, i int) error {
			_, err := s.DeleteObservation(ctx, fmt.Sprintf("obs-d%05da", i))
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			n, err := observed("d")(ctx, s, i)
			return n == 1, err
		}},
		{"drop old observations", func(ctx context.Context, s *Store, i int) error {
			if _, err := s.DropObservations(ctx, "obs-b", 1000); err != nil { // what a failure before this one left
				return err
			}
			return observe("a")(ctx, s, i)
		}, func(ctx context.Context, s *Store, _ int) error {
			_, err := s.DropObservations(ctx, "obs-b", 100)
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			left, err := some(2)(observed("a")(ctx, s, i))
			return !left, err
		}},
		{"create a key", nil, createKey, func(ctx context.Context, s *Store, i int) (bool, error) {
			k, err := s.Key(ctx, fmt.Sprint("key-", i))
			return k != nil, err
		}},
		{"revoke a key", func(ctx context.Context, s *Store, i int) error {
			return createKey(ctx, s, 100_000+i)
		}, func(ctx context.Context, s *Store, i int) error {
			_, err := s.RevokeKey(ctx, fmt.Sprint("key-", 100_000+i), at)
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			k, err := s.Key(ctx, fmt.Sprint("key-", 100_000+i))
			return k != nil && k.RevokedAt != nil, err
		}},
		{"add a calibration", nil, func(ctx context.Context, s *Store, i int) error {
			_, _, err := s.AddCalibration(ctx, fmt.Sprint("digest-", i), func(number int64) *service.Calibration {
				return &service.Calibration{ID: fmt.Sprint("cal-", i), Number: number, Digest: fmt.Sprint("digest-", i)}
			})
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			c, _, err := s.Calibration(ctx, fmt.Sprint("cal-", i))
			return c != nil, err
		}},
		{"activate", nil, func(ctx context.Context, s *Store, i int) error {
			_, err := s.Activate(ctx, 1, func([]service.Activation) (*service.Activation, error) {
				return &service.Activation{Calibration: fmt.Sprint("builtin-", i), By: by, At: at, Reason: "faults"},
					nil
			})
			return err
		}, func(ctx context.Context, s *Store, i int) (bool, error) {
			list, err := s.Activations(ctx, service.CalibrationFilter{Limit: 1})
			if err != nil || len(list) == 0 {
				return false, err
			}
			return list[0].Calibration == fmt.Sprint("builtin-", i) && list[0].Reason != "", nil
		}},
	}
}
