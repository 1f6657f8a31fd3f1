package workplace

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many connections a client asks over, it is refused at most fifty times a second, and one that asks once is
// told at once; nobody waits for a client that has gone.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{})
		refused := 0
		var mu sync.Mutex
		ctx, enough := context.WithTimeout(t.Context(), 10*time.Second)
		defer enough()
		var all sync.WaitGroup
		for range 80 {
			all.Go(func() {
				for ctx.Err() == nil {
					p.Refused(ctx, "many")
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		p.Refused(ctx, "one")
		if took := time.Since(began); took != perRefusal {
			t.Errorf("one refusal took %v", took)
		}
		all.Wait()
		if most := 10*50 + 2*80; refused > most {
			t.Errorf("%d refusals in ten seconds, at most %d were expected", refused, most)
		}
		began = time.Now()
		if p.Refused(ctx, "gone"); time.Since(began) != 0 || len(p.refused) != 0 {
			t.Errorf("waited for %v; %v is remembered", time.Since(began), p.refused)
		}
	})
}

// What one client has asked for, been sent or guessed is nobody else's concern, and is forgotten in time.
func TestEachClientHasItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{RatePerSecond: 2, BytesOutPerSecond: 100})
		for i, want := range []time.Duration{0, 0, 500 * time.Millisecond} {
			if got := p.Asks("a", false); got.Round(time.Millisecond) != want {
				t.Errorf("request %d has to wait for %v, want %v", i, got, want)
			}
		}
		if p.Asks("b", false) != 0 || p.Asks("a", true) != 0 {
			t.Error("another client, or an API server at the same address, has to wait")
		}
		began := time.Now()
		if !p.Line(t.Context(), "a") || time.Since(began).Round(time.Millisecond) != 500*time.Millisecond {
			t.Errorf("the next line waits for %v", time.Since(began))
		}
		if p.Sent("a", 400); p.Unsent("a") != 0 {
			t.Error("four seconds' bytes at once are too many")
		}
		if p.Sent("a", 100); p.Unsent("a").Round(time.Millisecond) != time.Second || p.Unsent("b") != 0 {
			t.Errorf("a second's bytes more: a waits %v, b %v", p.Unsent("a"), p.Unsent("b"))
		}
		p.Tried("a", "good", true)
		for range RefusedKeys {
			p.Tried("a", "guessed", false)
		}
		if p.MayTry("a", "guessed again") || !p.MayTry("a", "good") || !p.MayTry("b", "guessed") || !p.MayTry("a", "") {
			t.Error("one who guesses is not held up, or others are")
		}
		time.Sleep(2 * time.Second)
		if !p.MayTry("a", "guessed again") || p.Unsent("a") != 0 || p.Asks("a", false) != 0 {
			t.Error("nothing is forgotten")
		}
	})
}
