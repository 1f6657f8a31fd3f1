package service_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// checked is a store whose look at the whole finds what a test says.
type checked struct {
	service.Store
	found  *service.StoreCheck
	looked chan bool
}

// WritesRefused implements service.Store.
func (c *checked) WritesRefused() (time.Time, error) { return time.Time{}, nil }

func (c *checked) Check(context.Context) (*service.StoreCheck, error) {
	c.looked <- true
	return c.found, nil
}

// What the look at the whole store finds is told once, counted, and told again when it is gone; an older state is found
// by the writes that this process or the one before it has seen.
func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name   string
		before map[string]int64
		found  service.StoreCheck
		want   string
		count  int
	}{
		{"whole", nil, service.StoreCheck{Writes: map[string]int64{"api_keys": 7}}, "", 0},
		{"as before", map[string]int64{"api_keys": 7}, service.StoreCheck{Writes: map[string]int64{"api_keys": 7}}, "",
			0},
		{"put back", map[string]int64{"api_keys": 8}, service.StoreCheck{Writes: map[string]int64{"api_keys": 7}},
			"api_keys: it was written 8 times, and says 7: an older state was put back", 1},
		{"altered", nil, service.StoreCheck{Faults: []string{"observations obs-1: it was altered"}, Count: 200},
			"observations obs-1: it was altered", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &checked{found: &c.found, looked: make(chan bool, 1)}
			s := service.New(service.EmbeddedCatalog(), service.WithStore(d), service.WithWrites(c.before))
			ctx, cancel := context.WithCancel(t.Context())
			told := make(chan string, 1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Audit(ctx, func(faults []string, count int, err error) {
					told <- fmt.Sprint(strings.Join(faults, "; "), count, err)
				})
			}()
			<-d.looked
			if c.count > 0 {
				if got, want := <-told, fmt.Sprint(c.want, c.count, nil); got != want {
					t.Errorf("told %q, want %q", got, want)
				}
			}
			cancel()
			<-done
			if len(told) > 0 {
				t.Errorf("told too %q", <-told)
			}
			if n := s.Database().StoreFaults; n != c.count {
				t.Errorf("%d faults, want %d", n, c.count)
			}
		})
	}
}

// A clock that jumps by years, either way, loses nothing, makes no two observations one, and leaves changes in their
// order.
func TestClockJumps(t *testing.T) {
	var jump atomic.Int64
	db := sqlite(t)
	clock := func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
	s := service.New(service.EmbeddedCatalog(), service.WithStore(db), service.WithClock(clock))
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := time.Now().Add(time.Hour)
	_, token, err := s.Keyring().Create(t.Context(), "ci", []service.Scope{service.ScopeCatalogWrite}, &in)
	if err != nil {
		t.Fatal(err)
	}
	const year = 365 * 24 * time.Hour
	for n, by := range []time.Duration{0, 10 * year, -30 * year, time.Hour, -time.Millisecond, -100 * year} {
		jump.Store(int64(by))
		g, created, err := s.PutGPU(t.Context(), operator, fmt.Sprint("card-", n),
			service.GPUEntry{Name: "card", MemoryBytes: 1 << 34}, service.Precondition{Absent: true})
		if err != nil || !created || g.Revision != int64(n+1) {
			t.Fatalf("after a jump of %s: %+v, %v", by, g, err)
		}
		run := service.Sent{Document: jobdoc.Observation{Job: measuredJob(t, n),
			Measured: jobdoc.Measured{DeviceBytes: 1 << 32}}}
		if _, err := s.Observe(t.Context(), operator, []service.Sent{run, run}); err != nil {
			t.Fatalf("after a jump of %s: %v", by, err)
		}
		list, _, err := s.Observations(t.Context(), service.ObservationFilter{Limit: 1000})
		if err != nil || len(list) != 2*(n+1) {
			t.Errorf("after a jump of %s: %d observations, %v", by, len(list), err)
		}
		history, err := s.History(t.Context(), service.HistoryFilter{Limit: 1000})
		if err != nil || len(history) != n+1 || history[0].ID != g.ID {
			t.Errorf("after a jump of %s: %d changes, %v", by, len(history), err)
		}
		// A key ends by the clock, and only by it; a service remembers for half a minute which it refused.
		fresh := service.New(service.EmbeddedCatalog(), service.WithStore(db), service.WithClock(clock))
		_, err = fresh.Keyring().Authorize(t.Context(), token, service.ScopeCatalogWrite)
		if (err == nil) != (by < time.Hour) {
			t.Errorf("after a jump of %s the key that ends in an hour says %v", by, err)
		}
	}
	if check, err := db.Check(t.Context()); err != nil || check.Count > 0 {
		t.Errorf("%+v, %v", check, err)
	}
}
