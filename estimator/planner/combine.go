package planner

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// combinationsSkipped is what a plan says where there is no work left for all combinations.
const combinationsSkipped = "combinations of settings"

// combinations looks for the cheapest set of levers with which a job fits that
// fits in no pair and with no single lever: without a change to training if there
// is one, and with one otherwise.
func (s *search) combinations(ctx context.Context, work []asking.Judged) ([]proposal, error) {
	at := s.floor.Choice()
	if len(work) > 0 {
		at = work[len(work)-1].Choice()
	}
	if s.Costs.Brief {
		if bytes, err := s.leastWeights(ctx, at); err != nil || bytes > s.floor.Fit().UsableBytes {
			s.Notes.Add("nothing-fits",
				"No combination of settings makes the job fit: its weights alone take at least "+
					"%s of %s.", estimator.Bytes(bytes), estimator.Bytes(s.floor.Fit().UsableBytes))
			return nil, err
		}
	}
	found, err := s.combine(ctx, at)
	if err != nil {
		return nil, err
	}
	if !found.Fits() && s.Bounded(combinationsSkipped) {
		return nil, nil
	}
	if !found.Fits() {
		s.Notes.Add("nothing-fits", "No combination of the settings that were tried makes the job fit; the "+
			"smallest takes %s of %s.",
			asking.Sized(found), estimator.Bytes(found.Fit().UsableBytes))
		if len(found.With.Levers) == 0 {
			return nil, nil
		}
		return []proposal{{Judged: found, title: title(found.With) + " (all that helps)"}}, nil
	}
	var pairs []pairing.Choice
	for _, j := range work {
		pairs = append(pairs, j.Choice())
	}
	larger, err := s.largestPair(ctx, found.With, pairs)
	if err != nil {
		return nil, err
	}
	if larger != nil {
		found = *larger
	}
	return []proposal{{Judged: found, title: title(found.With)}}, nil
}

// combine pulls levers at a pair until the job fits, those that change training last, and drops those that it does not
// take. A brief plan searches among the least that each set takes, first with the levers that promise most, and plays
// what it finds; where that does not fit it searches as others do.
func (s *search) combine(ctx context.Context, at pairing.Choice) (asking.Judged, error) {
	if s.Costs.Brief && s.Costs.Base.Calibration == nil {
		promised, err := s.pullAll(ctx, at, s.JudgeLeast, savings.promising)
		if err != nil {
			return asking.Judged{}, err
		}
		found, err := s.Judge(ctx, promised.With, at)
		if err != nil || found.Fits() {
			return found, err
		}
	}
	if !s.Costs.Brief {
		return s.pullAll(ctx, at, s.Judge, savings.any)
	}
	whole := *s
	whole.Costs = asking.NewCosts(s.Costs.Estimate, s.Costs.Base, false)
	whole.Costs.Spent = s.Costs.Work()
	found, err := whole.pullAll(ctx, at, whole.Judge, savings.any)
	s.Budget = whole.Budget
	return found, err
}

// choosing says which levers are asked about, given what each saves by itself.
type choosing func(alone savings, now asking.Judged, levers []lever.Lever) []lever.Lever

func (s *search) pullAll(ctx context.Context, at pairing.Choice, judge asking.Judging,
	choose choosing) (asking.Judged, error) {
	found, err := s.pull(ctx, s.floor.With, lever.Neutral(s.Costs.Base, s.Tool), at, judge, choose)
	if err != nil {
		return asking.Judged{}, err
	}
	if !found.Fits() {
		found, err = s.pull(ctx, found.With, lever.Changing(s.Costs.Base, s.Shape, s.Tool), at, judge, choose)
	}
	if err != nil || !found.Fits() {
		return found, err
	}
	return s.prune(ctx, found, judge)
}

