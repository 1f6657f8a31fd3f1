package service

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vramplan/vramplan/estimator"
)

// TestTurns: whoever had less of the cores lately goes first, in the running as well as in the line, and a client's own
// jobs do not hurry each other.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTurns()
		p.free = 1
		of := func(name string) context.Context { ctx, _ := ForClient(t.Context(), name); return ctx }
		dear := p.take(of("dear"), func() {})
		time.Sleep(20 * time.Millisecond)
		dear.Pace() // nobody waits

		var mu sync.Mutex
		took := map[string]time.Duration{}
		began := time.Now()
		ask := func(name string, takes time.Duration) {
			one := p.take(of(name), func() {})
			time.Sleep(takes)
			one.End()
			mu.Lock()
			defer mu.Unlock()
			took[name] = time.Since(began)
		}
		go ask("dear", time.Millisecond)
		synctest.Wait()
		dear.Pace() // its own client's
		if !dear.has {
			t.Fatal("gave way to its own client")
		}
		go ask("small", time.Millisecond)
		synctest.Wait()
		time.Sleep(2 * time.Millisecond)
		dear.Pace() // gives way, and goes on when the small one is done: its own client's other job came first
		mu.Lock()
		small := took["small"]
		mu.Unlock()
		if want := 3 * time.Millisecond; small != want {
			t.Errorf("the small job took %v, not %v", small, want)
		}
		dear.End()
		synctest.Wait()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if p.free != 1 || len(p.waiting) != 0 || len(took) != 2 {
			t.Errorf("%d free, %d wait, %v", p.free, len(p.waiting), took)
		}
	})
}

// TestTurnsEnd: whoever has gone gets no core and leaves none behind.
func TestTurnsEnd(t *testing.T) {
	p := newTurns()
	p.free = 1
	first := p.take(t.Context(), func() {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := false
	late := p.take(ctx, func() { ended = true })
	late.Pace()
	late.End()
	first.End()
	if !ended || p.free != 1 || len(p.waiting) != 0 {
		t.Errorf("%v, %d free, %d wait", ended, p.free, len(p.waiting))
	}
}

// TestShareOfOneClient: the large jobs of one client leave room to those of another, who came later.
func TestShareOfOneClient(t *testing.T) {
	b := newBudget(64 << 20) // 48 MiB for large ones
	one, _ := ForClient(t.Context(), "one")
	other, _ := ForClient(t.Context(), "other")
	first, err := b.admit(one, estimator.Cost{Bytes: 20 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(one, 20*time.Millisecond)
	defer cancel()
	if _, err := b.admit(short, estimator.Cost{Bytes: 10 << 20}, false); err == nil {
		t.Fatal("one client has more than half")
	}
	second, err := b.admit(other, estimator.Cost{Bytes: 10 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	first()
	second()
	if b.large.free != b.large.all || len(b.large.has) != 0 || len(b.large.line) != 0 {
		t.Errorf("%+v", b.large)
	}
}
