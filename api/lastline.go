package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"runtime/debug"
	measured "runtime/metrics"
	"sync"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
)

// lastLine gives up the dearest job at work where the process comes near the memory that it may have. Jobs book what
// they take at most before they take it, so that this is for what a bound had wrong: one answer is lost, and not the
// service.
type lastLine struct {
	mu   sync.Mutex
	jobs map[*jobAtWork]struct{}
}

// jobAtWork is a job that can be given up.
type jobAtWork struct {
	began time.Time
	// bytes is what it has booked now.
	bytes  func() int64
	giveUp context.CancelCauseFunc
	given  bool
}

// errGivenUp is why a job ends that was given up.
var errGivenUp = errors.New("given up to stay below the memory limit")

// enter keeps a job in sight until leave is called.
func (l *lastLine) enter(ctx context.Context, giveUp context.CancelCauseFunc) (leave func()) {
	j := &jobAtWork{began: time.Now(), bytes: func() int64 { return service.BookedBytes(ctx) }, giveUp: giveUp}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.jobs == nil {
		l.jobs = map[*jobAtWork]struct{}{}
	}
	l.jobs[j] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.jobs, j)
	}
}

// giveUpDearest ends the job that has booked most, of equals the one that began first, and says whether there was one
// that had not been given up before.
func (l *lastLine) giveUpDearest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var dearest *jobAtWork
	for j := range l.jobs {
		if j.given {
			continue
		}
		if dearest == nil || cmp.Or(cmp.Compare(dearest.bytes(), j.bytes()), j.began.Compare(dearest.began)) < 0 {
			dearest = j
		}
	}
	if dearest == nil {
		return false
	}
	dearest.given = true
	dearest.giveUp(errGivenUp)
	return true
}

const (
	// lookEvery is how often memory is looked at. In so long a replay takes some megabytes.
	lookEvery = 20 * time.Millisecond
	// restAfter is how long a job that was given up has to end and the collector to take what it had: two collections
	// of the largest heap that a service has by default.
	restAfter = 200 * time.Millisecond
)

// watchMemory gives jobs up, one at a time, while near says that the limit is near. It returns with ctx.
func (a *API) watchMemory(ctx context.Context, near func() bool) {
	for {
		wait := lookEvery
		if near() && a.atWork.giveUpDearest() {
			a.metrics.shed.WithLabelValues("given_up").Inc()
			a.log.Warn().Msg("the process was near its memory limit: the dearest job was given up")
			wait = restAfter
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// nearMemoryLimit says whether the process has more than the runtime could keep below its limit (GOMEMLIMIT, or two
// thirds of the container's): the collector works as hard as it may before that, so that a tenth above it is what is
// alive. nil where there is no limit.
func nearMemoryLimit() func() bool {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return nil
	}
	samples := []measured.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	return func() bool {
		measured.Read(samples)
		return samples[0].Value.Uint64()-samples[1].Value.Uint64() > uint64(limit)/10*11
	}
}

// ended is why a job ended before its answer.
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errGivenUp) {
		p := problem.New(problem.Overloaded, "The service was near the memory that it may have, and this was the job "+
			"that took most of it. Ask again, or ask for less at once.")
		p.RetryAfterSeconds = 5
		return p
	}
	return ctx.Err()
}
