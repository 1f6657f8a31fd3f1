package workplace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: whoever had less of the cores goes first, in the running as well as in the line, and what a client
// asks next does not wait for its own long job.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.cores.free = 1
		of := func(name string) context.Context { return For(t.Context(), name, "/") }
		dear := p.lend(of("dear"))
		time.Sleep(20 * time.Millisecond)
		dear.Pace() // nobody waits

		var mu sync.Mutex
		took := map[string]time.Duration{}
		began := time.Now()
		ask := func(name string, takes time.Duration) {
			one := p.lend(of(name))
			time.Sleep(takes)
			one.End()
			mu.Lock()
			defer mu.Unlock()
			took[name] = time.Since(began)
		}
		go ask("dear", time.Millisecond)
		synctest.Wait()
		dear.Pace() // its own client's, for a millisecond
		if !dear.has {
			t.Fatal("has no core")
		}
		mu.Lock()
		if own := took["dear"]; own != time.Millisecond {
			t.Errorf("the client's other job took %v", own)
		}
		mu.Unlock()
		go ask("small", time.Millisecond)
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		dear.Pace() // gives way, and goes on when the small one is done
		mu.Lock()
		small := took["small"]
		mu.Unlock()
		if want := 4 * time.Millisecond; small != want { // since the beginning
			t.Errorf("the small job took %v, not %v", small, want)
		}
		dear.End()
		synctest.Wait()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if p.empty(t); p.cores.free != 1 || len(took) != 2 {
			t.Errorf("%d free, %v", p.cores.free, took)
		}
	})
}

// TestTurnsEnd: whoever has gone gets no core and leaves none behind.
func TestTurnsEnd(t *testing.T) {
	p := New(Limits{})
	p.cores.free = 1
	first := p.lend(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Turn(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	late := p.LastTurn(ctx)
	late.Pace()
	late.End()
	first.End()
	if p.empty(t); p.cores.free != 1 {
		t.Errorf("%d free", p.cores.free)
	}
}

// lend waits for a core.
func (p *Place) lend(ctx context.Context) *Turn {
	turn, err := p.Turn(ctx)
	if err != nil {
		panic(err)
	}
	return turn
}

// runFor takes so long on a core, and looks every two milliseconds.
func (t *Turn) runFor(takes time.Duration) {
	for ; takes > 0; takes -= 2 * time.Millisecond {
		time.Sleep(min(takes, 2*time.Millisecond))
		t.Pace()
	}
	t.End()
}

// TestShortRequestsGoFirst: a client that asks for much, but little at a time, does not wait for long requests of a
// hundred others who had next to nothing, and those get done all the same.
func TestShortRequestsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.cores.free = 1
		ask := func(name string, takes time.Duration) time.Duration {
			began := time.Now()
			p.lend(For(t.Context(), name, "/")).runFor(takes)
			return time.Since(began)
		}
		const long, clients = 200 * time.Millisecond, 100
		var all sync.WaitGroup
		began := time.Now()
		for i := range clients {
			all.Go(func() { ask(fmt.Sprint(i), long) })
		}
		time.Sleep(time.Second) // they have been through the first stage
		asked := 0
		for time.Since(began) < clients*long {
			if took := ask("busy", time.Millisecond); took > 10*time.Millisecond {
				t.Fatalf("a request of a millisecond took %v", took)
			}
			asked++
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
		if took, most := time.Since(began), clients*long+time.Duration(asked+100)*time.Millisecond; took > most {
			t.Errorf("the long ones took %v, %v is their work and that of the short ones", took, most)
		}
	})
}

// TestNewcomersDoNotGoFirst: a client that has asked for a while, for less than its part, does not wait until those who
// have just come had as much as it.
func TestNewcomersDoNotGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.cores.free = 1
		ask := func(name string) time.Duration {
			began := time.Now()
			p.lend(For(t.Context(), name, "/")).runFor(2 * time.Millisecond)
			return time.Since(began)
		}
		var all sync.WaitGroup
		crowd := func(name string, n int, until time.Time) {
			for range n {
				all.Go(func() {
					for time.Now().Before(until) {
						ask(name)
					}
				})
			}
		}
		end := time.Now().Add(3 * time.Second)
		crowd("first", 2, end)
		newcomers := time.Now().Add(time.Second)
		come := time.AfterFunc(time.Second, func() {
			for i := range 10 {
				crowd(fmt.Sprint(i), 4, end)
			}
		})
		defer come.Stop()
		for time.Now().Before(end) {
			if took := ask("steady"); took > 30*time.Millisecond { // a turn of each, and its own
				t.Errorf("took %v, %v after others came", took, time.Since(newcomers))
			}
			time.Sleep(20 * time.Millisecond)
		}
		all.Wait()
	})
}

// TestLongRequestsHaveTheirPart: where short requests want all of the cores, long ones still have a ninth.
func TestLongRequestsHaveTheirPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		p.cores.free = 1
		ctx := For(t.Context(), "long", "/")
		had := func() time.Duration { return time.Duration(requestOf(ctx).had.Load()) }
		var all sync.WaitGroup
		all.Go(func() { p.lend(ctx).runFor(500 * time.Millisecond) })
		time.Sleep(300 * time.Millisecond) // alone, to the last stage
		before := had()
		enough := time.Now().Add(900 * time.Millisecond)
		for range 4 {
			all.Go(func() {
				for time.Now().Before(enough) {
					p.lend(For(t.Context(), "short", "/")).runFor(2 * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Until(enough))
		if got, want := had()-before, 100*time.Millisecond; got < want*8/10 || got > want*12/10 {
			t.Errorf("the long one had %v of 0.9 s, its ninth is %v", got, want)
		}
		all.Wait()
	})
}

// TestPartsOfARequest: what the lines of a batch had counts for the batch, which may be known to take long.
func TestPartsOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		request := For(t.Context(), "a", "/")
		stage := func() int {
			last := p.lend(request)
			defer last.End()
			return last.stage
		}
		for range 5 {
			p.lend(request).runFor(4 * time.Millisecond)
		}
		if got := stage(); got != 1 { // from 4 ms to 32
			t.Errorf("after 20 ms a batch is in stage %d", got)
		}
		if TakesLong(request); stage() != stageOfLong {
			t.Errorf("one that takes long is in stage %d", stage())
		}
		TakesLong(t.Context()) // nobody's: nothing to say
	})
}
