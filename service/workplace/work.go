package workplace

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// request is who asks, and what was done for it.
type request struct {
	client, route string
	// had is how long the request had a core, in nanoseconds; long says that it is known to take long.
	had  atomic.Int64
	long atomic.Bool
}

type (
	requestKey struct{}
	workKey    struct{}
)

// requestOf is nobody's where that was not said.
func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		return r
	}
	return &request{}
}

// work is what is done for a request.
type work struct {
	of     *request
	size   Size
	ctx    context.Context
	cancel context.CancelCauseFunc
	began  time.Time
	// part says that it is done within other work, in whose place it is.
	part bool
	// room is where it has its place, nil while it has none; booked is the memory that it has, had its time of cores.
	room   *room
	booked int64
	had    time.Duration
	given  bool // up
}

// homeless says that work has no place yet.
func (w *work) homeless() bool { return w != nil && w.room == nil && !w.part }

// why is the reason for which work ended: its own, or its context's error.
func why(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrShed) || errors.Is(cause, ErrGivenUp) {
		return cause
	}
	return ctx.Err()
}

// enter begins work, which has nothing yet; stop ends it.
func (p *Place) enter(ctx context.Context, s Size) (w *work, stop func()) {
	w = &work{of: requestOf(ctx), size: s, began: time.Now()}
	_, within := ctx.Value(workKey{}).(*work)
	w.part = within && s != Reading
	late := context.CancelFunc(func() {})
	if most := p.limits.RequestTimeout; most > 0 {
		ctx, late = context.WithTimeout(ctx, most)
	}
	ctx, w.cancel = context.WithCancelCause(ctx)
	w.ctx = context.WithValue(ctx, workKey{}, w)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.works[w] = struct{}{}
	return w, func() {
		w.cancel(nil)
		late()
	}
}

// leave gives back what is left to work that has really ended.
func (p *Place) leave(w *work) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.works, w)
	if w.room != nil {
		w.room.vacate(w)
	}
}

// await lets go of the lock until called is closed. It is false where the work ended first, or had no patience; work
// that has no place counts among those that wait for one.
func (p *Place) await(w *work, patience time.Duration, called, gone <-chan struct{}) (ok bool) {
	homeless := w.homeless()
	if homeless && !p.lineUp(w) {
		w.cancel(ErrShed)
		return false
	}
	p.mu.Unlock()
	var late <-chan time.Time
	if homeless && patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-called:
	case <-gone:
	case <-late:
	}
	p.mu.Lock()
	select {
	case <-called: // at the last moment, if need be
		ok = true
	default:
		if w != nil {
			w.cancel(ErrShed) // of no consequence where it has ended
		}
	}
	if homeless {
		p.unqueue(w)
	}
	return ok
}

// lineUp counts work among what waits, in the place of the last of the client with most of it if need be: a client that
// asks for more than there is crowds out itself and nobody else.
func (p *Place) lineUp(w *work) bool {
	if p.queued >= p.limits.MaxQueue {
		most := p.greediest(w.of.client)
		if most == nil {
			return false
		}
		out := most[len(most)-1]
		out.cancel(ErrShed)
		p.unqueue(out)
	}
	p.queue[w.of.client] = append(p.queue[w.of.client], w)
	p.queued++
	return true
}

func (p *Place) unqueue(w *work) {
	of := p.queue[w.of.client]
	for i := range of {
		if of[i] != w {
			continue
		}
		p.queued--
		if len(of) == 1 {
			delete(p.queue, w.of.client)
		} else {
			p.queue[w.of.client] = append(of[:i:i], of[i+1:]...)
		}
		return
	}
}

// greediest is what waits of the client with most of it; nil where one more of this client would be as much.
func (p *Place) greediest(client string) (most []*work) {
	n := len(p.queue[client]) + 1
	for _, of := range p.queue {
		if len(of) > n {
			most, n = of, len(of)
		}
	}
	return most
}

// Full says whether work of this client would be sent away now, so that its document need not be read.
func (p *Place) Full(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued >= p.limits.MaxQueue && p.greediest(client) == nil
}