// pull adds levers one at a time, each time the one that leaves least on the card,
// until the job fits or nothing helps.
func (s *search) pull(ctx context.Context, v lever.Variant, levers []lever.Lever, at pairing.Choice,
	judge asking.Judging,
	choose choosing) (asking.Judged, error) {
	now, err := judge(ctx, v, at)
	if err != nil {
		return asking.Judged{}, err
	}
	var alone savings
	for round := 1; !now.Fits() && s.Affords(len(levers), combinationsSkipped); round++ {
		tries := levers
		if round > 1 {
			tries = choose(alone, now, levers)
		}
		var with []lever.Variant
		for _, l := range tries {
			if !now.With.Pulled(l) {
				with = append(with, now.With.With(l))
			}
		}
		tried, err := s.JudgeBest(ctx, with, at, judge)
		if err != nil {
			return asking.Judged{}, err
		}
		if round == 1 {
			alone = savingsOf(now, tried)
		}
		next := now
		for _, j := range tried {
			if j.Result == nil {
				continue
			}
			// Of several that make the job fit, the one that costs least; before
			// that, the one that saves most.
			if next.Fits() {
				if j.Fits() && s.cheaper(j, next) {
					next = j
				}
			} else if j.Fits() || now.Result == nil || j.HighBytes() < next.HighBytes() {
				next = j
			}
		}
		if next.With.Key == now.With.Key {
			return now, nil
		}
		now = next
	}
	return now, nil
}

// cheaper reports whether a moves the result of training less than b, or as little and costs less.
func (s *search) cheaper(a, b asking.Judged) bool {
	by := &s.rank
	return cmp.Or(cmp.Compare(by.disturbance(a), by.disturbance(b)), cmp.Compare(by.score(a), by.score(b))) < 0
}

// prune drops every lever without which the job still fits, dearest first.
func (s *search) prune(ctx context.Context, j asking.Judged, judge asking.Judging) (asking.Judged, error) {
	for s.Affords(len(j.With.Levers), combinationsSkipped) {
		var kept *asking.Judged
		for i := range j.With.Levers {
			rest := append(append([]lever.Lever(nil), j.With.Levers[:i]...), j.With.Levers[i+1:]...)
			x, err := s.JudgeHopeful(ctx, lever.NewVariant(rest...), j.Choice(), judge)
			if err != nil {
				return asking.Judged{}, err
			}
			if x != nil && x.Fits() && (kept == nil || s.cheaper(*x, *kept)) {
				kept = x
			}
		}
		if kept == nil {
			return j, nil
		}
		j = *kept
	}
	return j, nil
}

// title joins the titles of a variant's levers.
func title(v lever.Variant) string {
	ts := make([]string, len(v.Levers))
	for i, l := range v.Levers {
		if ts[i] = l.Title; i > 0 {
			ts[i] = strings.ToLower(l.Title[:1]) + l.Title[1:]
		}
	}
	return strings.Join(ts, "; ")
}

// nearTolerance is how far the nearest batch may be from the one asked for.
const nearTolerance = 0.05

// nearWorth is how much slower than the near batch the best exact pair must be
// for the near one to be worth a word.
const nearWorth = 0.05

// nearest looks for an effective batch close to the target that a large
// micro-batch divides, where no exact pair is nearly as fast: a prime number of
// sequences has only the pairs 1 × n and n × 1.
func (s *search) nearest(best *asking.Judged, edge limit) (pairing.Choice, bool) {
	if edge.best == nil {
		return pairing.Choice{}, false
	}
	largest := edge.micro()
	if best != nil && (best.Micro >= largest ||
		best.Time.Expected <= s.RelativeTime(*edge.best).Expected*(1+nearWorth)) {
		return pairing.Choice{}, false
	}
	perGPU := max(1, (s.Batch.Target+s.Batch.GPUs/2)/s.Batch.GPUs)
	var found pairing.Choice
	distance := math.Inf(1)
	// Nearly the largest is nearly as fast, so half of it is far enough to look.
	const looked = 256
	for micro := largest; micro > max(largest/2, largest-looked); micro-- {
		accum := max(1, (perGPU+micro/2)/micro)
		if d := math.Abs(s.Batch.Deviation(s.Batch.Effective(micro, accum))); d < distance {
			found, distance = pairing.At(micro, accum), d
		}
	}
	return found, distance > 0 && distance <= nearTolerance*100
}

// explainDropped names the options that another one beats in every respect.
func (t teller) explainDropped(ps []beaten) {
	const named = 4
	for _, b := range ps[:min(named, len(ps))] {
		t.s.Notes.Add("dominated", "Left out: %s at %d × %d (%s, %.2f times the time); %s at %d × %d takes no more "+
			"memory and no more time.",
			document.LowerFirst(b.loser.title), b.loser.Micro, b.loser.Accum, asking.Sized(b.loser.Judged),
			b.loser.Time.Expected,
			document.LowerFirst(b.winner.title), b.winner.Micro, b.winner.Accum)
	}
}
