package planner

import (
	"context"

	"github.com/vramplan/vramplan/estimator"
)

// least is the least that a candidate takes, which nothing has to be played for: the answer if it is known, and
// otherwise one whose figures lie on or below it and whose verdict is no worse. Where nothing is known it has neither a
// result nor an error: a calibration may move figures either way.
func (c *costs) least(ctx context.Context, x candidate) (answer, error) {
	c.mu.Lock()
	a, ok := c.known[costKey{x.with.key, x.micro, x.accum}]
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

// judgeHopeful judges a candidate unless the least that it takes is too much; then the answer is nil.
func (s *search) judgeHopeful(ctx context.Context, v variant, p Choice) (*judged, error) {
	x := candidate{with: v, micro: p.MicroBatch, accum: p.GradientAccumulation}
	a, err := s.costs.least(ctx, x)
	if err != nil || a.beyondHope() {
		return nil, err
	}
	j, err := s.judge(ctx, v, p)
	return &j, err
}

// judgeBest judges as many of some variants at a pair as it takes to know which of them fit and, where none does, which
// leaves least on the card. The others stay without a result.
func (s *search) judgeBest(ctx context.Context, vs []variant, at Choice) ([]judged, error) {
	out, leasts := make([]judged, len(vs)), make([]answer, len(vs))
	err := parallel(ctx, len(vs), func(ctx context.Context, i int) (err error) {
		leasts[i], err = s.costs.least(ctx, candidate{with: vs[i], micro: at.MicroBatch,
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
			out[is[k]], err = s.judge(ctx, vs[is[k]], at)
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
