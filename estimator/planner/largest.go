package planner

import (
	"context"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// limit is the edge of what fits: the largest micro-batch that does and the next,
// which does not.
type limit struct {
	best, next *asking.Judged
}

// micro is 0 where not even one sequence fits.
func (l limit) micro() int64 {
	if l.best == nil {
		return 0
	}
	return l.best.Micro
}

// lookBeyond is how many micro-batches past the edge are asked about: where frees
// fall differently the allocator reserves a little less for a little more, so the
// first that fails need not be the last that fits.
const lookBeyond = 2

// maxBumps bounds how often the search goes on past an edge.
const maxBumps = 4

// largest finds the largest micro-batch that fits, whether or not it divides the
// effective batch. Bytes grow with the micro-batch almost in a straight line, so
// it interpolates, and halves the interval where that does not help.
func (s *search) largest(ctx context.Context, v lever.Variant) (limit, error) {
	at := func(micro int64) (asking.Judged, error) {
		return s.Judge(ctx, v, pairing.At(micro, s.Batch.AccumulationFor(micro)))
	}
	first, err := at(1)
	if err != nil {
		return limit{}, err
	}
	if !first.Fits() {
		further, err := beyond(at, first, &first)
		if further == nil || err != nil {
			return limit{next: &first}, err
		}
		first = *further
	}
	lo, hi := s.bracket(v, first)
	for range maxBumps {
		if lo, hi, err = narrow(at, first, lo, hi); err != nil {
			return limit{}, err
		}
		further, err := beyond(at, lo, hi)
		if err != nil {
			return limit{}, err
		}
		if further == nil {
			return limit{best: &lo, next: hi}, nil
		}
		lo, hi = *further, nil
	}
	lo, hi, err = narrow(at, first, lo, hi)
	return limit{best: &lo, next: hi}, err
}

// bracket starts from what the survey knows of the job as it stands.
func (s *search) bracket(v lever.Variant, first asking.Judged) (lo asking.Judged, hi *asking.Judged) {
	lo = first
	if len(v.Levers) > 0 {
		return lo, nil
	}
	known := slices.Clone(s.exact)
	if s.rank.today != nil {
		known = append(known, *s.rank.today)
	}
	for _, j := range known {
		if j.Fits() && j.Micro > lo.Micro && j.Accum == s.Batch.AccumulationFor(j.Micro) {
			lo = j
		}
	}
	for i := range known {
		j := &known[i]
		if !j.Fits() && j.Micro > lo.Micro && (hi == nil || j.Micro < hi.Micro) {
			hi = j
		}
	}
	return lo, hi
}

// narrow moves lo, which fits, and hi, which does not, until nothing is between
// them. hi is nil while nothing is known to fail, and stays nil where the largest
// micro-batch that a job may have fits.
func narrow(at func(int64) (asking.Judged, error), first, lo asking.Judged, hi *asking.Judged) (asking.Judged,
	*asking.Judged, error) {
	for round := 1; ; round++ {
		if hi != nil && hi.Micro-lo.Micro <= 1 || hi == nil && lo.Micro >= pairing.MaxMicroBatch {
			return lo, hi, nil
		}
		guess := guessEdge(first, lo, hi)
		if round%3 == 0 {
			guess = min(2*lo.Micro, pairing.MaxMicroBatch)
			if hi != nil {
				guess = lo.Micro + (hi.Micro-lo.Micro)/2
			}
		}
		j, err := at(guess)
		if err != nil {
			return lo, hi, err
		}
		if j.Fits() {
			lo = j
		} else {
			hi = &j
		}
	}
}

// guessEdge draws a line through what is known and reads off where it crosses the
// capacity of the card. Of what fails it takes the bytes that are alive at the peak, which a brief plan knows too:
// what fits need not be an interval, and both have to take the same way.
func guessEdge(first, lo asking.Judged, hi *asking.Judged) int64 {
	room := float64(lo.Fit().UsableBytes - lo.HighBytes())
	var slope float64
	switch {
	case hi != nil && hi.Result != nil:
		slope = float64(hi.Result.AliveBytes-lo.Result.AliveBytes) / float64(hi.Micro-lo.Micro)
	case lo.Micro > first.Micro:
		slope = float64(lo.HighBytes()-first.HighBytes()) / float64(lo.Micro-first.Micro)
	}
	top := int64(pairing.MaxMicroBatch)
	if hi != nil {
		top = hi.Micro - 1
	}
	guess := 2 * lo.Micro
	if slope > 0 {
		guess = lo.Micro + int64(math.Min(room/slope, pairing.MaxMicroBatch))
	}
	return min(max(guess, lo.Micro+1), top)
}

// beyond looks past hi, the first micro-batch that fails; lo is a smaller one.
func beyond(at func(int64) (asking.Judged, error), lo asking.Judged, hi *asking.Judged) (*asking.Judged, error) {
	if hi == nil || hi.Result == nil {
		return nil, nil
	}
	for micro := hi.Micro + 1; micro <= min(hi.Micro+lookBeyond, pairing.MaxMicroBatch) && !hopeless(lo, *hi,
		micro); micro++ {
		j, err := at(micro)
		if err != nil {
			return nil, err
		}
		if j.Fits() {
			return &j, nil
		}
	}
	return nil, nil
}

// hopeless reports whether what is alive at the peak alone is too much at a micro-batch beyond hi. Every moment of
// a step holds bytes in a straight line of the micro-batch, and the peak is the largest of them, so it lies on or
// above the line through two smaller ones.
func hopeless(lo, hi asking.Judged, micro int64) bool {
	if lo.Result == nil || hi.Result == nil || hi.Micro <= lo.Micro {
		return false
	}
	b := hi.Result.Peak
	alive := hi.Result.AliveBytes + (hi.Result.AliveBytes-lo.Result.AliveBytes)/(hi.Micro-lo.Micro)*(micro-hi.Micro)
	return alive+b.DeviceBytes-b.ReservedBytes > hi.Fit().UsableBytes
}

// largestPair finds the largest pair of ps, which fall in micro-batch, that fits
// with some levers pulled; nil when none does. It goes up from the smallest in
// growing strides, because a lever rarely makes room for much more.
func (s *search) largestPair(ctx context.Context, v lever.Variant, ps []pairing.Choice) (*asking.Judged, error) {
	var best *asking.Judged
	stride, striding := 1, true
	for lo, hi := 0, len(ps); lo < hi; {
		at := lo + (hi-lo)/2
		if striding {
			at = max(lo, hi-stride)
			stride *= 2
		}
		j, err := s.JudgeHopeful(ctx, v, ps[at], s.Judge)
		if err != nil {
			return nil, err
		}
		if j != nil && j.Fits() {
			best, hi = j, at
		} else {
			lo, striding = at+1, false
		}
	}
	return best, nil
}
