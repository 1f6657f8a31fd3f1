package workplace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// books is work of a client that books memory and has it until it may end.
func books(ctx context.Context, p *Place, client string, bytes, requests int64) *asked {
	a := &asked{client, make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	go func() {
		_, err := Do(For(ctx, client, "/"), p, Unknown, func(ctx context.Context) (int, error) {
			turn, err := p.Turn(ctx)
			if err != nil {
				return 0, err
			}
			defer turn.End()
			if err := turn.Book(bytes, requests); err != nil {
				return 0, err
			}
			turn.Rest() // the others need cores, too
			close(a.began)
			select {
			case <-a.end:
			case <-ctx.Done():
			}
			return 0, ctx.Err()
		})
		a.outcome <- err
	}()
	synctest.Wait()
	return a
}

// What never fits is refused with the figures, what fits later waits, and ordinary work waits for none that is large.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{ReplayBytes: 64 << 20})
		err := <-books(t.Context(), p, "a", 49<<20, 1).outcome
		if large, ok := errors.AsType[*TooLargeError](err); !ok || large.Bytes != 49<<20 || large.Most != 48<<20 {
			t.Errorf("%v", err)
		}
		first, second := books(t.Context(), p, "a", 40<<20, 1), books(t.Context(), p, "b", 9<<20, 1)
		third, small := books(t.Context(), p, "c", 5<<20, 1), books(t.Context(), p, "a", 3<<20, 1<<30)
		if second.atWork() || third.atWork() || !small.atWork() {
			t.Errorf("a second large one: %v, one that came later and would fit: %v, a small one: %v", second.atWork(),
				third.atWork(), small.atWork())
		}
		close(first.end)
		synctest.Wait()
		if !second.atWork() || !third.atWork() {
			t.Error("the others do not go on")
		}
		for _, a := range []*asked{second, third, small} {
			close(a.end)
		}
		synctest.Wait()
		p.empty(t)
	})
}

// The large work of one client leaves room to that of another, who came later.
func TestMemoryOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{ReplayBytes: 64 << 20})
		one, more := books(t.Context(), p, "one", 20<<20, 1), books(t.Context(), p, "one", 10<<20, 1)
		other := books(t.Context(), p, "other", 10<<20, 1)
		if !one.atWork() || more.atWork() || !other.atWork() {
			t.Errorf("one: %v, its second: %v, another's: %v", one.atWork(), more.atWork(), other.atWork())
		}
		for _, a := range []*asked{one, more, other} {
			close(a.end)
		}
		synctest.Wait()
		p.empty(t)
	})
}

// Work whose request has gone gives its memory back when it ends, and who waits for it goes on.
func TestCancelledWorkGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{ReplayBytes: 64 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		gone, next := books(ctx, p, "a", 40<<20, 1), books(t.Context(), p, "b", 40<<20, 1)
		waits := books(ctx, p, "a", 40<<20, 1)
		if !gone.atWork() || next.atWork() {
			t.Fatal("40 of 48 MiB twice")
		}
		cancel()
		synctest.Wait()
		if !next.atWork() {
			t.Error("its memory is not given back")
		}
		for _, a := range []*asked{gone, waits} {
			if err := <-a.outcome; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
		close(next.end)
		synctest.Wait()
		p.empty(t)
	})
}

// What is quick has places of its own: it waits for none that takes long, and what takes long waits for none of it.
func TestQuickWorkHasPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 1, QueueTimeout: time.Millisecond})
		long := books(t.Context(), p, "a", 1, quickRequests+1)
		if err := <-books(t.Context(), p, "b", 1, quickRequests+1).outcome; !errors.Is(err, ErrShed) {
			t.Errorf("a second long one: %v", err)
		}
		quick := books(t.Context(), p, "b", 1, quickRequests)
		if !long.atWork() || !quick.atWork() {
			t.Errorf("long: %v, quick: %v", long.atWork(), quick.atWork())
		}
		if err := <-books(t.Context(), p, "a", 1, 1).outcome; !errors.Is(err, ErrShed) {
			t.Errorf("a second quick one: %v", err)
		}
		close(long.end)
		close(quick.end)
		batch := For(t.Context(), "a", "/")
		TakesLong(batch)
		if r, err := p.roomFor(&work{of: requestOf(batch)}, requestOf(batch), 1, 1); r != &p.small || err != nil {
			t.Error("a line of a batch is quick")
		}
		synctest.Wait()
		p.empty(t)
	})
}

// A fit's replays wait for memory however long others wait, and take nobody's place.
func TestFitsArePatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{ReplayBytes: 64 << 20, MaxConcurrent: 1, MaxQueue: 1, QueueTimeout: time.Millisecond})
		first := books(t.Context(), p, "a", 40<<20, 1)
		fitted := make(chan error)
		go func() {
			turn := p.LastTurn(t.Context())
			defer turn.End()
			fitted <- turn.Book(40<<20, 1)
		}()
		time.Sleep(time.Minute)
		quick := books(t.Context(), p, "b", 1, 1)
		if !quick.atWork() {
			t.Error("it takes a place")
		}
		close(first.end)
		if err := <-fitted; err != nil {
			t.Error(err)
		}
		close(quick.end)
		synctest.Wait()
		p.empty(t)
	})
}
