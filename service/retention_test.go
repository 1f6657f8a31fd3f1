package service_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// dropper is a store that counts what it is asked to delete.
type dropper struct {
	service.Store
	asked atomic.Int64
	last  atomic.Pointer[string]
}

func (d *dropper) DropObservations(_ context.Context, before string, limit int) (int64, error) {
	d.last.Store(&before)
	if d.asked.Add(1) == 1 {
		return int64(limit), nil // there are more
	}
	return 3, nil
}

// Old observations go, and a clock that jumps deletes nothing.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		d := &dropper{}
		s := service.New(service.EmbeddedCatalog(), service.WithStore(d),
			service.WithObservationLimits(0, 24*time.Hour),
			service.WithClock(func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }))
		ctx, cancel := context.WithCancel(t.Context())
		type told struct {
			dropped int64
			err     error
		}
		reports := make(chan told, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Retain(ctx, func(dropped int64, err error) { reports <- told{dropped, err} })
		}()
		if got := <-reports; got.dropped != 1003 || got.err != nil {
			t.Errorf("first: %+v", got)
		}
		if want := fmt.Sprintf("obs-%012x", time.Now().Add(-24*time.Hour).UnixMilli()); *d.last.Load() != want {
			t.Errorf("up to %s, want %s", *d.last.Load(), want)
		}
		asked := d.asked.Load()
		for _, by := range []time.Duration{365 * 24 * time.Hour, -365 * 24 * time.Hour} {
			jump.Store(int64(by))
			time.Sleep(2 * time.Minute)
			if got := <-reports; got.err == nil || got.dropped != 0 {
				t.Errorf("after a jump of %s: %+v", by, got)
			}
			for len(reports) > 0 {
				<-reports
			}
		}
		if d.asked.Load() != asked {
			t.Error("a clock that jumped deleted observations")
		}
		cancel()
		<-done
	})
}

// The database takes no more observations than it was set to.
func TestMostObservations(t *testing.T) {
	s := newSite(t)
	s.measure(3, 0)
	full := service.New(service.EmbeddedCatalog(), service.WithStore(s.db), service.WithObservationLimits(4, 0))
	run := service.Sent{Document: jobdoc.Observation{Job: measuredJob(t, 1),
		Measured: jobdoc.Measured{OutOfMemory: true}}}
	_, err := full.Observe(t.Context(), operator, []service.Sent{run, run})
	if service.ErrorCode(err) != service.CodeConflict {
		t.Errorf("two where one has room: %v", err)
	}
	if _, err := full.Observe(t.Context(), operator, []service.Sent{run}); err != nil {
		t.Errorf("the last: %v", err)
	}
}
