package planner

import (
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

// beaten is a proposal and one that beats it.
type beaten struct{ loser, winner proposal }

// unique keeps the first of the proposals for one candidate.
func unique(ps []proposal) []proposal {
	seen := map[asking.CostKey]bool{}
	var out []proposal
	for _, p := range ps {
		if k := p.Key(); !seen[k] {
			seen[k] = true
			out = append(out, p)
		}
	}
	return out
}

// pareto drops what is beaten in memory, time and effort by something that does the
// same to training: among proposals that leave it alone, and among those that pull
// levers of the same kinds. Different effects on training have no order that holds
// for everybody, so a shorter sequence never drops a smaller batch.
func (r *ranker) pareto(ps []proposal) (kept []proposal, dropped []beaten) {
	for i, p := range ps {
		winner := -1
		for k, q := range ps {
			if i != k && r.comparable(p, q) && r.beats(q, p) {
				winner = k
				break
			}
		}
		if winner < 0 || p.ownPair || r.isRecommended(p) { // it stands above the table, so it stands in it
			kept = append(kept, p)
			continue
		}
		// A lever that saves nothing stays in the table to say so.
		if !p.Fits() && p.savesNothing() && !r.changesTraining(p) {
			kept = append(kept, p)
			continue
		}
		dropped = append(dropped, beaten{p, ps[winner]})
	}
	return kept, dropped
}

// comparable reports whether two proposals affect training in the same way.
func (r *ranker) comparable(p, q proposal) bool {
	if r.changesTraining(p) != r.changesTraining(q) {
		return false
	}
	if !r.changesTraining(p) {
		return true
	}
	if r.Effective(p.Candidate) != r.Batch.Target || r.Effective(q.Candidate) != r.Batch.Target {
		return false
	}
	return slices.Equal(p.With.ChangingGroups(), q.With.ChangingGroups())
}

// beats reports whether q is at least as good as p in every respect and better in one.
func (r *ranker) beats(q, p proposal) bool {
	changes := r.changesTraining(p)
	if q.With.OtherCards() || p.With.OtherCards() || !q.Fits() && !changes {
		return false // what does not fit is no way out, but may be less of a change than another that is none
	}
	var noWorse, better bool
	compare := func(q, p float64) {
		noWorse, better = noWorse && q <= p, better || q < p
	}
	noWorse = true
	compare(float64(q.DeviceBytes()), float64(p.DeviceBytes()))
	compare(q.Time.Expected, p.Time.Expected)
	compare(r.effort(q), r.effort(p))
	if changes {
		compare(r.disturbance(q.Judged), r.disturbance(p.Judged))
	}
	return noWorse && better
}

// effort is what it takes to get from today to a candidate.
func (r *ranker) effort(p proposal) float64 {
	e := p.With.Effort()
	if r.today == nil || p.Choice() != r.today.Choice() {
		e += lever.SettingEffort
	}
	return e
}

// tier puts proposals in groups: those that leave training alone first, and in
// each those that fit, may fit, are not enough, save nothing.
func (r *ranker) tier(p proposal) int {
	t := 0
	switch {
	case p.Fits():
	case p.Fit().Verdict == estimator.Tight:
		t = 1
	case p.savesNothing():
		t = 3
	default:
		t = 2
	}
	if r.changesTraining(p) {
		t += 4
	}
	return t
}
