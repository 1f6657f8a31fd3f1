package planner

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

// Estimator answers what one candidate job takes. [estimator.Estimate] is one; it
// must be a pure function that may be called from several goroutines at once.
type Estimator func(estimator.Input) (*estimator.Result, error)

// maxWorkers bounds the goroutines of one plan: a service answers many requests
// at a time, and a plan is a few dozen short estimates.
const maxWorkers = 4

// candidate is one job that the planner asks about: the user's job with some
// levers pulled, at one pair.
type candidate struct {
	with         lever.Variant
	micro, accum int64
}

// answer is what the estimator said of a candidate; exactly one of result and
// err is set.
type answer struct {
	result *estimator.Result
	err    error
	// whole says that the answer has the lower bound of an estimate.
	whole bool
}

type costKey struct {
	variant      string
	micro, accum int64
}

// costs asks the estimator and remembers every answer for the length of one plan.
type costs struct {
	estimate Estimator
	base     estimator.Input
	brief    bool // what cannot fit is not played

	mu    sync.Mutex
	known map[costKey]answer
	least map[costKey]answer
	asked int
	spent int64 // on all answers
}

func newCosts(estimate Estimator, base estimator.Input, brief bool) *costs {
	base.Timeline, base.Tensors = false, false
	if len(base.GPUs) > 1 {
		base.GPUs = base.GPUs[:1:1]
	}
	return &costs{estimate: estimate, base: base, brief: brief, known: make(map[costKey]answer),
		least: make(map[costKey]answer)}
}

// answer is that for one candidate. A job that the estimator refuses is an
// answer too; the error is for a context that has ended and for failures that say
// nothing about the job.
// Only whole answers have the lower bound of an estimate.
func (c *costs) answer(ctx context.Context, x candidate, whole bool) (answer, error) {
	key := costKey{x.with.Key, x.micro, x.accum}
	c.mu.Lock()
	a, ok := c.known[key]
	c.mu.Unlock()
	if ok && (a.whole || !whole || a.err != nil) {
		return a, nil
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	in := x.input(c.base)
	in.LowerBound, a.whole, in.LeastIfBeyond = whole, whole, c.brief && !whole
	a.result, a.err = c.estimate(in)
	if a.err != nil && !refusal(a.err) {
		return answer{}, a.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Two may have asked the same at the same time; the work counts once.
	if old, ok := c.known[key]; !ok || whole && !old.whole {
		c.known[key] = a
		c.asked++
		c.spent += a.played()
	}
	return a, nil
}

// played is the answer for one candidate with all its figures, also where it cannot fit.
func (c *costs) played(ctx context.Context, x candidate) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	in := x.input(c.base)
	in.LowerBound, in.LeastIfBeyond = false, false
	var a answer
	if a.result, a.err = c.estimate(in); a.err != nil && !refusal(a.err) {
		return answer{}, a.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[costKey{x.with.Key, x.micro, x.accum}] = a
	c.asked++
	c.spent += a.played()
	return a, nil
}

// ask asks what is not remembered.
func (c *costs) ask(in estimator.Input) (*estimator.Result, error) {
	in.LeastIfBeyond = in.LeastIfBeyond || c.brief
	r, err := c.estimate(in)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent += answer{result: r}.played()
	return r, err
}

// work is what all answers so far took.
func (c *costs) work() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spent
}

// played is the work that an answer took.
func (a answer) played() int64 {
	if a.result == nil {
		return 0
	}
	return a.result.Played
}

// refusal reports whether an error is the estimator's judgement of the job.
func refusal(err error) bool {
	var e *invalid.Error
	return errors.As(err, &e)
}

// all asks about many candidates at once, so that of finds them known later.
func (c *costs) all(ctx context.Context, xs []candidate, whole bool) error {
	return parallel(ctx, len(xs), func(ctx context.Context, i int) error {
		_, err := c.answer(ctx, xs[i], whole)
		return err
	})
}

// parallel runs f for 0…n−1 on a bounded number of goroutines, the caller's among
// them. Each takes one number after the other, so that stacks, which an estimate
// makes large, grow once and not n times.
func parallel(ctx context.Context, n int, f func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	work := func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := f(ctx, i); err != nil {
				return err
			}
		}
	}
	for range min(maxWorkers, runtime.GOMAXPROCS(0), n) - 1 {
		g.Go(work)
	}
	if err := work(); err != nil {
		g.Go(func() error { return err }) // ends the others
	}
	return g.Wait()
}

// input is the job document of a candidate. The base is shared: levers replace
// what they change and write through no pointer of it.
func (x candidate) input(base estimator.Input) estimator.Input {
	in := base
	for _, l := range x.with.Levers {
		l.Apply(&in)
	}
	in.Job.Training.MicroBatch = x.micro
	in.Job.Training.GradientAccumulation = x.accum
	return in
}

// changes are the fields of the job's training object in which a candidate differs, each with the whole of its new
// value, so that whoever puts them into the job gets the candidate: of an objective, of which a lever sets a field, all
// fields.
func (x candidate) changes(base estimator.Input) map[string]any {
	all := x.with.Changes()
	if _, set := all["objective"]; set {
		all["objective"] = x.input(base).Job.Training.Objective
	}
	return all
}

// fit is the judgement for the card that the plan is for; verdict "unknown" where
// the job names none or the estimator refuses the candidate.
func (a answer) fit() estimator.GPUFit {
	if a.result == nil || len(a.result.GPUs) == 0 {
		return estimator.GPUFit{Verdict: estimator.Unknown}
	}
	return a.result.GPUs[0]
}

func (a answer) fits() bool { return a.fit().Verdict == estimator.Fits }
