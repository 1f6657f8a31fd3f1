package workplace

import (
	"context"
	"math"
	"time"
)

// cores are lent to work in turns. Work offers its core every two milliseconds or so, and so what is small never waits
// for what is large of others to end. Requests go through stages by what they had of the cores, and have most of the
// cores in the first: what will take long need not be known beforehand. Within a stage clients have equal parts.
type cores struct {
	free   int
	stages [len(stagesOfRequests)]stage
}

// stage is what requests in one stage want and had; used is how long all of them had a core, over the stage's weight,
// since it was last in use with others.
type stage struct {
	line[*Turn]
	used time.Duration
}

// stagesOfRequests are up to where requests are in each stage, and the stage's part of the cores while requests of all
// stages want them. Estimates of models with a dozen layers end in the first, of any other dense model on one card in
// the second; a plan goes through three, and batches through all.
var stagesOfRequests = [...]struct{ upTo, weight time.Duration }{
	{4 * time.Millisecond, 8}, {32 * time.Millisecond, 4}, {256 * time.Millisecond, 2}, {math.MaxInt64, 1},
}

const (
	// stageOfLong is where requests begin that are known to take long.
	stageOfLong = 2
	// lead is by how much one client's work has to have had more than another's before it gives way.
	lead = 5 * time.Millisecond
)

func newCores(n int) cores {
	c := cores{free: n}
	for i := range c.stages {
		c.stages[i].line = newLine[*Turn]()
	}
	return c
}

// Turn is a core that is lent, and the memory that is booked with it. It is used by one goroutine at a time, and is an
// estimator's Turn.
type Turn struct {
	place  *Place
	ctx    context.Context
	work   *work // nil where nobody's place is waited for
	of     *request
	gone   <-chan struct{}
	booked []*booking
	// first is the stage that it begins in at least.
	first int

	has   bool      // a core
	since time.Time // what of its time has not been counted
	stage int       // in which it waits or runs
	// called is closed by whoever gives it a core.
	called chan struct{}
}

func (p *Place) newTurn(ctx context.Context) *Turn {
	return &Turn{place: p, ctx: ctx, of: requestOf(ctx), gone: ctx.Done()}
}

// Turn waits for a core. Its memory and its core are given back with End. The error says why the work of ctx has ended.
func (p *Place) Turn(ctx context.Context) (*Turn, error) {
	t := p.newTurn(ctx)
	t.work, _ = ctx.Value(workKey{}).(*work)
	if t.Resume(); ctx.Err() != nil {
		t.End()
		return nil, why(ctx)
	}
	return t, nil
}

// LastTurn is a Turn for work that nobody waits for, such as a fit's: it leaves the first stages to others, and waits
// however many wait.
func (p *Place) LastTurn(ctx context.Context) *Turn {
	t := p.newTurn(ctx)
	t.first = len(p.cores.stages) - 1
	t.Resume()
	return t
}

// Core waits for a core for what a request does beside its work, such as writing down a long answer, and says what to
// call when that is done. Whoever's ctx is done gets none.
func (p *Place) Core(ctx context.Context) (leave func()) {
	t := p.newTurn(ctx)
	t.Resume()
	return t.End
}

// Resume waits for a core.
func (t *Turn) Resume() {
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	t.resume()
}

func (t *Turn) resume() {
	if t.has {
		return
	}
	t.enter()
	if c := &t.place.cores; c.free > 0 {
		c.free--
		t.start()
	} else {
		t.wait()
	}
	t.since = time.Now()
}

func (t *Turn) wait() {
	s := &t.place.cores.stages[t.stage]
	t.called = make(chan struct{})
	s.put(t.of.client, t)
	if !t.place.await(t.work, t.place.limits.QueueTimeout, t.called, t.gone) {
		s.take(t.of.client, t)
	}
}

// Pace offers the core to whoever has the better claim to it.
func (t *Turn) Pace() {
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	if !t.has {
		return
	}
	t.count()
	next := t.place.cores.next()
	if next == nil || !t.givesWayTo(next) {
		return
	}
	t.stop()
	next.call()
	t.enter()
	t.wait()
	t.since = time.Now()
}

func (t *Turn) givesWayTo(next *Turn) bool {
	own, others := &t.place.cores.stages[t.stage], &t.place.cores.stages[next.stage]
	switch {
	case next.stage == t.stage:
		return own.clients[next.of.client].had+lead <= own.clients[t.of.client].had
	case next.stage < t.stage:
		return others.used <= own.used
	}
	return others.used+lead <= own.used
}

// Rest gives the core up for a while.
func (t *Turn) Rest() {
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	t.rest()
}

func (t *Turn) rest() {
	if !t.has {
		return
	}
	t.count()
	t.stop()
	if next := t.place.cores.next(); next != nil {
		next.call()
	} else {
		t.place.cores.free++
	}
}

// End gives the core and the memory back.
func (t *Turn) End() {
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	t.rest()
	for _, b := range t.booked {
		b.room.giveBack(b)
	}
	t.booked = nil
}

// next is who waits in the stage that had least for its weight, of the client that had least there; nil where nobody
// does.
func (c *cores) next() *Turn {
	var of *stage
	for i := range c.stages {
		if s := &c.stages[i]; len(s.waiting) > 0 && (of == nil || s.used < of.used) {
			of = s
		}
	}
	if of == nil {
		return nil
	}
	return of.first()
}

// stageOf is the stage that a request is in.
func stageOf(of *request) (stage int) {
	if of.long.Load() {
		stage = stageOfLong
	}
	for had := of.had.Load(); time.Duration(had) >= stagesOfRequests[stage].upTo; {
		stage++
	}
	return stage
}

// enter finds the stage that t is in. One that was not in use has no claim to what it did not want then.
func (t *Turn) enter() {
	t.stage = max(t.first, stageOf(t.of))
	stages := &t.place.cores.stages
	if own := &stages[t.stage]; !own.inUse() {
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
}

// call gives a core to one who waits for it.
func (t *Turn) call() {
	t.place.cores.stages[t.stage].take(t.of.client, t)
	t.start()
	close(t.called)
}

func (t *Turn) start() {
	t.place.cores.stages[t.stage].begin(t.of.client)
	t.has = true
}

func (t *Turn) stop() {
	t.place.cores.stages[t.stage].end(t.of.client, 0)
	t.has = false
}

// count adds what t had since it was last counted, and moves it on to the stage that it is in now.
func (t *Turn) count() {
	now := time.Now()
	had := now.Sub(t.since)
	t.since = now
	s := &t.place.cores.stages[t.stage]
	s.clients[t.of.client].had += had
	s.used += had / stagesOfRequests[t.stage].weight
	t.of.had.Add(int64(had))
	if t.work != nil {
		t.work.had += had
	}
	t.stop()
	t.enter()
	t.start()
}
