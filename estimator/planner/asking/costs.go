package asking

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

// MaxWorkers bounds the goroutines of one plan: a service answers many requests
// at a time, and a plan is a few dozen short estimates.
const MaxWorkers = 4

// Candidate is one job that the planner asks about: the user's job with some
// levers pulled, at one pair.
type Candidate struct {
	With         lever.Variant
	Micro, Accum int64
}

// Answer is what the estimator said of a candidate; exactly one of result and
// err is set.
type Answer struct {
	Result *estimator.Result
	Err    error
	// whole says that the answer has the lower bound of an estimate.
	whole bool
}

// CostKey is what a candidate is known by.
type CostKey struct {
	variant      string
	micro, accum int64
}

// Key tells a candidate from others of the same job.
func (x Candidate) Key() CostKey { return CostKey{x.With.Key, x.Micro, x.Accum} }

// costs asks the estimator and remembers every answer for the length of one plan.
type costs struct {
	Estimate Estimator
	Base     estimator.Input
	Brief    bool // what cannot fit is not played

	mu    sync.Mutex
	known map[CostKey]Answer
	least map[CostKey]Answer
	asked int
	Spent int64 // on all answers
}

// NewCosts asks estimate about ways to run base; where brief, what cannot fit is not played.
func NewCosts(estimate Estimator, base estimator.Input, brief bool) *costs {
	base.Timeline, base.Tensors = false, false
	if len(base.GPUs) > 1 {
		base.GPUs = base.GPUs[:1:1]
	}
	return &costs{Estimate: estimate, Base: base, Brief: brief, known: make(map[CostKey]Answer),
		least: make(map[CostKey]Answer)}
}

// answer is that for one candidate. A job that the estimator refuses is an
// answer too; the error is for a context that has ended and for failures that say
// nothing about the job.
// Only whole answers have the lower bound of an estimate.
func (c *costs) answer(ctx context.Context, x Candidate, whole bool) (Answer, error) {
	key := x.Key()
	c.mu.Lock()
	a, ok := c.known[key]
	c.mu.Unlock()
	if ok && (a.whole || !whole || a.Err != nil) {
		return a, nil
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	in := x.Input(c.Base)
	in.LowerBound, a.whole, in.LeastIfBeyond = whole, whole, c.Brief && !whole
	a.Result, a.Err = c.Estimate(in)
	if a.Err != nil && !Refusal(a.Err) {
		return Answer{}, a.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Two may have asked the same at the same time; the work counts once.
	if old, ok := c.known[key]; !ok || whole && !old.whole {
		c.known[key] = a
		c.asked++
		c.Spent += a.Played()
	}
	return a, nil
}

// Played is the answer for one candidate with all its figures, also where it cannot fit.
func (c *costs) Played(ctx context.Context, x Candidate) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	in := x.Input(c.Base)
	in.LowerBound, in.LeastIfBeyond = false, false
	var a Answer
	if a.Result, a.Err = c.Estimate(in); a.Err != nil && !Refusal(a.Err) {
		return Answer{}, a.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[x.Key()] = a
	c.asked++
	c.Spent += a.Played()
	return a, nil
}

// Ask asks what is not remembered.
func (c *costs) Ask(in estimator.Input) (*estimator.Result, error) {
	in.LeastIfBeyond = in.LeastIfBeyond || c.Brief
	r, err := c.Estimate(in)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Spent += Answer{Result: r}.Played()
	return r, err
}

// Work is what all answers so far took.
func (c *costs) Work() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Spent
}

// Played is the work that an answer took.
func (a Answer) Played() int64 {
	if a.Result == nil {
		return 0
	}
	return a.Result.Played
}

// Refusal reports whether an error is the estimator's judgement of the job.
func Refusal(err error) bool {
	var e *invalid.Error
	return errors.As(err, &e)
}

// All asks about many candidates at once, so that of finds them known later.
func (c *costs) All(ctx context.Context, xs []Candidate, whole bool) error {
	return Parallel(ctx, len(xs), func(ctx context.Context, i int) error {
		_, err := c.answer(ctx, xs[i], whole)
		return err
	})
}

// Parallel runs f for 0…n−1 on a bounded number of goroutines, the caller's among
// them. Each takes one number after the other, so that stacks, which an estimate
// makes large, grow once and not n times.
func Parallel(ctx context.Context, n int, f func(context.Context, int) error) error {
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
	for range min(MaxWorkers, runtime.GOMAXPROCS(0), n) - 1 {
		g.Go(work)
	}
	if err := work(); err != nil {
		g.Go(func() error { return err }) // ends the others
	}
	return g.Wait()
}

// Input is the job document of a candidate. The base is shared: levers replace
// what they change and write through no pointer of it.
func (x Candidate) Input(base estimator.Input) estimator.Input {
	in := base
	for _, l := range x.With.Levers {
		l.Apply(&in)
	}
	in.Job.Training.MicroBatch = x.Micro
	in.Job.Training.GradientAccumulation = x.Accum
	return in
}

// Changes are the fields of the job's training object in which a candidate differs, each with the whole of its new
// value, so that whoever puts them into the job gets the candidate: of an objective, of which a lever sets a field, all
// fields.
func (x Candidate) Changes(base estimator.Input) map[string]any {
	all := x.With.Changes()
	if _, set := all["objective"]; set {
		all["objective"] = x.Input(base).Job.Training.Objective
	}
	return all
}

// Fit is the judgement for the card that the plan is for; verdict "unknown" where
// the job names none or the estimator refuses the candidate.
func (a Answer) Fit() estimator.GPUFit {
	if a.Result == nil || len(a.Result.GPUs) == 0 {
		return estimator.GPUFit{Verdict: estimator.Unknown}
	}
	return a.Result.GPUs[0]
}

// Fits reports whether the candidate surely fits.
func (a Answer) Fits() bool { return a.Fit().Verdict == estimator.Fits }
