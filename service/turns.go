package service

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// client is who asks, and how long estimates for one request of theirs had a core.
type client struct {
	name string
	had  atomic.Int64
}

type clientKey struct{}

// ForClient says whose request ctx is: large jobs of one client leave room to those of others, and have the cores in
// turns with them. had tells how long the request's estimates had a core so far.
func ForClient(ctx context.Context, name string) (of context.Context, had func() time.Duration) {
	c := &client{name: name}
	return context.WithValue(ctx, clientKey{}, c), func() time.Duration { return time.Duration(c.had.Load()) }
}

// clientOf is whose request ctx is, nobody's where that was not said.
func clientOf(ctx context.Context) *client {
	if c, ok := ctx.Value(clientKey{}).(*client); ok {
		return c
	}
	return &client{}
}

// turns lends the cores to estimates, which go on for as long as nobody else waits whose estimates had less of them
// lately. An estimate offers its core every two milliseconds or so, and so a small one never waits for large ones of
// others to end.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []*turn // in the order in which they came
	// had is how long estimates of a client had a core lately. It is halved every second.
	had    map[string]time.Duration
	halved time.Time
}

// turn is an estimate's. It is used by one goroutine at a time.
type turn struct {
	of     *turns
	client *client
	gone   <-chan struct{}
	end    func()

	has   bool      // a core
	since time.Time // what of its time has not been counted
	// called is closed by whoever gives it a core.
	called chan struct{}
}

// lead is by how much one client's estimates have to have had more than another's before they give way.
const lead = 5 * time.Millisecond

func newTurns() *turns {
	return &turns{free: runtime.GOMAXPROCS(0), had: map[string]time.Duration{}, halved: time.Now()}
}

// take waits for a core; end is called with the turn's End. Whoever's ctx is done gets a turn without one.
func (p *turns) take(ctx context.Context, end func()) *turn {
	t := &turn{of: p, client: clientOf(ctx), gone: ctx.Done(), end: end}
	t.Resume()
	return t
}

// Core waits for a core for work of a client that is no estimate's, such as writing down a long answer, and says what
// to call when that is done. Whoever's ctx is done gets none.
func (s *Service) Core(ctx context.Context, name string) (leave func()) {
	ctx, _ = ForClient(ctx, name)
	return s.turns.take(ctx, func() {}).End
}

// Resume implements [estimator.Turn].
func (t *turn) Resume() {
	p := t.of
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		t.has = true
		p.mu.Unlock()
		t.since = time.Now()
		return
	}
	t.wait()
}

// wait is called with the lock, which it lets go of.
func (t *turn) wait() {
	p := t.of
	t.called = make(chan struct{})
	p.waiting = append(p.waiting, t)
	p.mu.Unlock()
	select {
	case <-t.called:
	case <-t.gone:
		p.mu.Lock()
		if i := slices.Index(p.waiting, t); i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		p.mu.Unlock()
	}
	t.since = time.Now()
}

// Pace implements [estimator.Turn].
func (t *turn) Pace() {
	if !t.has {
		return
	}
	p := t.of
	p.mu.Lock()
	t.count()
	next := p.next()
	if next == nil || p.had[next.client.name]+lead > p.had[t.client.name] {
		p.mu.Unlock()
		return
	}
	t.has = false
	p.call(next)
	t.wait()
}

// Rest implements [estimator.Turn].
func (t *turn) Rest() {
	if !t.has {
		return
	}
	p := t.of
	p.mu.Lock()
	defer p.mu.Unlock()
	t.count()
	t.has = false
	if next := p.next(); next != nil {
		p.call(next)
	} else {
		p.free++
	}
}

// End implements [estimator.Turn].
func (t *turn) End() {
	t.Rest()
	t.end()
}

// next is who waits of the client that had least lately, nil where nobody does.
func (p *turns) next() (next *turn) {
	for _, w := range p.waiting {
		if next == nil || p.had[w.client.name] < p.had[next.client.name] {
			next = w
		}
	}
	return next
}

// call gives a core to one who waits.
func (p *turns) call(w *turn) {
	i := slices.Index(p.waiting, w)
	p.waiting = slices.Delete(p.waiting, i, i+1)
	w.has = true
	close(w.called)
}

// count adds what t had since it was last counted.
func (t *turn) count() {
	p, now := t.of, time.Now()
	if now.Sub(p.halved) >= time.Second {
		p.halved = now
		for name, had := range p.had {
			if had < time.Millisecond {
				delete(p.had, name)
			} else {
				p.had[name] = had / 2
			}
		}
	}
	had := now.Sub(t.since)
	t.since = now
	p.had[t.client.name] += had
	t.client.had.Add(int64(had))
}
