package planner

import (
	"context"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// limit is the edge of what fits: the largest micro-batch that does and the next,
// which does not.
type limit struct {
	best, next *judged
}

// micro is 0 where not even one sequence fits.
func (l limit) micro() int64 {
	if l.best == nil {
		return 0
	}
	return l.best.micro
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
	at := func(micro int64) (judged, error) {
		return s.judge(ctx, v, pairing.At(micro, s.batch.AccumulationFor(micro)))
	}
	first, err := at(1)
	if err != nil {
		return limit{}, err
	}
	if !first.fits() {
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
func (s *search) bracket(v lever.Variant, first judged) (lo judged, hi *judged) {
	lo = first
	if len(v.Levers) > 0 {
		return lo, nil
	}
	known := slices.Clone(s.exact)
	if s.rank.today != nil {
		known = append(known, *s.rank.today)
	}
	for _, j := range known {
		if j.fits() && j.micro > lo.micro && j.accum == s.batch.AccumulationFor(j.micro) {
			lo = j
		}
	}
	for i := range known {
		j := &known[i]
		if !j.fits() && j.micro > lo.micro && (hi == nil || j.micro < hi.micro) {
			hi = j
		}
	}
	return lo, hi
}

// narrow moves lo, which fits, and hi, which does not, until nothing is between
// them. hi is nil while nothing is known to fail, and stays nil where the largest
// micro-batch that a job may have fits.
func narrow(at func(int64) (judged, error), first, lo judged, hi *judged) (judged, *judged, error) {
	for round := 1; ; round++ {
		if hi != nil && hi.micro-lo.micro <= 1 || hi == nil && lo.micro >= pairing.MaxMicroBatch {
			return lo, hi, nil
		}
		guess := guessEdge(first, lo, hi)
		if round%3 == 0 {
			guess = min(2*lo.micro, pairing.MaxMicroBatch)
			if hi != nil {
				guess = lo.micro + (hi.micro-lo.micro)/2
			}
		}
		j, err := at(guess)
		if err != nil {
			return lo, hi, err
		}
		if j.fits() {
			lo = j
		} else {
			hi = &j
		}
	}
}

// guessEdge draws a line through what is known and reads off where it crosses the
// capacity of the card. Of what fails it takes the bytes that are alive at the peak, which a brief plan knows too:
// what fits need not be an interval, and both have to take the same way.
func guessEdge(first, lo judged, hi *judged) int64 {
	room := float64(lo.fit().UsableBytes - lo.highBytes())
	var slope float64
	switch {
	case hi != nil && hi.result != nil:
		slope = float64(hi.result.AliveBytes-lo.result.AliveBytes) / float64(hi.micro-lo.micro)
	case lo.micro > first.micro:
		slope = float64(lo.highBytes()-first.highBytes()) / float64(lo.micro-first.micro)
	}
	top := int64(pairing.MaxMicroBatch)
	if hi != nil {
		top = hi.micro - 1
	}
	guess := 2 * lo.micro
	if slope > 0 {
		guess = lo.micro + int64(math.Min(room/slope, pairing.MaxMicroBatch))
	}
	return min(max(guess, lo.micro+1), top)
}

// beyond looks past hi, the first micro-batch that fails; lo is a smaller one.
func beyond(at func(int64) (judged, error), lo judged, hi *judged) (*judged, error) {
	if hi == nil || hi.result == nil {
		return nil, nil
	}
	for micro := hi.micro + 1; micro <= min(hi.micro+lookBeyond, pairing.MaxMicroBatch) && !hopeless(lo, *hi,
		micro); micro++ {
		j, err := at(micro)
		if err != nil {
			return nil, err
		}
		if j.fits() {
			return &j, nil
		}
	}
	return nil, nil
}

// hopeless reports whether what is alive at the peak alone is too much at a micro-batch beyond hi. Every moment of
// a step holds bytes in a straight line of the micro-batch, and the peak is the largest of them, so it lies on or
// above the line through two smaller ones.
func hopeless(lo, hi judged, micro int64) bool {
	if lo.result == nil || hi.result == nil || hi.micro <= lo.micro {
		return false
	}
	b := hi.result.Peak
	alive := hi.result.AliveBytes + (hi.result.AliveBytes-lo.result.AliveBytes)/(hi.micro-lo.micro)*(micro-hi.micro)
	return alive+b.DeviceBytes-b.ReservedBytes > hi.fit().UsableBytes
}

// largestPair finds the largest pair of ps, which fall in micro-batch, that fits
// with some levers pulled; nil when none does. It goes up from the smallest in
// growing strides, because a lever rarely makes room for much more.
func (s *search) largestPair(ctx context.Context, v lever.Variant, ps []pairing.Choice) (*judged, error) {
	var best *judged
	stride, striding := 1, true
	for lo, hi := 0, len(ps); lo < hi; {
		at := lo + (hi-lo)/2
		if striding {
			at = max(lo, hi-stride)
			stride *= 2
		}
		j, err := s.judgeHopeful(ctx, v, ps[at], s.judge)
		if err != nil {
			return nil, err
		}
		if j != nil && j.fits() {
			best, hi = j, at
		} else {
			lo, striding = at+1, false
		}
	}
	return best, nil
}
