package service

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// client is who asks, and how long estimates for one request of theirs had a core.
type client struct {
	name string
	had  atomic.Int64
	// long says that the request is known to take long.
	long atomic.Bool
	// booked is what estimates for the request have booked of the service's memory now.
	booked atomic.Int64
	// whole is the request that this is a part of, as a line is of a batch; nil for a request.
	whole *client
}

type clientKey struct{}

// ForClient says whose request ctx is: large jobs of one client leave room to those of others, and have the cores in
// turns with them. had tells how long the request's estimates had a core so far. Within a request it tells of a part,
// and what the part had the request had too.
func ForClient(ctx context.Context, name string) (of context.Context, had func() time.Duration) {
	c := &client{name: name}
	if whole, ok := ctx.Value(clientKey{}).(*client); ok {
		c.whole = whole.request()
	}
	return context.WithValue(ctx, clientKey{}, c), func() time.Duration { return time.Duration(c.had.Load()) }
}

// BookedBytes is what the estimates of the request of ctx may take of the service's memory now.
func BookedBytes(ctx context.Context) int64 { return clientOf(ctx).request().booked.Load() }

// TakesLong says that the request of ctx asks for much, as a batch does, and is not to go before those that ask for
// little: whoever sends another as soon as one was cut off would be at the beginning of the first stage for ever.
func TakesLong(ctx context.Context) { clientOf(ctx).request().long.Store(true) }

// clientOf is whose request ctx is, nobody's where that was not said.
func clientOf(ctx context.Context) *client {
	if c, ok := ctx.Value(clientKey{}).(*client); ok {
		return c
	}
	return &client{}
}

func (c *client) request() *client {
	if c.whole != nil {
		return c.whole
	}
	return c
}

func (c *client) add(had time.Duration) {
	c.had.Add(int64(had))
	if c.whole != nil {
		c.whole.had.Add(int64(had))
	}
}

// turns lends the cores to estimates. An estimate offers its core every two milliseconds or so, and so a small one
// never waits for large ones of others to end. Requests go through stages by what they had of the cores, and have most
// of the cores in the first: what will take long need not be known beforehand. Within a stage clients have equal parts.
type turns struct {
	mu     sync.Mutex
	free   int
	stages [len(stagesOfRequests)]stage
}

// stagesOfRequests are up to where requests are in each stage, and the stage's part of the cores while requests of all
// stages want them. Estimates of models with a dozen layers end in the first, of any other dense model on one card in
// the second; a plan goes through three, and batches through all.
var stagesOfRequests = [...]struct {
	upTo   time.Duration
	weight time.Duration
}{{4 * time.Millisecond, 8}, {32 * time.Millisecond, 4}, {256 * time.Millisecond, 2}, {math.MaxInt64, 1}}

// turn is an estimate's. It is used by one goroutine at a time.
type turn struct {
	of     *turns
	client *client
	gone   <-chan struct{}
	end    func()
	// first is the stage that it begins in at least.
	first int

	has   bool      // a core
	since time.Time // what of its time has not been counted
	stage int       // in which it waits or runs
	// called is closed by whoever gives it a core.
	called chan struct{}
}

// lead is by how much one client's estimates have to have had more than another's before they give way.
const lead = 5 * time.Millisecond

func newTurns() *turns {
	p := &turns{free: runtime.GOMAXPROCS(0)}
	for i := range p.stages {
		p.stages[i].clients = map[string]*share{}
	}
	return p
}

// take waits for a core; end is called with the turn's End. Whoever's ctx is done gets a turn without one.
func (p *turns) take(ctx context.Context, end func()) *turn {
	t := &turn{of: p, client: clientOf(ctx), gone: ctx.Done(), end: end}
	t.Resume()
	return t
}

// takeLast is take for work that nobody waits for, which leaves the first stages to others.
func (p *turns) takeLast(ctx context.Context, end func()) *turn {
	t := &turn{of: p, client: clientOf(ctx), gone: ctx.Done(), end: end, first: len(p.stages) - 1}
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
	t.enter()
	if p.free > 0 {
		p.free--
		p.start(t)
		p.mu.Unlock()
		t.since = time.Now()
		return
	}
	t.wait()
}

// wait is called with the lock, which it lets go of.
func (t *turn) wait() {
	p := t.of
	s := &p.stages[t.stage]
	t.called = make(chan struct{})
	s.queue(t)
	p.mu.Unlock()
	select {
	case <-t.called:
	case <-t.gone:
		p.mu.Lock()
		s.unqueue(t)
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
	if next == nil || !t.givesWayTo(next) {
		p.mu.Unlock()
		return
	}
	p.stop(t)
	p.start(next)
	close(next.called)
	t.enter()
	t.wait()
}

// givesWayTo says whether another has the better claim to the core.
func (t *turn) givesWayTo(next *turn) bool {
	own, others := &t.of.stages[t.stage], &t.of.stages[next.stage]
	switch {
	case next.stage == t.stage:
		return own.clients[next.client.name].had+lead <= own.clients[t.client.name].had
	case next.stage < t.stage:
		return others.used <= own.used
	}
	return others.used+lead <= own.used
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
	p.stop(t)
	if next := p.next(); next != nil {
		p.start(next)
		close(next.called)
	} else {
		p.free++
	}
}

// End implements [estimator.Turn].
func (t *turn) End() {
	t.Rest()
	t.end()
}

// next is who waits in the stage that had least for its weight, of the client that had least there; nil where nobody
// does.
func (p *turns) next() *turn {
	var of *stage
	for i := range p.stages {
		if s := &p.stages[i]; len(s.line) > 0 && (of == nil || s.used < of.used) {
			of = s
		}
	}
	if of == nil {
		return nil
	}
	return of.first()
}

// stageOfLong is where requests begin that are known to take long.
const stageOfLong = 2

// stageOf is the stage that a client's request is in.
func stageOf(c *client) (stage int) {
	if c.request().long.Load() {
		stage = stageOfLong
	}
	for had := c.request().had.Load(); time.Duration(had) >= stagesOfRequests[stage].upTo; {
		stage++
	}
	return stage
}

// enter finds the stage that t is in. One that was not in use has no claim to what it did not want then.
func (t *turn) enter() {
	t.stage = max(t.first, stageOf(t.client))
	stages := &t.of.stages
	own := &stages[t.stage]
	if !own.inUse() {
		least := time.Duration(-1)
		for i := range stages {
			if o := &stages[i]; o.inUse() && (least < 0 || o.used < least) {
				least = o.used
			}
		}
		if least < 0 { // they begin anew
			for i := range stages {
				stages[i].used = 0
			}
		}
		own.used = max(own.used, least, 0)
	}
	own.join(t.client.name)
}

// start gives a core to one who wants it.
func (p *turns) start(t *turn) {
	s := &p.stages[t.stage]
	s.unqueue(t)
	s.running++
	s.clients[t.client.name].running++
	t.has = true
}

func (p *turns) stop(t *turn) {
	s := &p.stages[t.stage]
	s.running--
	s.clients[t.client.name].running--
	t.has = false
}

// count adds what t had since it was last counted, and moves it on to the stage that it is in now.
func (t *turn) count() {
	p, now := t.of, time.Now()
	had := now.Sub(t.since)
	t.since = now
	s := &p.stages[t.stage]
	s.clients[t.client.name].had += had
	s.used += had / stagesOfRequests[t.stage].weight
	t.client.add(had)
	p.stop(t)
	t.enter()
	p.start(t)
}
