package asking

import (
	"context"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// atLeast is the least that a candidate takes, which nothing has to be played for: the answer if it is known, and
// otherwise one whose figures lie on or below it and whose verdict is no worse. Where nothing is known it has neither a
// result nor an error: a calibration may move figures either way.
func (c *costs) atLeast(ctx context.Context, x Candidate) (Answer, error) {
	key := x.Key()
	c.mu.Lock()
	a, ok := c.known[key]
	if !ok {
		a, ok = c.least[key]
	}
	c.mu.Unlock()
	if ok || c.Base.Calibration != nil {
		return a, nil
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	in := x.Input(c.Base)
	in.LeastOnly = true
	if a.Result, a.Err = c.Estimate(in); a.Err != nil && !Refusal(a.Err) {
		return Answer{}, a.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.least[key] = a
	return a, nil
}

// beyondHope reports whether the least that a candidate takes says that it does not fit.
func (a Answer) beyondHope() bool {
	if a.Result == nil {
		return false
	}
	v := a.Fit().Verdict
	return v != estimator.Fits && v != estimator.Unknown
}

// JudgeLeast is judge by the least that a candidate takes.
func (a *Asker) JudgeLeast(ctx context.Context, v lever.Variant, p pairing.Choice) (Judged, error) {
	j := Judged{Candidate: Candidate{With: v, Micro: p.MicroBatch, Accum: p.GradientAccumulation}}
	var err error
	if j.Answer, err = a.Costs.atLeast(ctx, j.Candidate); err != nil {
		return Judged{}, err
	}
	if a.RefTime[0] > 0 && j.Result != nil {
		j.Time = a.RelativeTime(j)
	}
	return j, nil
}

// JudgeHopeful judges a candidate unless the least that it takes is too much; then the answer is nil.
func (ask *Asker) JudgeHopeful(ctx context.Context, v lever.Variant, p pairing.Choice, judge Judging) (*Judged, error) {
	x := Candidate{With: v, Micro: p.MicroBatch, Accum: p.GradientAccumulation}
	if ask.Costs.Brief { // where judging what cannot fit costs no more
		j, err := judge(ctx, v, p)
		return &j, err
	}
	a, err := ask.Costs.atLeast(ctx, x)
	if err != nil || a.beyondHope() {
		return nil, err
	}
	j, err := judge(ctx, v, p)
	return &j, err
}

// JudgeBest judges as many of some variants at a pair as it takes to know which of them fit and, where none does, which
// leaves least on the card. The others stay without a result.
func (a *Asker) JudgeBest(ctx context.Context, vs []lever.Variant, at pairing.Choice, judge Judging) ([]Judged, error) {
	out, leasts := make([]Judged, len(vs)), make([]Answer, len(vs))
	if a.Costs.Brief {
		return out, Parallel(ctx, len(vs), func(ctx context.Context, i int) (err error) {
			out[i], err = judge(ctx, vs[i], at)
			return err
		})
	}
	err := Parallel(ctx, len(vs), func(ctx context.Context, i int) (err error) {
		leasts[i], err = a.Costs.atLeast(ctx, Candidate{With: vs[i], Micro: at.MicroBatch,
			Accum: at.GradientAccumulation})
		return err
	})
	if err != nil {
		return nil, err
	}
	ask := func(wanted func(i int) bool) error {
		var is []int
		for i := range vs {
			if out[i].Result == nil && leasts[i].Err == nil && wanted(i) {
				is = append(is, i)
			}
		}
		return Parallel(ctx, len(is), func(ctx context.Context, k int) (err error) {
			out[is[k]], err = judge(ctx, vs[is[k]], at)
			return err
		})
	}
	if err := ask(func(i int) bool { return !leasts[i].beyondHope() }); err != nil {
		return nil, err
	}
	first := -1 // the one that promises most
	for i := range vs {
		if out[i].Fits() {
			return out, nil
		}
		if r := leasts[i].Result; r != nil && (first < 0 || r.Peak.HighBytes < leasts[first].Result.Peak.HighBytes) {
			first = i
		}
	}
	if first < 0 {
		return out, nil
	}
	if err := ask(func(i int) bool { return i == first }); err != nil {
		return nil, err
	}
	best := out[first].HighBytes()
	err = ask(func(i int) bool { return leasts[i].Result != nil && leasts[i].Result.Peak.HighBytes <= best })
	return out, err
}
