package calibration

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
)

// How many different jobs a group needs. One job in three says what is to be added to the constants, the others how far
// runs lie from that: bounds are only honest about runs that were not fitted to.
const (
	// leastPlaced bounds the influence of a single job on a median: of eight, three may lie anywhere.
	leastPlaced = 8
	// leastBounded is the least that a bound of 95 % can be read off: the largest of n deviations covers the next one
	// with a probability of n/(n+1).
	leastBounded = 19
	placedOf     = 3
)

// mostOutliers is the share of a group's jobs that may lie far from the others. With more, there are two kinds of runs
// in the group, and no constant describes them.
const mostOutliers = 0.25

// Skipped is a group that has runs and is not fitted, or not in full.
type Skipped struct {
	Key
	// Jobs counts its different measured jobs.
	Jobs int `json:"jobs" example:"11"`
	// Reason says what it would need.
	Reason string `json:"reason" example:"4 of its jobs say what is to be corrected, and 8 are needed; one job in 3 is used for that"`
}

// Fit makes groups from measured runs. The order of the rows does not matter. Rows that cannot be measurements are left
// out.
func Fit(rows []Row) ([]Group, []Skipped) {
	f := fitter{groups: map[Key]*Group{}}
	for _, r := range oneAJob(rows) {
		if r.AtLeast > 0 {
			f.failed = append(f.failed, r)
		} else {
			f.rows = append(f.rows, measured{r, len(f.rows)%placedOf == 0})
		}
	}
	for level := levels - 1; level >= 0; level-- {
		f.each(level, f.correct)
	}
	for level := levels - 1; level >= 0; level-- {
		f.each(level, f.bound)
	}
	groups := make([]Group, 0, len(f.groups))
	for _, g := range f.groups {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.level(), b.level()), compareKeys(a.Key, b.Key))
	})
	return groups, f.skipped
}

// measured is a row with what it is used for.
type measured struct {
	*Row
	// placed rows make the corrections, the others the bounds.
	placed bool
}

type fitter struct {
	rows    []measured
	failed  []*Row
	groups  map[Key]*Group
	skipped []Skipped
}

// members are the rows of one group.
type members struct {
	key   Key
	level int
	rows  []measured
}

