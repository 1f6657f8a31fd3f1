package api

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPauses: however many connections a client asks over, it is refused at most fifty times a second, and one that
// asks once is told at once.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPauses()
		refused := 0
		var mu sync.Mutex
		ctx, enough := context.WithTimeout(t.Context(), 10*time.Second)
		defer enough()
		var all sync.WaitGroup
		for range 80 {
			all.Go(func() {
				for ctx.Err() == nil {
					p.wait(ctx, "many")
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		p.wait(ctx, "one")
		if took := time.Since(began); took != perRefusal {
			t.Errorf("one refusal took %v", took)
		}
		all.Wait()
		if most := 10*50 + 2*80; refused > most {
			t.Errorf("%d refusals in ten seconds, at most %d were expected", refused, most)
		}
		if len(p.here) != 0 {
			t.Errorf("%v is remembered", p.here)
		}
	})
}

// TestPauseEnds: nobody waits for a client that has gone.
func TestPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		newPauses().wait(ctx, "gone")
		if took := time.Since(began); took != 0 {
			t.Errorf("waited for %v", took)
		}
	})
}
