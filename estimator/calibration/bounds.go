package calibration

import (
	"math"
	"slices"
)

// confidences are those that bounds are kept for, in thousandths.
var confidences = []int{500, 600, 700, 800, 900, 950, 980, 990, 995, 999}

// leastTimes is how narrow bounds may become, as a share of the estimator's own. Published contexts of one release
// differ by that much with the kernels that a job happens to load, however equal the runs of a site were.
const leastTimes = 0.25

// farTimes is how many standard deviations away, estimated from the median of the distances, a run lies apart from the
// others. Every run that is set aside without being another kind of run costs coverage: of skewed distributions 6 costs
// more than one in a hundred (TestBoundsCoverWhatTheyPromise), 8 a few in a thousand. Beyond that, runs of other jobs
// make the bounds wide. leastFar is the least distance, in the estimator's own widths at 95 %: what lies within half of
// them is never apart.
const (
	farTimes = 8
	leastFar = 0.5
)

// deviation is how far a measured run lies outside of what a group says of it, and residual how far from the figure,
// both in the estimator's own widths, above 0 where it takes more. The lower bound does not start from the figure but
// from the least that the allocator gets through with, so a run between the two lies outside of nothing.
func deviation(r *Row, g *Group) (deviation, residual float64) {
	f := r.Base.Bounded(g.Correction(r.Base.Reserved, 0.5), 0.5)
	figure, start, is := f.Device, f.Limit+f.Context, r.Device
	switch {
	case r.AtLeast > 0:
		is = r.AtLeast
	case r.Device == 0:
		figure, start, is = f.Reserved, f.Limit, r.Reserved
	}
	switch {
	case is > figure:
		over := float64(is-figure) / r.Base.Above
		return over, over
	case is < start:
		return float64(is-start) / r.Base.Below, float64(is-figure) / r.Base.Below
	}
	return 0, float64(is-figure) / r.Base.Below
}

// typical is what the residuals of most runs lie around, and how far from it they may lie.
type typical struct{ at, far float64 }

func typicalOf(residuals []float64) typical {
	at := median(residuals)
	return typical{at, max(farTimes*spread(residuals, at), leastFar)}
}

// outlier says whether a run lies apart from the others. One that lies outside of nothing never does.
func (t typical) outlier(deviation, residual float64) bool {
	return deviation != 0 && math.Abs(residual-t.at) > t.far
}

// outliers counts the rows that lie far from the others under the group's own corrections.
func (g *Group) outliers(rows []measured) int {
	var placed []float64
	for _, r := range rows {
		if r.placed {
			_, residual := deviation(r.Row, g)
			placed = append(placed, residual)
		}
	}
	t, far := typicalOf(placed), 0
	for _, r := range rows {
		if t.outlier(deviation(r.Row, g)) {
			far++
		}
	}
	return far
}

// bound finds the bounds of a group, once all corrections are known: each row is held against what would be said of it.
func (f *fitter) bound(m members) {
	if !m.pooled() {
		return
	}
	var placed []float64
	var others []*Row
	for _, r := range m.rows {
		switch _, residual := deviation(r.Row, find(f.groups, r.Key)); {
		case r.Device == 0:
		case r.placed:
			placed = append(placed, residual)
		default:
			others = append(others, r.Row)
		}
	}
	own := f.groups[m.key]
	inherit := func() {
		if p := f.parent(m); own != nil && p != nil {
			own.Bounds, own.BoundedBy = p.Bounds, p.BoundedBy
		}
	}
	if len(placed) < leastPlaced || len(others) < leastBounded {
		if own != nil {
			f.skip(m, "corrected, with the bounds of a larger group: %d of its jobs measure the process and are left "+
				"to bound it, and %d are needed", len(others), leastBounded)
		}
		inherit()
		return
	}
	// What lies apart is decided by the rows that the bounds are not made of, so that leaving it out does not make them
	// too narrow for the rest.
	t := typicalOf(placed)
	var deviations []float64
	for _, r := range others {
		d, residual := deviation(r, find(f.groups, r.Key))
		if !t.outlier(d, residual) {
			deviations = append(deviations, d)
		}
	}
	if apart := len(others) - len(deviations); len(deviations) < leastBounded ||
		float64(apart) > mostOutliers*float64(len(others)) {
		f.skip(m, "%d of the %d jobs that would bound it lie far from the others", apart, len(others))
		inherit()
		return
	}
	if own == nil {
		own = &Group{Key: m.key, Jobs: len(m.rows)}
		if p := f.parent(m); p != nil {
			own.take(p)
		} else {
			own.cover(rowsOf(m.rows))
		}
		f.groups[m.key] = own
	}
	own.Outliers = len(others) - len(deviations)
	own.BoundedBy = len(deviations)
	own.Bounds = table(deviations, f.failures(m, own, t))
}

func rowsOf(list []measured) []*Row {
	rows := make([]*Row, len(list))
	for i, r := range list {
		rows[i] = r.Row
	}
	return rows
}

// failures are how far over their figures the group's jobs were known to go that ran out of memory. One that lies
// far from the others says no more than the farthest that does not: other processes may have filled the card.
func (f *fitter) failures(m members, own *Group, t typical) []float64 {
	var list []float64
	own.OutOfMemory = 0
	for _, r := range f.failed {
		if k, ok := r.at(m.level); ok && k == m.key {
			own.OutOfMemory++
			over, _ := deviation(r, find(f.groups, r.Key))
			list = append(list, min(over, t.at+t.far))
		}
	}
	return list
}

// table makes bounds of the deviations of measured runs (split-conformal prediction; V. Vovk, A. Gammerman and G.
// Shafer, Algorithmic Learning in a Random World, 2005, chapter 4). The next run of the group deviates no more than the
// k-th smallest of n with a probability of at least k/(n+1), whatever the distribution.
//
// A run out of memory needs more than is known of it, so it takes part only above, and only where that is more than the
// others ask for: so it can never make a bound narrower.
func table(deviations, failed []float64) []Bound {
	sizes := make([]float64, len(deviations))
	for i, d := range deviations {
		sizes[i] = math.Abs(d)
	}
	slices.Sort(sizes)
	var bounds []Bound
	last := Bound{}
	for _, c := range confidences {
		k := rank(len(sizes), c)
		if k > len(sizes) {
			break
		}
		b := Bound{Confidence: float64(c) / 1000, Below: times(sizes[k-1]), Above: times(sizes[k-1])}
		with := slices.Clone(sizes)
		for _, d := range failed {
			if d > sizes[k-1] {
				with = append(with, d)
			}
		}
		slices.Sort(with)
		b.Above = max(b.Above, times(with[min(rank(len(with), c), len(with))-1]), last.Above)
		bounds = append(bounds, b)
		last = b
	}
	return bounds
}

// rank is the place of the quantile in a sorted list of n, from 1: more than n where n are too few.
func rank(n, confidence int) int { return ((n+1)*confidence + 999) / 1000 }

// times rounds a bound up to four digits and keeps it within its limits.
func times(size float64) float64 {
	return min(max(math.Ceil(size*1e4)/1e4, leastTimes), mostTimes)
}
