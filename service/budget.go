package service

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/dustin/go-humanize"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
)

// budget is the memory that replays take together. It is booked by what a job takes at most, which is known before anything is
// recorded. Large jobs wait for each other and not ordinary ones for them: those have a quarter for themselves.
type budget struct {
	most, ordinary int64 // of one large and of one ordinary job
	large, small   *semaphore.Weighted
	// waiting is how many large jobs wait for others. They keep their places among the jobs at work, of which they may not take all.
	waiting     atomic.Int64
	mostWaiting int64
}

// mostRequests is how many requests of the replayed allocator one estimate may take, about ten seconds of a core.
const mostRequests = 200 << 20

// newBudget is a budget of so many bytes; nil where there is no limit.
func newBudget(bytes int64) *budget {
	if bytes <= 0 {
		return nil
	}
	small := bytes / 4
	b := &budget{most: bytes - small, ordinary: bytes / 16, large: semaphore.NewWeighted(bytes - small), small: semaphore.NewWeighted(small)}
	b.mostWaiting = int64(max(8, 2*runtime.GOMAXPROCS(0))) // half of the jobs that are at work by default
	return b
}

// admit waits until there is room for a job, and says what to call when it is done. A job for which there never is any is refused.
func (b *budget) admit(ctx context.Context, c estimator.Cost) (release func(), err error) {
	of := b.large
	switch {
	case c.Bytes <= b.ordinary:
		of = b.small
	case c.Bytes > b.most:
		var errs invalid.List
		errs.Add("/model", "too_large", "an answer takes up to %s of the service's memory, and there are %s for one: fewer layers or experts in a layer, FSDP2 in the place of FSDP1, or vramplan estimate on the command line, which has no such limit",
			humanize.IBytes(uint64(c.Bytes)), humanize.IBytes(uint64(b.most)))
		return nil, errs.Err()
	}
	release = func() { of.Release(c.Bytes) }
	if of.TryAcquire(c.Bytes) {
		return release, nil
	}
	if of == b.large {
		defer b.waiting.Add(-1)
		if b.waiting.Add(1) > b.mostWaiting {
			return nil, failed(CodeOverloaded, "The service has as many large jobs as its memory is enough for, and as many waiting.")
		}
	}
	if err := of.Acquire(ctx, c.Bytes); err != nil {
		return nil, err
	}
	return release, nil
}

// within is an estimate that ends with ctx and stays within the budget.
func (s *Service) within(ctx context.Context, estimate planner.Estimator) planner.Estimator {
	ending := estimator.Until(ctx, estimate)
	return func(in estimator.Input) (*estimator.Result, error) {
		if b := s.budget; b != nil {
			in.MostRequests = mostRequests
			in.Admit = func(c estimator.Cost) (func(), error) { return b.admit(ctx, c) }
		}
		return ending(in)
	}
}
