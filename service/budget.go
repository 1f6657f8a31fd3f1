package service

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/dustin/go-humanize"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
)

// budget is the memory that replays take together. It is booked by what a job takes at most, which is known before
// anything is recorded. Large jobs wait for each other and not ordinary ones for them: those have a quarter for
// themselves, of which quick ones have half.
type budget struct {
	ordinary int64 // of one ordinary job

	mu                  sync.Mutex
	large, small, quick room
	// mostWaiting large jobs wait for others. They keep their places among the jobs at work, of which they may not take
	// all.
	mostWaiting int
}

// room is a part of the budget. One client's jobs have half of it together, but for one that takes more.
type room struct {
	all, free int64
	has       map[string]int64
	line      []*place
}

// place is a job that waits for room. called is closed when it has it.
type place struct {
	client string
	bytes  int64
	called chan struct{}
	// patient says that it is a job of a fit, which nobody's slot waits for.
	patient bool
}

// mostRequests is how many requests of the replayed allocator one estimate may take, about ten seconds of a core.
const mostRequests = 200 << 20

// newBudget is a budget of so many bytes; nil where there is no limit.
func newBudget(bytes int64) *budget {
	if bytes <= 0 {
		return nil
	}
	small := bytes / 8
	return &budget{ordinary: bytes / 16, large: newRoom(bytes - 2*small), small: newRoom(small), quick: newRoom(small),
		mostWaiting: max(8, 2*runtime.GOMAXPROCS(0))} // half of the jobs that are at work by default
}

func newRoom(bytes int64) room { return room{all: bytes, free: bytes, has: map[string]int64{}} }

// kind is what is known of a job before its cost is.
type kind int

const (
	ordinaryJob kind = iota
	// quickJob is an estimate that is quick if its bound is low, and then waits for no other's memory.
	quickJob
	// patientJob is one of a fit, which nobody's slot waits for.
	patientJob
)

// admit waits until there is room for a job, and says what to call when it is done. A job for which there never is any
// is refused.
func (b *budget) admit(ctx context.Context, c estimator.Cost, k kind) (release func(), err error) {
	in := &b.large
	switch {
	case c.Bytes <= b.ordinary && k == quickJob && c.Requests <= quickRequests:
		in = &b.quick
	case c.Bytes <= b.ordinary:
		in = &b.small
	case c.Bytes > b.large.all:
		var errs invalid.List
		errs.Add("/model", tooLarge, "an answer takes up to %s of the service's memory, and there are %s for one: "+
			"fewer layers or experts in a layer, FSDP2 in the place of FSDP1, or vramplan estimate on the command "+
			"line, which has no such limit",
			humanize.IBytes(uint64(c.Bytes)), humanize.IBytes(uint64(b.large.all)))
		return nil, errs.Err()
	}
	p := &place{client: clientOf(ctx).name, bytes: c.Bytes, called: make(chan struct{}), patient: k == patientJob}
	release = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		in.giveBack(p)
	}
	b.mu.Lock()
	in.line = append(in.line, p)
	in.call()
	if in == &b.large && !p.patient && slices.Contains(in.line, p) && in.waiting() > b.mostWaiting {
		in.leave(p)
		b.mu.Unlock()
		return nil, failed(CodeOverloaded, "The service has as many large jobs as its memory is enough for, and "+
			"as many waiting.")
	}
	b.mu.Unlock()
	select {
	case <-p.called:
		return release, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !in.leave(p) { // it was called meanwhile
		in.giveBack(p)
	}
	return nil, ctx.Err()
}

// tooLarge is the code of what is wrong with a job that takes more than it may.
const tooLarge = "too_large"

// call gives room to those who wait, in the order in which they came: one whose client has its share lets others pass,
// and for one that needs more than is free all others wait.
func (r *room) call() {
	for i := 0; i < len(r.line); {
		p := r.line[i]
		if has := r.has[p.client]; has > 0 && has+p.bytes > r.all/2 {
			i++
			continue
		}
		if p.bytes > r.free {
			return
		}
		r.free -= p.bytes
		r.has[p.client] += p.bytes
		r.line = slices.Delete(r.line, i, i+1)
		close(p.called)
	}
}

func (r *room) giveBack(p *place) {
	r.free += p.bytes
	if r.has[p.client] -= p.bytes; r.has[p.client] == 0 {
		delete(r.has, p.client)
	}
	r.call()
}

// leave takes a job out of the line, and says whether it was there.
func (r *room) leave(p *place) bool {
	i := slices.Index(r.line, p)
	if i < 0 {
		return false
	}
	r.line = slices.Delete(r.line, i, i+1)
	r.call()
	return true
}

// waiting is how many wait that have a slot.
func (r *room) waiting() (n int) {
	for _, p := range r.line {
		if !p.patient {
			n++
		}
	}
	return n
}

// within is an estimate that ends with ctx, stays within the budget and has the cores in turns with others.
func (s *Service) within(ctx context.Context, estimate planner.Estimator, quick bool) planner.Estimator {
	ending := estimator.Until(ctx, estimate)
	k := ordinaryJob
	if quick {
		k = quickJob
	}
	return func(in estimator.Input) (*estimator.Result, error) { return ending(s.admitted(ctx, in, k)) }
}

// admitted is in with what within asks of it. A patient one waits for room however many wait.
func (s *Service) admitted(ctx context.Context, in estimator.Input, k kind) estimator.Input {
	in.Done = ctx.Done()
	if s.budget != nil {
		in.MostRequests = mostRequests
	}
	in.Admit = func(c estimator.Cost) (estimator.Turn, error) {
		if s.tellCost != nil {
			s.tellCost(c)
		}
		release := func() {}
		if s.budget != nil {
			var err error
			if release, err = s.budget.admit(ctx, c, k); err != nil {
				return nil, err
			}
		}
		booked := &clientOf(ctx).request().booked
		booked.Add(c.Bytes)
		end := func() {
			booked.Add(-c.Bytes)
			release()
		}
		if k == patientJob {
			return s.turns.takeLast(ctx, end), nil
		}
		return s.turns.take(ctx, end), nil
	}
	return in
}
