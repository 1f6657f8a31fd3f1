package planner

import (
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// atLeast is the least that a candidate takes, which nothing has to be played for: the answer if it is known, and
// otherwise one whose figures lie on or below it and whose verdict is no worse. Where nothing is known it has neither a
// result nor an error: a calibration may move figures either way.
func (c *costs) atLeast(ctx context.Context, x candidate) (answer, error) {
	key := costKey{x.with.Key, x.micro, x.accum}
	c.mu.Lock()
	a, ok := c.known[key]
	if !ok {
		a, ok = c.least[key]
	}
	c.mu.Unlock()
	if ok || c.base.Calibration != nil {
		return a, nil
	}
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	in := x.input(c.base)
	in.LeastOnly = true
	if a.result, a.err = c.estimate(in); a.err != nil && !refusal(a.err) {
		return answer{}, a.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.least[key] = a
	return a, nil
}

// beyondHope reports whether the least that a candidate takes says that it does not fit.
func (a answer) beyondHope() bool {
	if a.result == nil {
		return false
	}
	v := a.fit().Verdict
	return v != estimator.Fits && v != estimator.Unknown
}

// judgeLeast is judge by the least that a candidate takes.
func (a *asker) judgeLeast(ctx context.Context, v lever.Variant, p pairing.Choice) (judged, error) {
	j := judged{candidate: candidate{with: v, micro: p.MicroBatch, accum: p.GradientAccumulation}}
	var err error
	if j.answer, err = a.costs.atLeast(ctx, j.candidate); err != nil {
		return judged{}, err
	}
	if a.refTime[0] > 0 && j.result != nil {
		j.time = a.relativeTime(j)
	}
	return j, nil
}

// judgeHopeful judges a candidate unless the least that it takes is too much; then the answer is nil.
func (ask *asker) judgeHopeful(ctx context.Context, v lever.Variant, p pairing.Choice, judge judging) (*judged, error) {
	x := candidate{with: v, micro: p.MicroBatch, accum: p.GradientAccumulation}
	if ask.costs.brief { // where judging what cannot fit costs no more
		j, err := judge(ctx, v, p)
		return &j, err
	}
	a, err := ask.costs.atLeast(ctx, x)
	if err != nil || a.beyondHope() {
		return nil, err
	}
	j, err := judge(ctx, v, p)
	return &j, err
}

// judgeBest judges as many of some variants at a pair as it takes to know which of them fit and, where none does, which
// leaves least on the card. The others stay without a result.
func (a *asker) judgeBest(ctx context.Context, vs []lever.Variant, at pairing.Choice, judge judging) ([]judged, error) {
	out, leasts := make([]judged, len(vs)), make([]answer, len(vs))
	if a.costs.brief {
		return out, parallel(ctx, len(vs), func(ctx context.Context, i int) (err error) {
			out[i], err = judge(ctx, vs[i], at)
			return err
		})
	}
	err := parallel(ctx, len(vs), func(ctx context.Context, i int) (err error) {
		leasts[i], err = a.costs.atLeast(ctx, candidate{with: vs[i], micro: at.MicroBatch,
			accum: at.GradientAccumulation})
		return err
	})
	if err != nil {
		return nil, err
	}
	ask := func(wanted func(i int) bool) error {
		var is []int
		for i := range vs {
			if out[i].result == nil && leasts[i].err == nil && wanted(i) {
				is = append(is, i)
			}
		}
		return parallel(ctx, len(is), func(ctx context.Context, k int) (err error) {
			out[is[k]], err = judge(ctx, vs[is[k]], at)
			return err
		})
	}
	if err := ask(func(i int) bool { return !leasts[i].beyondHope() }); err != nil {
		return nil, err
	}
	first := -1 // the one that promises most
	for i := range vs {
		if out[i].fits() {
			return out, nil
		}
		if r := leasts[i].result; r != nil && (first < 0 || r.Peak.HighBytes < leasts[first].result.Peak.HighBytes) {
			first = i
		}
	}
	if first < 0 {
		return out, nil
	}
	if err := ask(func(i int) bool { return i == first }); err != nil {
		return nil, err
	}
	best := out[first].highBytes()
	err = ask(func(i int) bool { return leasts[i].result != nil && leasts[i].result.Peak.HighBytes <= best })
	return out, err
}

// leastWeights are the bytes of the job's weights as they are stored under the settings that make them least; 0 where
// that is not known. No other setting moves them, so that nothing fits where they are too much.
func (s *search) leastWeights(ctx context.Context, at pairing.Choice) (int64, error) {
	base := s.costs.base
	if base.Calibration != nil || base.Job.Training.Distributed != nil || len(lever.SmallerModels(base)) > 0 {
		return 0, nil
	}
	stored := [2][]lever.Variant{{{}}, {{}}}
	for _, l := range lever.Changing(base, s.shape, s.tool) {
		switch l.Group {
		case "precision":
			stored[0] = append(stored[0], lever.NewVariant(l))
		case "adapters":
			stored[1] = append(stored[1], lever.NewVariant(l))
		}
	}
	least := int64(0)
	for _, precision := range stored[0] {
		for _, adapters := range stored[1] {
			v := lever.NewVariant(append(slices.Clone(precision.Levers), adapters.Levers...)...)
			j, err := s.judgeLeast(ctx, v, at)
			if err != nil {
				return 0, err
			}
			if j.result == nil {
				continue // such a combination is refused
			}
			for _, c := range j.result.Components {
				if c.Name == "weights" && (least == 0 || c.Bytes < least) {
					least = c.Bytes
				}
			}
			if least > 0 && least <= s.floor.fit().UsableBytes {
				return least, nil
			}
		}
	}
	return least, nil
}

// explainLeast says what the bytes of a brief plan are where they are not whole.
func (t teller) explainLeast(p *document.Plan) {
	some := p.FloorAtLeast || p.Today != nil && p.Today.AtLeast
	for i := range p.Pairs {
		some = some || p.Pairs[i].AtLeast
	}
	for i := range p.Options {
		some = some || p.Options[i].AtLeast
	}
	if some {
		t.s.notes.add("at-least", "Bytes that are marked so are the least that something takes which does not fit: what "+
			"is alive at its largest moment, without what the allocator reserves beyond. Plans that are not brief have "+
			"the rest.")
	}
}
