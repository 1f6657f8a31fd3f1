package estimator

import "github.com/vramplan/vramplan/estimator/memory"

// undecided says whether the verdict on a card of the run may depend on the smallest limit, which is somewhere between
// those of the two bases.
func (r *player) undecided(out *run, least, most memory.Base) bool {
	for _, c := range out.cards {
		// The lower bound is concave in the limit: it is least at one of the ends.
		f, g := r.bounded(least, c.group), r.bounded(most, c.group)
		if min(f.Low, g.Low) <= c.usable && c.usable < f.Device {
			return true
		}
	}
	return false
}

// decided says whether the verdicts are the same whatever the smallest limit is from least to most; base is that of a
// limit.
func (r *player) decided(out *run, least, most int64, base func(limit int64) memory.Base) bool {
	for _, c := range out.cards {
		high := r.bounded(base(most), c.group)
		if c.usable >= high.Device {
			continue
		}
		// The lower bound is concave in the limit: nowhere between two limits is it below both, and where it rises to
		// the second it is nowhere above.
		never := high.Low > c.usable && r.bounded(base(least), c.group).Low > c.usable
		perhaps := high.Low <= c.usable && high.Low >= r.bounded(base(most-1<<20), c.group).Low
		if !never && !perhaps {
			return false
		}
	}
	return true
}
