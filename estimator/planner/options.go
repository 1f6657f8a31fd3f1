package planner

import (
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// proposal is a candidate that may become an option.
type proposal struct {
	judged
	title string
	// beside is the same pair without the levers, where that was judged too: what
	// the levers alone save.
	beside *judged
	// ownPair says that it makes the job fit at the pair that runs today: it is listed beside what is faster, since it
	// leaves all else as it is.
	ownPair bool
}

// savesNothing reports whether the levers of a proposal leave the card as full as it was.
func (p proposal) savesNothing() bool {
	return p.beside != nil && p.deviceBytes() >= p.beside.deviceBytes()
}

// changesTraining reports whether a proposal gives another result than the job
// asked for.
func (r *ranker) changesTraining(p proposal) bool {
	return p.with.ChangesTraining() || r.effective(p.candidate) != r.batch.Target
}

// options are the ways out, in their order.
func (s *search) options(ctx context.Context, edge limit, catalog []estimator.GPU, smallest []string,
	fewest *judged) ([]proposal, error) {
	if s.floor.fit().Verdict == estimator.Unknown {
		return nil, nil // nothing can be called a way out of an unknown card
	}
	work := s.work()
	best := s.rank.fastest(work, 1)

	found := s.pairOptions(work, best)
	neutral, err := s.neutralOptions(ctx, work, best)
	if err != nil {
		return nil, err
	}
	found = append(found, neutral...)
	if !slices.ContainsFunc(found, func(p proposal) bool { return p.fits() && !p.with.ChangesTraining() }) {
		more, err := s.combinations(ctx, work)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
		small, err := s.adapterOptions(ctx, work, best)
		if err != nil {
			return nil, err
		}
		found = append(found, small...)
		larger, err := s.largerGPU(ctx, catalog, smallest)
		if err != nil {
			return nil, err
		}
		if larger != nil {
			found = append(found, proposal{judged: *larger, title: larger.with.Levers[0].Title})
		}
	}
	cards, err := s.moreGPUs(ctx, best, fewest)
	if err != nil {
		return nil, err
	}
	found = append(found, cards...)
	batches, err := s.batchOptions(ctx, best, edge)
	if err != nil {
		return nil, err
	}
	changing, err := s.changingOptions(ctx, work, best)
	if err != nil {
		return nil, err
	}
	found = append(append(found, batches...), changing...)

	kept, dropped := s.rank.pareto(unique(found))
	teller{s}.explainDropped(dropped)
	slices.SortStableFunc(kept, s.rank.before)
	return kept, nil
}

// work are the pairs to choose from: the exact ones, or else those of the nearest effective batches.
func (s *search) work() []judged {
	if len(s.exact) == 0 {
		return s.near
	}
	return s.exact
}

// smallerPairs is how many pairs below the best one are listed, each at most half
// the one before.
const smallerPairs = 2

// keepTitle is the title of the job as it runs today.
const keepTitle = "Keep the job as it is"

// pairOptions are changes of the pair alone: the best, and smaller ones that
// leave more of the card free.
func (s *search) pairOptions(work []judged, best *judged) []proposal {
	var out []proposal
	if s.rank.today != nil && s.batch.Exact() && s.rank.today.fits() {
		out = append(out, proposal{judged: *s.rank.today, title: keepTitle})
	}
	if best == nil {
		// Nothing fits: the tight pair if there is one, or else what the smallest would do.
		if len(work) == 0 {
			return out
		}
		least := work[len(work)-1]
		for _, j := range work {
			if j.fit().Verdict == estimator.Tight {
				least = j
				break
			}
		}
		if s.isToday(least) && least.fit().Verdict != estimator.Tight {
			return out // no way out: it is what does not fit
		}
		return append(out, proposal{judged: least, title: s.pairTitle(least)})
	}
	out = append(out, proposal{judged: *best, title: s.pairTitle(*best)})
	if pair := s.rank.recommended(s.exact); pair != nil {
		out = append(out, proposal{judged: *pair, title: s.pairTitle(*pair)})
	}
	last, smaller := best.micro, 0
	for _, j := range work {
		if smaller < smallerPairs && j.fits() && j.micro <= last/2 && j.time.Expected <= reasonable*best.time.Expected {
			title := "Reduce the micro-batch further"
			if s.isToday(j) { // where no pair is exact, today's may be among the near ones
				title = keepTitle
			}
			out = append(out, proposal{judged: j, title: title})
			last, smaller = j.micro, smaller+1
		}
	}
	if safe := s.rank.safest(work); safe != nil {
		out = append(out, proposal{judged: *safe, title: s.pairTitle(*safe)})
	}
	return out
}

// isToday reports whether a candidate has the pair that runs today.
func (s *search) isToday(j judged) bool {
	return s.rank.today != nil && j.choice() == s.rank.today.choice()
}

func (s *search) pairTitle(j judged) string {
	switch {
	case s.isToday(j):
		return keepTitle
	case s.effective(j.candidate) != s.batch.Target:
		return "Nearest effective batch that the GPUs can share"
	case s.rank.today == nil:
		return "Split the effective batch"
	case j.micro < s.rank.today.micro:
		return "Reduce the micro-batch only"
	case j.micro > s.rank.today.micro:
		return "Raise the micro-batch"
	}
	return "Change the accumulation only"
}

// startingPoint is the pair at which a lever is judged by itself: today's, or the
// best, or the smallest.
func (s *search) startingPoint(best *judged) judged {
	switch {
	case s.rank.today != nil && s.batch.Exact():
		return *s.rank.today
	case best != nil:
		return *best
	case len(s.exact) > 0:
		return s.exact[len(s.exact)-1]
	case len(s.near) > 0:
		return s.near[len(s.near)-1]
	}
	return s.floor
}

// neutralOptions pulls each lever that leaves training alone: by itself, and
// with the pair that it makes possible.
func (s *search) neutralOptions(ctx context.Context, work []judged, best *judged) ([]proposal, error) {
	start := s.startingPoint(best)
	var out []proposal
	levers := first(s.asker, lever.Neutral(s.costs.base, s.tool), "settings that leave training alone")
	alone, err := s.pullEach(ctx, levers, start)
	if err != nil {
		return nil, err
	}
	var own []proposal // what makes the job fit at its own pair
	for i, j := range alone {
		if j.result == nil || idle(j, start) {
			continue
		}
		p := proposal{judged: j, title: levers[i].Title, beside: &start}
		out = append(out, p)
		if p.ownPair = s.isToday(j) && !start.fits() && j.fits() && levers[i].Code == "checkpointing-full"; p.ownPair {
			own = append(own, p)
		}
		if levers[i].Code == "checkpointing-selective" {
			s.explainMore(j, start, "selective checkpointing", "none")
		}
	}
	if !s.affords(pairQuestions*len(out), "other pairs for such settings") {
		return append(own, sayFutileOnce(out)...), nil
	}
	err = parallel(ctx, len(out), func(ctx context.Context, i int) error {
		p := &out[i]
		pair, err := s.largestPair(ctx, p.with, s.worthwhile(p.with, work, best, start, p.judged))
		if err == nil && pair != nil && (!p.fits() || s.rank.better(*pair, p.judged) < 0) {
			*p = proposal{judged: *pair, title: p.title + ", with another pair"}
		}
		return err
	})
	return append(own, sayFutileOnce(out)...), err
}

// pairQuestions is about how many questions it takes to find the largest pair with a lever.
const pairQuestions = 2

// pullEach judges each of some levers by itself.
func (s *search) pullEach(ctx context.Context, levers []lever.Lever, start judged) ([]judged, error) {
	out := make([]judged, len(levers))
	err := parallel(ctx, len(levers), func(ctx context.Context, i int) (err error) {
		out[i], err = s.judgeShown(ctx, lever.NewVariant(levers[i]), start.choice())
		return err
	})
	return out, err
}

// worthwhile are the pairs with which a lever may be worth a word besides at the starting point: larger ones than it
// fits with there, or smaller ones where it does not. They are larger than the best pair without the lever, or that
// pair where the lever makes it faster.
func (s *search) worthwhile(v lever.Variant, work []judged, best *judged, start, alone judged) []pairing.Choice {
	var out []pairing.Choice
	for _, j := range work {
		if alone.fits() != (j.micro > start.micro) || j.micro == start.micro {
			continue
		}
		if best != nil && j.micro <= best.micro {
			with := j
			with.with = v
			if j.micro < best.micro || s.relativeTime(with).Expected >= best.time.Expected-lever.SettingEffort {
				continue
			}
		}
		out = append(out, j.choice())
	}
	return out
}

// sayFutileOnce keeps, of several levers of a kind that save nothing, one to say so.
func sayFutileOnce(ps []proposal) []proposal {
	futile := map[string]bool{}
	return slices.DeleteFunc(ps, func(p proposal) bool {
		group := p.with.Levers[0].Group
		if !p.savesNothing() {
			return false
		}
		again := futile[group]
		futile[group] = true
		return again
	})
}

// idle reports whether a lever does nothing at all to a job: the same bytes in
// every phase. The tool does so already, or the model has no such part.
func idle(with, without judged) bool {
	a, b := with.result.Peak, without.result.Peak
	a.MicroStep, b.MicroStep = nil, nil                                           // two pointers are never the same
	a.LowBytes, b.LowBytes, a.MinimumLimitBytes, b.MinimumLimitBytes = 0, 0, 0, 0 // which only whole answers have
	return a == b && slices.Equal(with.result.Phases, without.result.Phases)
}

// changingOptions pulls each lever that changes the result, where the job does not
// fit today: of each kind the least that fits, and the least of all for comparison.
func (s *search) changingOptions(ctx context.Context, work []judged, best *judged) ([]proposal, error) {
	start := s.startingPoint(best)
	var levers []lever.Lever
	for _, l := range lever.Changing(s.costs.base, s.shape, s.tool) {
		// A job that fits needs none of them, but a faster precision is worth a word.
		if !start.fits() || l.Group == "precision" {
			levers = append(levers, l)
		}
	}
	levers = first(s.asker, levers, "settings that change training")
	alone, err := s.pullEach(ctx, levers, start)
	if err != nil {
		return nil, err
	}
	s.explainPacking(levers, alone, start)
	var out []proposal
	type state struct{ listed, done bool }
	kinds := map[string]state{}
	for i, l := range levers {
		k := kinds[l.Group]
		if k.done || alone[i].result == nil || idle(alone[i], start) {
			continue
		}
		// Optimizers stand by themselves; sizes and adapters go on until one fits.
		if k.done = alone[i].fits() && l.Group != "optimizer"; k.done || !k.listed || l.Group == "optimizer" {
			out = append(out, proposal{judged: alone[i], title: l.Title, beside: &start})
			k.listed = true
		}
		kinds[l.Group] = k
	}
	return sayFutileOnce(out), nil
}

// batchOptions change the effective batch: a smaller micro-batch with today's
// accumulation, and the nearest batch where no exact pair is good.
func (s *search) batchOptions(ctx context.Context, best *judged, edge limit) ([]proposal, error) {
	var out []proposal
	add := func(title string, c pairing.Choice) error {
		if s.rank.today != nil && c == s.rank.today.choice() {
			title = keepTitle
		}
		j, err := s.judge(ctx, lever.Variant{}, c)
		if err == nil && j.result != nil && s.batch.Effective(c.MicroBatch, c.GradientAccumulation) != s.batch.Target {
			out = append(out, proposal{judged: j, title: title})
		}
		return err
	}
	if t := s.rank.today; t != nil && !t.fits() {
		micro := edge.micro()
		if best != nil {
			micro = best.micro
		}
		if micro > 0 && micro < t.micro {
			if err := add("Smaller effective batch, same accumulation", pairing.At(micro, t.accum)); err != nil {
				return nil, err
			}
			// With less than a quarter of the batch it would be another training.
			if t.accum > 1 && 4*s.batch.Effective(micro, 1) >= s.batch.Target {
				if err := add("Drop accumulation", pairing.At(micro, 1)); err != nil {
					return nil, err
				}
			}
		}
	}
	if c, ok := s.nearest(best, edge); ok {
		if err := add("Nearest effective batch with a larger micro-batch", c); err != nil {
			return nil, err
		}
	}
	return out, nil
}
