package service_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

func sqlite(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file:"+filepath.Join(t.TempDir(), "vramplan.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A change by one service is seen by another on the same database when it looks, and kept
// before any answer is from it.
func TestRefreshSeesOthersChanges(t *testing.T) {
	db := sqlite(t)
	var kept []string
	a := service.New(service.EmbeddedCatalog(), service.WithStore(db))
	var b *service.Service
	b = service.New(service.EmbeddedCatalog(), service.WithStore(db), service.WithKeep(func(s service.Snapshot) {
		kept = append(kept, s.Catalog.Mark)
		if _, err := b.GPU(t.Context(), "lab"); err == nil {
			t.Errorf("catalog %s is answered from before it is kept", s.Catalog.Mark)
		}
	}))
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, created, err := a.PutGPU(t.Context(), service.Author{}, "lab",
		service.GPUEntry{Name: "Lab", MemoryBytes: 1 << 34}, service.Precondition{Absent: true}); err != nil ||
		!created {
		t.Fatalf("created %v, %v", created, err)
	}
	if _, err := a.GPU(t.Context(), "lab"); err != nil {
		t.Errorf("the service that made the change does not see it: %v", err)
	}
	if _, err := b.GPU(t.Context(), "lab"); err == nil {
		t.Error("the other service sees it without looking")
	}
	for range 2 {
		if err := b.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.GPU(t.Context(), "lab"); err != nil || a.CatalogRevision() != b.CatalogRevision() {
		t.Errorf("after a look: %v; catalogs %s and %s", err, a.CatalogRevision(), b.CatalogRevision())
	}
	if !slices.Equal(kept, []string{migrations.CatalogRevision, migrations.CatalogRevision + ".1"}) {
		t.Errorf("kept %v", kept)
	}
}

// flaky is a store that can be gone.
type flaky struct {
	*store.Store
	mu   sync.Mutex
	gone bool
}

func (f *flaky) set(gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = gone
}

func (f *flaky) CatalogMark(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return "", errors.New("gone")
	}
	return f.Store.CatalogMark(ctx)
}

// While the store is gone the service goes on, says so once, and takes up what it missed.
func TestFollow(t *testing.T) {
	db := sqlite(t)
	f := &flaky{Store: db, gone: true}
	s := service.New(service.EmbeddedCatalog(), service.WithStore(f))
	if got := s.Database(); got.Status != service.DatabaseUnreachable || got.Seen.IsZero() {
		t.Errorf("before the first look: %+v", got)
	}
	reports := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	var prepared int
	var done sync.WaitGroup
	done.Go(func() {
		s.Follow(ctx, time.Millisecond, func(context.Context) error {
			if prepared++; prepared < 3 {
				return errors.New("not yet")
			}
			return nil
		}, func(err error) { reports <- err })
	})
	other := service.New(service.EmbeddedCatalog(), service.WithStore(db))
	for _, gone := range []bool{false, true, false} {
		if !gone {
			if err := other.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.set(gone)
		if err := <-reports; (err != nil) != gone {
			t.Fatalf("gone: %v, reported %v", gone, err)
		}
		want := service.DatabaseOK
		if gone {
			want = service.DatabaseUnreachable
			if _, _, err := other.PutGPU(t.Context(), service.Author{}, "lab",
				service.GPUEntry{Name: "Lab", MemoryBytes: 1 << 34}, service.Precondition{Absent: true}); err != nil {
				t.Fatal(err)
			}
			if err := s.Ready(t.Context()); err != nil {
				t.Errorf("not ready without the store: %v", err)
			}
		}
		if got := s.Database().Status; got != want {
			t.Errorf("gone: %v, status %s", gone, got)
		}
	}
	if _, err := s.GPU(t.Context(), "lab"); err != nil {
		t.Errorf("what was changed meanwhile: %v", err)
	}
	stop()
	done.Wait()
	if prepared != 3 {
		t.Errorf("prepared %d times", prepared)
	}
}

// keyCounter counts look-ups of keys.
type keyCounter struct {
	service.Store
	looks atomic.Int64
}

func (c *keyCounter) Key(ctx context.Context, id string) (*service.Key, error) {
	c.looks.Add(1)
	return c.Store.Key(ctx, id)
}

func TestAuthorize(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	counting := &keyCounter{Store: sqlite(t)}
	s := service.New(service.EmbeddedCatalog(), service.WithStore(counting), service.WithClock(func() time.Time {
		return now
	}))
	make := func(expires *time.Time, scopes ...service.Scope) (service.Key, string) {
		k, token, err := s.Keyring().Create(t.Context(), "ci", scopes, expires)
		if err != nil {
			t.Fatal(err)
		}
		return k, token
	}
	hour := now.Add(time.Hour)
	_, good := make(nil, service.ScopeCatalogWrite)
	_, short := make(&hour, service.ScopeCatalogWrite)
	_, other := make(nil, service.ScopeObservationsWrite)
	revoked, old := make(nil, service.ScopeCatalogWrite)
	if err := s.Keyring().Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	for _, c := range []struct {
		name, token string
		want        service.Code
	}{
		{"good", good, ""},
		{"none", "", service.CodeUnauthorized},
		{"not a key", "x", service.CodeUnauthorized},
		{"another secret", good[:len(good)-1] + map[bool]string{true: "B", false: "A"}[good[len(good)-1] == 'A'],
			service.CodeUnauthorized},
		{"an unknown id", "vrp_aaaaaaaaaa" + good[14:], service.CodeUnauthorized},
		{"expired", short, service.CodeUnauthorized},
		{"revoked", old, service.CodeUnauthorized},
		{"another scope", other, service.CodeForbidden},
	} {
		by, err := s.Keyring().Authorize(t.Context(), c.token, service.ScopeCatalogWrite)
		if c.want == "" && (err != nil || by.Name != "ci") || c.want != "" &&
			(err == nil || service.ErrorCode(err) != c.want) {
			t.Errorf("%s: %+v, %v", c.name, by, err)
		}
	}
	asked := counting.looks.Load()
	_, err := s.Keyring().Authorize(t.Context(), old, service.ScopeCatalogWrite)
	if service.ErrorCode(err) != service.CodeUnauthorized || counting.looks.Load() != asked {
		t.Errorf("a key that was refused is looked for again: %v", err)
	}
	if keys, err := s.Keyring().List(t.Context()); err != nil || len(keys) != 4 || keys[0].Hash == good {
		t.Errorf("%d keys, %v", len(keys), err)
	}
}
