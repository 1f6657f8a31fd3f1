package workplace

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Near the limit of the process's memory the dearest work ends, of equals the older, one at a time, and is counted;
// what asked for little goes on.
func TestDearestIsGivenUpFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		var all []*asked
		for _, bytes := range []int64{1, 9, 9, 10} {
			all = append(all, books(t.Context(), p, "a", bytes, 1))
			time.Sleep(time.Millisecond)
		}
		ctx, stop := context.WithCancel(t.Context())
		var near, told atomic.Int64
		near.Store(3)
		go p.Watch(ctx, func() bool { return near.Add(-1) >= 0 }, func() { told.Add(1) })
		time.Sleep(restAfter / 2)
		for _, i := range []int{3, 1, 2} {
			synctest.Wait()
			for j, a := range all {
				if a == nil {
					continue
				}
				select {
				case err := <-a.outcome:
					if all[j] = nil; j != i || !errors.Is(err, ErrGivenUp) {
						t.Errorf("%d was given up, want %d: %v", j, i, err)
					}
				default:
				}
			}
			time.Sleep(restAfter)
		}
		time.Sleep(time.Second)
		stop()
		if all[0] == nil || told.Load() != 3 || metric(t, p, "vramplan_shed_total", "given_up") != 3 {
			t.Errorf("%d were told of, %v left", told.Load(), all)
		}
		close(all[0].end)
		synctest.Wait()
		p.empty(t)
	})
}

// Work that ends with its request is no news; work that goes on for more than 100 ms is.
func TestOutlivingWork(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		late  float64
	}{{0, 0}, {90 * time.Millisecond, 0}, {110 * time.Millisecond, 1}} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Limits{})
			ctx, cancel := context.WithCancel(For(t.Context(), "a", "/v1/plan"))
			time.AfterFunc(time.Millisecond, cancel)
			_, err := Do(ctx, p, Long, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(tt.after)
				return 0, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			time.Sleep(105 * time.Millisecond)
			if n := metric(t, p, "vramplan_work_outliving", ""); n != tt.late {
				t.Errorf("%v after its request: %v at work", tt.after, n)
			}
			time.Sleep(time.Second)
			if n := metric(t, p, "vramplan_work_outlived_total", "/v1/plan"); n != tt.late ||
				metric(t, p, "vramplan_work_outliving", "") != 0 {
				t.Errorf("%v after its request: %v are counted", tt.after, n)
			}
		})
	}
}