// each does something with every group of a level that has rows.
func (f *fitter) each(level int, do func(members)) {
	by := map[Key][]measured{}
	for _, r := range f.rows {
		if k, ok := r.at(level); ok {
			by[k] = append(by[k], r)
		}
	}
	keys := make([]Key, 0, len(by))
	for k := range by {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	for _, k := range keys {
		do(members{k, level, by[k]})
	}
}

func (f *fitter) skip(m members, format string, args ...any) {
	f.skipped = append(f.skipped, Skipped{m.key, len(m.rows), fmt.Sprintf(format, args...)})
}

// parent is the next coarser group of a group's jobs; nil where there is none.
func (f *fitter) parent(m members) *Group {
	for level := m.level + 1; level < levels; level++ {
		if k, ok := m.rows[0].Key.at(level); ok {
			if g := f.groups[k]; g != nil {
				return g
			}
		}
	}
	return nil
}

// mostAlike is the share of a group's jobs that may have the same card, architecture, release or family where the group
// does not tell those apart. Beyond it the group says little of the others, which it would stand for, too: of 70
// published runs 61 are of one architecture, and what they have over the replay is not to be expected of another.
const mostAlike = 2.0 / 3

// pooled says whether a group's jobs are of enough kinds for what it does not tell apart.
func (m members) pooled() bool {
	for _, of := range []struct {
		apart bool
		kind  func(Key) any
	}{
		{m.key.GPU != "", func(k Key) any { return k.GPU }},
		{m.key.GPU != "" || m.key.ComputeCapability != 0, func(k Key) any { return k.ComputeCapability }},
		{m.key.Torch != "", func(k Key) any { return k.Torch }},
		{m.key.Family != "", func(k Key) any { return k.Family }},
	} {
		alike := map[any]int{}
		for _, r := range m.rows {
			kind := of.kind(r.Key)
			alike[kind]++
			if !of.apart && float64(alike[kind]) > mostAlike*float64(len(m.rows)) {
				return false
			}
		}
	}
	return true
}

// correct finds what is to be added for a group.
func (f *fitter) correct(m members) {
	if !m.pooled() {
		return
	}
	g := Group{Key: m.key, Jobs: len(m.rows)}
	if p := f.parent(m); p != nil {
		g.take(p)
	}
	var reserved, device []*Row
	for _, r := range m.rows {
		if r.placed && r.Reserved > 0 {
			reserved = append(reserved, r.Row)
		}
		if r.placed && r.Device > 0 {
			device = append(device, r.Row)
		}
	}
	switch {
	case len(reserved) >= leastPlaced:
		g.placeReserved(reserved)
		if len(device) >= leastPlaced {
			g.placeContext(device)
		}
	case len(device) >= leastPlaced:
		g.placeDevice(device)
	default:
		f.skip(m, "%d of its jobs say what is to be corrected, and %d are needed; one job in %d is used for that",
			max(len(reserved), len(device)), leastPlaced, placedOf)
		return
	}
	if far := g.outliers(m.rows); float64(far) > mostOutliers*float64(len(m.rows)) {
		f.skip(m, "%d of %d jobs lie far from the others: there are several kinds of runs in it", far, len(m.rows))
		return
	}
	if err := g.check(); err != nil {
		f.skip(m, "%v", err)
		return
	}
	f.groups[g.Key] = &g
}

// take gives a group the corrections of another.
func (g *Group) take(p *Group) {
	g.ContextBytes, g.WorkspaceBytes, g.AllocatorShare = p.ContextBytes, p.WorkspaceBytes, p.AllocatorShare
	g.ReservedFromBytes, g.ReservedToBytes = p.ReservedFromBytes, p.ReservedToBytes
}

// cover notes the range that rows were measured in.
func (g *Group) cover(rows []*Row) {
	g.ReservedFromBytes, g.ReservedToBytes = rows[0].Base.Reserved, rows[0].Base.Reserved
	for _, r := range rows {
		g.ReservedFromBytes, g.ReservedToBytes = min(g.ReservedFromBytes, r.Base.Reserved),
			max(g.ReservedToBytes, r.Base.Reserved)
	}
}

// placeReserved reads the workspace and the allocator's share off reserved bytes.
func (g *Group) placeReserved(rows []*Row) {
	g.cover(rows)
	constant, share := lineOf(rows, func(r *Row) int64 { return r.Reserved - r.Base.Reserved })
	g.WorkspaceBytes, g.AllocatorShare = constant, share
}

// placeContext reads the context off device bytes: off what they have over the measured reserved bytes, where those are
// known for enough runs, else over the corrected ones.
func (g *Group) placeContext(rows []*Row) {
	var exact, rest []float64
	for _, r := range rows {
		if r.Reserved > 0 {
			exact = append(exact, float64(r.Device-r.Reserved-r.Base.Context))
		}
		rest = append(rest, float64(r.Device-r.Base.Bounded(memory.Correction{Reserved: g.reserves(r)},
			0.5).Reserved-r.Base.Context))
	}
	if len(exact) >= leastPlaced {
		rest = exact
	}
	g.ContextBytes = int64(math.Round(median(rest)))
}

// placeDevice reads everything off device bytes. A constant within the allocator and one outside of it cannot be told
// apart then; it counts as the context.
func (g *Group) placeDevice(rows []*Row) {
	g.cover(rows)
	constant, share := lineOf(rows, func(r *Row) int64 { return r.Device - r.Base.Reserved - r.Base.Context })
	g.ContextBytes, g.WorkspaceBytes, g.AllocatorShare = constant, 0, share
}

// reserves is what the group adds to a row's reserved bytes.
func (g *Group) reserves(r *Row) int64 { return g.WorkspaceBytes + g.share(r.Base.Reserved) }

func lineOf(rows []*Row, more func(*Row) int64) (constant int64, share float64) {
	points := make([]point, len(rows))
	for i, r := range rows {
		points[i] = point{float64(r.Base.Reserved), float64(more(r))}
	}
	c, s := line(points)
	s = math.Round(s*1e6) / 1e6
	if s == 0 {
		s = 0 // not the negative one
	}
	return int64(math.Round(c)), s
}
