package planner

import (
	"cmp"
	"math"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

// safeShare is the share of the card that the upper bound of an extra-safe pair
// may take. What grows unforeseen in a long run (fragmentation, an evaluation
// pass, longer sequences than planned) then has a quarter of the card.
const safeShare = 0.75

// tightPenalty is what a candidate that may fail costs in the ranking, as a share
// of the step time.
const tightPenalty = 0.02

// score orders what does the same for training: expected step time, of all GPUs together and at what they cost, and
// what it takes to get there.
func (r *ranker) score(j asking.Judged) float64 {
	x := r.gpuTime(j)*r.rate(j) + j.With.Effort()
	if r.today == nil || j.Choice() != r.today.Choice() {
		x += lever.SettingEffort
	}
	if j.Fit().Verdict == estimator.Tight {
		x += tightPenalty
	}
	return x
}

// gpuTime is the expected time of a step times the GPUs that it takes, beside the reference.
func (r *ranker) gpuTime(j asking.Judged) float64 {
	return j.Time.Expected * float64(r.GPUs(j.Candidate)) / float64(r.Batch.GPUs)
}

// better orders candidates by score, and by headroom where that ties.
func (r *ranker) better(a, b asking.Judged) int {
	return cmp.Or(
		cmp.Compare(asking.Round3(r.score(a)), asking.Round3(r.score(b))),
		cmp.Compare(b.Fit().HeadroomBytes, a.Fit().HeadroomBytes),
		cmp.Compare(a.Micro, b.Micro),
	)
}

// fastest is the best of the candidates that fit with their upper bound within a
// share of the card; nil when none does.
func (r *ranker) fastest(js []asking.Judged, share float64) *asking.Judged {
	var best *asking.Judged
	for i := range js {
		j := &js[i]
		if !j.Fits() || float64(j.HighBytes()) > share*float64(j.Fit().UsableBytes) {
			continue
		}
		if best == nil || r.better(*j, *best) < 0 {
			best = j
		}
	}
	return best
}

// recommended is the pair to run: the fastest that fits, or the one beside a display where the job says that the card
// drives one.
func (r *ranker) recommended(js []asking.Judged) *asking.Judged {
	if drives := r.Costs.Base.Job.Display; drives != nil && *drives {
		return r.besideDisplay(js)
	}
	return r.fastest(js, 1)
}

// besideDisplay is the fastest pair of those that leave room for a display, or else the one that leaves most; nil where
// no pair fits or where the card drives no display, by what the job says or by its line.
func (r *ranker) besideDisplay(js []asking.Judged) *asking.Judged {
	tightest := r.fastest(js, 1)
	room := r.Costs.Base.Job.DisplayRoom(&r.GPU)
	if tightest == nil || room == 0 {
		return nil
	}
	var roomy []asking.Judged
	pair := tightest
	for i := range js {
		j := &js[i]
		if !j.Fits() || j.Time.Expected > reasonable*tightest.Time.Expected {
			continue
		}
		if r.spare(*j) > r.spare(*pair) {
			pair = j
		}
		if r.spare(*j) >= room {
			roomy = append(roomy, *j)
		}
	}
	if best := r.fastest(roomy, 1); best != nil {
		return best
	}
	return pair
}

// spare is what a candidate leaves free at its upper bound.
func (r *ranker) spare(j asking.Judged) int64 { return j.Fit().UsableBytes - j.HighBytes() }

// isRecommended reports whether a proposal is nothing but the recommended pair.
func (r *ranker) isRecommended(p proposal) bool {
	return r.pick != nil && p.With.Key == "" && p.Choice() == *r.pick
}

// cramped reports whether a candidate that fits leaves too little for the card's display.
func (r *ranker) cramped(j asking.Judged) bool {
	room := r.Costs.Base.Job.DisplayRoom(&r.GPU)
	return room > 0 && j.Fits() && !j.With.OtherCards() && r.spare(j) < room
}

// reasonable is how much slower than the fastest a pair may be and still be
// offered as the safe one.
const reasonable = 2

// safest is the fastest pair that leaves a quarter of the card free, or else the
// one with the most headroom that is not absurdly slow; nil when none fits.
func (r *ranker) safest(js []asking.Judged) *asking.Judged {
	if j := r.fastest(js, safeShare); j != nil {
		return j
	}
	fastest := r.fastest(js, 1)
	if fastest == nil {
		return nil
	}
	best := fastest
	for i := range js {
		j := &js[i]
		if j.Fits() && j.Fit().HeadroomBytes > best.Fit().HeadroomBytes &&
			j.Time.Expected <= reasonable*fastest.Time.Expected {
			best = j
		}
	}
	return best
}

// before is the order of the options.
func (r *ranker) before(a, b proposal) int {
	if x, y := r.isRecommended(a), r.isRecommended(b); x != y {
		if x {
			return -1 // what the plan recommends stands first
		}
		return 1
	}
	if c := cmp.Compare(r.tier(a), r.tier(b)); c != 0 {
		return c
	}
	// What one card can do goes before other cards.
	if x, y := a.With.OtherCards(), b.With.OtherCards(); x != y {
		if y {
			return -1
		}
		return 1
	}
	switch {
	case r.changesTraining(a):
		return cmp.Compare(r.disturbance(a.Judged), r.disturbance(b.Judged))
	case a.Fits() || a.Fit().Verdict == estimator.Tight:
		return r.better(a.Judged, b.Judged)
	}
	return cmp.Compare(a.DeviceBytes(), b.DeviceBytes())
}

// disturbance orders changes to training by how far the result moves; 0 for none.
func (r *ranker) disturbance(j asking.Judged) float64 {
	var sum float64
	for _, l := range j.With.Levers {
		sum += l.Disturbs
	}
	if e := r.Effective(j.Candidate); e != r.Batch.Target {
		// A halving counts 1 more than nothing, a drop to one 512th nine more.
		sum += 2 + math.Abs(math.Log2(float64(e)/float64(r.Batch.Target)))
	}
	return sum
}
