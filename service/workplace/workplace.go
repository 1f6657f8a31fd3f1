// Package workplace is where the service works for its clients, and the one account of what they take: how often they
// ask, the bytes of documents and answers that are held for them, places, memory, cores and time.
//
// Whatever works for a request goes one way:
//
//	ctx = workplace.For(ctx, client, route)              // whose request it is
//	answer, err := workplace.Do(ctx, place, size, work)  // in a place, within its time, given back when it really ends
//	turn, err := place.Turn(ctx)                         // in work: a core, lent in turns (cores.go)
//	err = turn.Book(bytes, requests)                     // memory before it is taken, and a place for the work (room.go)
//	turn.End()
//
// Who asks for more than there is waits, in a line in which clients have equal parts (line.go); where too many wait,
// the client with most of them has to go. Work that comes near the end of the process's memory is given up, the dearest
// first, and work that goes on after its request is counted (watch.go). Rates, bytes of answers, refused keys and
// refusals are counted by client (clients.go), documents and answers in memory by who holds them longest (held.go).
package workplace

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is a service's workplace.
type Place struct {
	limits  Limits
	clients *clients
	metrics metrics

	mu sync.Mutex
	// Work of up to a sixteenth of the memory is ordinary and has a quarter of it, of which the quick has half: large
	// work waits for large, and nobody else does.
	quick, small, large, readings room
	ordinary                      int64
	cores                         cores
	held                          heldBytes
	works                         map[*work]struct{}
	queue                         map[string][]*work
	queued                        int
	// refused are the requests of each client that wait for being sent away.
	refused map[string]int
}

// For says whose request ctx is, and by what route it came.
func For(ctx context.Context, client, route string) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{client: client, route: route})
}

// TakesLong says that the request of ctx asks for much, as a batch does, and is not to go before those that ask for
// little: whoever sends another as soon as one was cut off would be at the beginning of the first stage for ever.
func TakesLong(ctx context.Context) { requestOf(ctx).long.Store(true) }

// Size is what is known of work before its cost is.
type Size int

const (
	// Unknown work gets its place with the memory that it books first.
	Unknown Size = iota
	// Long work gets one at once, and is never quick.
	Long
	// Reading of strangers' files has places of its own, as many as there are processes for it.
	Reading
)

// Why work has no outcome, beside its context's errors.
var (
	// ErrShed: there is too much to do.
	ErrShed = errors.New("too much to do")
	// ErrFullOfBytes: there are too many bytes in memory.
	ErrFullOfBytes = errors.New("too many bytes in memory")
	// ErrGivenUp: the process was near its memory limit, and this was the dearest work.
	ErrGivenUp = errors.New("given up to stay below the memory limit")
)

// Panic is the error of work that panicked.
type Panic struct {
	Value any
	Stack []byte
}

func (*Panic) Error() string { return "panic" }

// Do works for the request of ctx and waits for it, but no longer than work may take. What took too long ends within
// milliseconds and keeps what it has until then: late work never adds up. Within other work it needs no other place.
func Do[T any](ctx context.Context, p *Place, s Size, do func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	w, stop := p.enter(ctx, s)
	defer stop()
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if cause := recover(); cause != nil {
				o.err = &Panic{cause, debug.Stack()}
			}
			p.leave(w)
			done <- o
		}()
		if s != Unknown {
			o.err = p.settle(w)
		}
		if o.err == nil {
			o.value, o.err = do(w.ctx)
		}
	}()
	var o outcome
	select {
	case o = <-done:
		if o.err != nil && w.ctx.Err() != nil && errors.Is(o.err, w.ctx.Err()) {
			o.err = why(w.ctx)
		}
	case <-w.ctx.Done():
		o.err = why(w.ctx)
		go p.outlives(w, func() { <-done })
	}
	if errors.Is(o.err, ErrShed) {
		p.Shed("jobs")
	}
	return o.value, o.err
}

// Limits are what the workplace was made with.
func (p *Place) Limits() Limits { return p.limits }

// Collectors are the workplace's metrics.
func (p *Place) Collectors() []prometheus.Collector { return p.metrics.collectors(p) }
