package planner

import (
	"cmp"
	"slices"

	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

// promisingTried is how many levers a brief plan asks about once it knows what each saves by itself.
const promisingTried = 3

// savings is what levers save by themselves in each phase of a step, by their codes.
type savings map[string]map[string]int64

// savingsOf are those of candidates with one lever more than a candidate.
func savingsOf(without asking.Judged, with []asking.Judged) savings {
	all := savings{}
	for _, j := range with {
		if j.Result == nil || without.Result == nil {
			continue
		}
		held := phases(without)
		for phase, bytes := range phases(j) {
			held[phase] -= bytes
		}
		all[j.With.Levers[len(j.With.Levers)-1].Code] = held
	}
	return all
}

// promising are the levers with which a candidate promises to have the lowest peak: savings in a phase mostly add up,
// and the peak lies in the phase that is left with most. A lever that was refused by itself is left out.
func (all savings) promising(now asking.Judged, levers []lever.Lever) []lever.Lever {
	peak := func(l lever.Lever) (most int64) {
		for phase, bytes := range phases(now) {
			most = max(most, bytes-all[l.Code][phase])
		}
		return most
	}
	out := slices.DeleteFunc(slices.Clone(levers), func(l lever.Lever) bool {
		return all[l.Code] == nil || now.With.Pulled(l)
	})
	slices.SortStableFunc(out, func(a, b lever.Lever) int { return cmp.Compare(peak(a), peak(b)) })
	return out[:min(promisingTried, len(out))]
}

// any are all levers.
func (savings) any(_ asking.Judged, levers []lever.Lever) []lever.Lever { return levers }

// phases are the most that is allocated in each phase of a candidate's step, by name.
func phases(j asking.Judged) map[string]int64 {
	all := map[string]int64{}
	if j.Result != nil {
		for _, p := range j.Result.Phases {
			all[p.Name] = p.AllocatedBytes
		}
	}
	return all
}
