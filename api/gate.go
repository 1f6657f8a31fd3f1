package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vramplan/vramplan/api/problem"
)

// gate lets a few jobs be worked on at once and a few more wait for their turn.
// The next turn is the client's whose jobs took least of the last seconds, and
// where the waiting room is full whoever holds most of it has to go: a client that
// asks for more than the service can do crowds out itself and nobody else.
type gate struct {
	mu sync.Mutex
	// free slots; while somebody waits there are some only where all who wait have as many as one client may have.
	free, slots int
	// most is how many slots one client may have, and has how many it has.
	most     int
	has      map[string]int
	waiting  int
	room     int
	patience time.Duration
	// line holds the clients that wait; among equals the first has the next turn.
	line []*waitingClient
	// byName is the same by the client's name.
	byName map[string]*waitingClient
	// spent is how long jobs of a client took lately. It is halved every second,
	// and who has spent next to nothing is forgotten.
	spent  map[string]time.Duration
	halved time.Time
}

// waitingClient is one client's place in the line. It is never empty.
type waitingClient struct {
	name    string
	waiters []*waiter
}

// waiter is one request that waits. called is closed when its wait is over, and
// let says how.
type waiter struct {
	called chan struct{}
	let    bool
}

func newGate(slots, most, room int, patience time.Duration) *gate {
	return &gate{free: slots, slots: slots, most: most, has: map[string]int{}, room: room, patience: patience,
		byName: map[string]*waitingClient{}, spent: map[string]time.Duration{}, halved: time.Now()}
}

// errShed says that a job was sent away.
var errShed = errors.New("too much to do")

// enterFree takes a slot where one is free, and says whether it did. Whoever has one has to leave.
func (g *gate) enterFree(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.takeFree(client)
}

func (g *gate) takeFree(client string) bool {
	if g.free == 0 || g.has[client] >= g.most {
		return false
	}
	g.free--
	g.has[client]++
	return true
}

// enter waits for a slot. Whoever gets nil has to leave.
func (g *gate) enter(ctx context.Context, client string) error {
	g.mu.Lock()
	if g.takeFree(client) {
		g.mu.Unlock()
		return nil
	}
	if g.waiting >= g.room && !g.makeRoom(client) {
		g.mu.Unlock()
		return errShed
	}
	w := &waiter{called: make(chan struct{})}
	g.add(client, w)
	g.mu.Unlock()

	timer := time.NewTimer(g.patience)
	defer timer.Stop()
	select {
	case <-w.called:
		if w.let {
			return nil
		}
		return errShed
	case <-timer.C:
		return g.giveUp(client, w, errShed)
	case <-ctx.Done():
		return g.giveUp(client, w, ctx.Err())
	}
}

// leave gives the slot to the next in line, after a job of this client that took so long.
func (g *gate) leave(client string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spend(client, took)
	if g.has[client]--; g.has[client] == 0 {
		delete(g.has, client)
	}
	at := -1
	for i, c := range g.line {
		if g.has[c.name] < g.most && (at < 0 || g.spent[c.name] < g.spent[g.line[at].name]) {
			at = i
		}
	}
	if at < 0 {
		g.free++
		return
	}
	c := g.line[at]
	g.has[c.name]++
	next := c.waiters[0]
	c.waiters = c.waiters[1:]
	g.waiting--
	// Among equals, the client's next request waits until the others have had their turn.
	g.line = append(g.line[:at:at], g.line[at+1:]...)
	if len(c.waiters) > 0 {
		g.line = append(g.line, c)
	} else {
		delete(g.byName, c.name)
	}
	next.let = true
	close(next.called)
}

func (g *gate) spend(client string, took time.Duration) {
	if now := time.Now(); now.Sub(g.halved) >= time.Second {
		g.halved = now
		for name, spent := range g.spent {
			if spent < time.Millisecond {
				delete(g.spent, name)
			} else {
				g.spent[name] = spent / 2
			}
		}
	}
	g.spent[client] += took
}

// full says whether a request of this client would be sent away now, so that its
// body need not be read.
func (g *gate) full(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return (g.free == 0 || g.has[client] >= g.most) && g.waiting >= g.room && g.greediest(client) == nil
}

// queued is how many wait.
func (g *gate) queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

func (g *gate) add(client string, w *waiter) {
	c := g.byName[client]
	if c == nil {
		c = &waitingClient{name: client}
		g.byName[client] = c
		g.line = append(g.line, c)
	}
	c.waiters = append(c.waiters, w)
	g.waiting++
}

// greediest is the client with most requests in the line, nil unless they would
// be more than client's own with one added.
func (g *gate) greediest(client string) *waitingClient {
	most := 1
	if own := g.byName[client]; own != nil {
		most += len(own.waiters)
	}
	var greediest *waitingClient
	for _, c := range g.line {
		if len(c.waiters) > most {
			greediest, most = c, len(c.waiters)
		}
	}
	return greediest
}

// makeRoom sends away the last request of the greediest client.
func (g *gate) makeRoom(client string) bool {
	c := g.greediest(client)
	if c == nil {
		return false
	}
	last := len(c.waiters) - 1
	close(c.waiters[last].called)
	c.waiters = c.waiters[:last] // at least one is left: greediest has more than one
	g.waiting--
	return true
}

// giveUp takes a waiter out of the line, unless it was called meanwhile.
func (g *gate) giveUp(client string, w *waiter, why error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-w.called:
		if w.let {
			return nil
		}
		return errShed
	default:
	}
	c := g.byName[client]
	for i := range c.waiters {
		if c.waiters[i] == w {
			c.waiters = append(c.waiters[:i:i], c.waiters[i+1:]...)
			break
		}
	}
	g.waiting--
	if len(c.waiters) == 0 {
		delete(g.byName, client)
		for i := range g.line {
			if g.line[i] == c {
				g.line = append(g.line[:i:i], g.line[i+1:]...)
				break
			}
		}
	}
	return why
}

// shed counts a request that is sent away because there is too much to do.
func (a *API) shed(why string) *problem.Problem {
	a.metrics.shed.WithLabelValues(why).Inc()
	detail := "The service has as many jobs as it was set to take at once, and as many waiting."
	if why == "memory" {
		detail = "The service holds as many bytes of documents and answers as it was set to hold at once."
	}
	p := problem.New(problem.Overloaded, "%s", detail)
	p.RetryAfterSeconds = 1
	return p
}
