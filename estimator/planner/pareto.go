package planner

import "github.com/vramplan/vramplan/estimator"

// beaten is a proposal and one that beats it.
type beaten struct{ loser, winner proposal }

// unique keeps the first of the proposals for one candidate.
func unique(ps []proposal) []proposal {
	seen := map[costKey]bool{}
	var out []proposal
	for _, p := range ps {
		if k := (costKey{p.with.key, p.micro, p.accum}); !seen[k] {
			seen[k] = true
			out = append(out, p)
		}
	}
	return out
}

// pareto drops what is beaten in memory, time and effort by something that leaves
// training alone, among proposals that do so too. What changes training is kept:
// people ask about it, and the table's answer is its place.
func (s *search) pareto(ps []proposal) (kept []proposal, dropped []beaten) {
	for i, p := range ps {
		winner := -1
		for k, q := range ps {
			if i != k && !s.changesTraining(p) && !s.changesTraining(q) && s.beats(q, p) {
				winner = k
				break
			}
		}
		if winner < 0 {
			kept = append(kept, p)
			continue
		}
		// A lever that saves nothing stays in the table to say so.
		if !p.fits() && p.savesNothing() {
			kept = append(kept, p)
			continue
		}
		dropped = append(dropped, beaten{p, ps[winner]})
	}
	return kept, dropped
}

// beats reports whether q is at least as good as p in every respect and better in one.
func (s *search) beats(q, p proposal) bool {
	if !q.fits() || q.with.holds("gpu") || p.with.holds("gpu") {
		return false
	}
	eq, ep := s.effort(q), s.effort(p)
	noWorse := q.deviceBytes() <= p.deviceBytes() && q.time.Expected <= p.time.Expected && eq <= ep
	better := q.deviceBytes() < p.deviceBytes() || q.time.Expected < p.time.Expected || eq < ep
	return noWorse && better
}

// effort is what it takes to get from today to a candidate.
func (s *search) effort(p proposal) float64 {
	e := p.with.effort()
	if s.today == nil || p.choice() != s.today.choice() {
		e += settingEffort
	}
	return e
}

// tier puts proposals in groups: those that leave training alone first, and in
// each those that fit, may fit, are not enough, save nothing.
func (s *search) tier(p proposal) int {
	t := 0
	switch {
	case p.fits():
	case p.fit().Verdict == estimator.Tight:
		t = 1
	case p.savesNothing():
		t = 3
	default:
		t = 2
	}
	if s.changesTraining(p) {
		t += 4
	}
	return t
}
