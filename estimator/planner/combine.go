package planner

import (
	"cmp"
	"context"
	"math"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// combinationsSkipped is what a plan says where there is no work left for all combinations.
const combinationsSkipped = "combinations of settings"

// combinations looks for the cheapest set of levers with which a job fits that
// fits in no pair and with no single lever: without a change to training if there
// is one, and with one otherwise.
func (s *search) combinations(ctx context.Context, work []judged) ([]proposal, error) {
	at := s.floor.choice()
	if len(work) > 0 {
		at = work[len(work)-1].choice()
	}
	if s.costs.brief {
		if bytes, err := s.leastWeights(ctx, at); err != nil || bytes > s.floor.fit().UsableBytes {
			s.notes.add("nothing-fits",
				"No combination of settings makes the job fit: its weights alone take at least "+
					"%s of %s.", estimator.Bytes(bytes), estimator.Bytes(s.floor.fit().UsableBytes))
			return nil, err
		}
	}
	found, err := s.combine(ctx, at)
	if err != nil {
		return nil, err
	}
	if !found.fits() && s.bounded(combinationsSkipped) {
		return nil, nil
	}
	if !found.fits() {
		s.notes.add("nothing-fits", "No combination of the settings that were tried makes the job fit; the "+
			"smallest takes %s of %s.",
			leastOf(found), estimator.Bytes(found.fit().UsableBytes))
		if len(found.with.Levers) == 0 {
			return nil, nil
		}
		return []proposal{{judged: found, title: title(found.with) + " (all that helps)"}}, nil
	}
	var pairs []pairing.Choice
	for _, j := range work {
		pairs = append(pairs, j.choice())
	}
	larger, err := s.largestPair(ctx, found.with, pairs)
	if err != nil {
		return nil, err
	}
	if larger != nil {
		found = *larger
	}
	return []proposal{{judged: found, title: title(found.with)}}, nil
}

// combine pulls levers at a pair until the job fits, those that change training last, and drops those that it does not
// take. A brief plan searches among the least that each set takes, first with the levers that promise most, and plays
// what it finds; where that does not fit it searches as others do.
func (s *search) combine(ctx context.Context, at pairing.Choice) (judged, error) {
	if s.costs.brief && s.costs.base.Calibration == nil {
		promised, err := s.pullAll(ctx, at, s.judgeLeast, savings.promising)
		if err != nil {
			return judged{}, err
		}
		found, err := s.judge(ctx, promised.with, at)
		if err != nil || found.fits() {
			return found, err
		}
	}
	if !s.costs.brief {
		return s.pullAll(ctx, at, s.judge, savings.any)
	}
	whole := *s
	whole.costs = newCosts(s.costs.estimate, s.costs.base, false)
	whole.costs.spent = s.costs.work()
	found, err := whole.pullAll(ctx, at, whole.judge, savings.any)
	s.budget = whole.budget
	return found, err
}

// judging is [search.judge], or what stands in its place.
type judging func(context.Context, lever.Variant, pairing.Choice) (judged, error)

// choosing says which levers are asked about, given what each saves by itself.
type choosing func(alone savings, now judged, levers []lever.Lever) []lever.Lever

func (s *search) pullAll(ctx context.Context, at pairing.Choice, judge judging, choose choosing) (judged, error) {
	found, err := s.pull(ctx, s.floor.with, lever.Neutral(s.costs.base, s.tool), at, judge, choose)
	if err != nil {
		return judged{}, err
	}
	if !found.fits() {
		found, err = s.pull(ctx, found.with, lever.Changing(s.costs.base, s.shape, s.tool), at, judge, choose)
	}
	if err != nil || !found.fits() {
		return found, err
	}
	return s.prune(ctx, found, judge)
}

// pull adds levers one at a time, each time the one that leaves least on the card,
// until the job fits or nothing helps.
func (s *search) pull(ctx context.Context, v lever.Variant, levers []lever.Lever, at pairing.Choice, judge judging,
	choose choosing) (judged, error) {
	now, err := judge(ctx, v, at)
	if err != nil {
		return judged{}, err
	}
	var alone savings
	for round := 1; !now.fits() && s.affords(len(levers), combinationsSkipped); round++ {
		tries := levers
		if round > 1 {
			tries = choose(alone, now, levers)
		}
		var with []lever.Variant
		for _, l := range tries {
			if !now.with.Pulled(l) {
				with = append(with, now.with.With(l))
			}
		}
		tried, err := s.judgeBest(ctx, with, at, judge)
		if err != nil {
			return judged{}, err
		}
		if round == 1 {
			alone = savingsOf(now, tried)
		}
		next := now
		for _, j := range tried {
			if j.result == nil {
				continue
			}
			// Of several that make the job fit, the one that costs least; before
			// that, the one that saves most.
			if next.fits() {
				if j.fits() && s.cheaper(j, next) {
					next = j
				}
			} else if j.fits() || now.result == nil || j.highBytes() < next.highBytes() {
				next = j
			}
		}
		if next.with.Key == now.with.Key {
			return now, nil
		}
		now = next
	}
	return now, nil
}

// cheaper reports whether a moves the result of training less than b, or as little and costs less.
func (s *search) cheaper(a, b judged) bool {
	by := &s.rank
	return cmp.Or(cmp.Compare(by.disturbance(a), by.disturbance(b)), cmp.Compare(by.score(a), by.score(b))) < 0
}

// prune drops every lever without which the job still fits, dearest first.
func (s *search) prune(ctx context.Context, j judged, judge judging) (judged, error) {
	for s.affords(len(j.with.Levers), combinationsSkipped) {
		var kept *judged
		for i := range j.with.Levers {
			rest := append(append([]lever.Lever(nil), j.with.Levers[:i]...), j.with.Levers[i+1:]...)
			x, err := s.judgeHopeful(ctx, lever.NewVariant(rest...), j.choice(), judge)
			if err != nil {
				return judged{}, err
			}
			if x != nil && x.fits() && (kept == nil || s.cheaper(*x, *kept)) {
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
func (s *search) nearest(best *judged, edge limit) (pairing.Choice, bool) {
	if edge.best == nil {
		return pairing.Choice{}, false
	}
	largest := edge.micro()
	if best != nil && (best.micro >= largest ||
		best.time.Expected <= s.relativeTime(*edge.best).Expected*(1+nearWorth)) {
		return pairing.Choice{}, false
	}
	perGPU := max(1, (s.batch.Target+s.batch.GPUs/2)/s.batch.GPUs)
	var found pairing.Choice
	distance := math.Inf(1)
	// Nearly the largest is nearly as fast, so half of it is far enough to look.
	const looked = 256
	for micro := largest; micro > max(largest/2, largest-looked); micro-- {
		accum := max(1, (perGPU+micro/2)/micro)
		if d := math.Abs(s.batch.Deviation(s.batch.Effective(micro, accum))); d < distance {
			found, distance = pairing.At(micro, accum), d
		}
	}
	return found, distance > 0 && distance <= nearTolerance*100
}

// explainDropped names the options that another one beats in every respect.
func (t teller) explainDropped(ps []beaten) {
	const named = 4
	for _, b := range ps[:min(named, len(ps))] {
		t.s.notes.add("dominated", "Left out: %s at %d × %d (%s, %.2f times the time); %s at %d × %d takes no more "+
			"memory and no more time.",
			document.LowerFirst(b.loser.title), b.loser.micro, b.loser.accum, leastOf(b.loser.judged),
			b.loser.time.Expected,
			document.LowerFirst(b.winner.title), b.winner.micro, b.winner.accum)
	}
}
