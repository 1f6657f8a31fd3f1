package planner

import (
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// proposal is a candidate that may become an option.
type proposal struct {
	asking.Judged
	title string
	// beside is the same pair without the levers, where that was judged too: what
	// the levers alone save.
	beside *asking.Judged
	// ownPair says that it makes the job fit at the pair that runs today: it is listed beside what is faster, since it
	// leaves all else as it is.
	ownPair bool
	// cost is what it costs on another card, where prices tell.
	cost *document.Cost
}

// savesNothing reports whether the levers of a proposal leave the card as full as it was.
func (p proposal) savesNothing() bool {
	return p.beside != nil && p.DeviceBytes() >= p.beside.DeviceBytes()
}

// changesTraining reports whether a proposal gives another result than the job
// asked for.
func (r *ranker) changesTraining(p proposal) bool {
	return p.With.ChangesTraining() || r.Effective(p.Candidate) != r.Batch.Target
}

// options are the ways out, in their order.
func (s *search) options(ctx context.Context, edge limit, p *document.Plan, fewest *asking.Judged) ([]proposal, error) {
	if s.floor.Fit().Verdict == estimator.Unknown {
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
	if !slices.ContainsFunc(found, func(p proposal) bool { return p.Fits() && !p.With.ChangesTraining() }) {
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
		larger, err := s.largerGPU(ctx, p.SmallestGPUs)
		if err != nil {
			return nil, err
		}
		if larger != nil {
			found = append(found, proposal{Judged: *larger, title: larger.With.Levers[0].Title})
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

	cheaper, err := s.cheaperGPU(ctx, p.GPUs) // last, so that a price takes no question from what is asked without one
	if err != nil {
		return nil, err
	}
	if cheaper != nil {
		found = append([]proposal{*cheaper}, found...)
	}

	kept, dropped := s.rank.pareto(unique(found))
	teller{s}.explainDropped(dropped)
	slices.SortStableFunc(kept, s.rank.before)
	return kept, nil
}

// work are the pairs to choose from: the exact ones, or else those of the nearest effective batches.
func (s *search) work() []asking.Judged {
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
func (s *search) pairOptions(work []asking.Judged, best *asking.Judged) []proposal {
	var out []proposal
	if s.rank.today != nil && s.Batch.Exact() && s.rank.today.Fits() {
		out = append(out, proposal{Judged: *s.rank.today, title: keepTitle})
	}
	if best == nil {
		// Nothing fits: the tight pair if there is one, or else what the smallest would do.
		if len(work) == 0 {
			return out
		}
		least := work[len(work)-1]
		for _, j := range work {
			if j.Fit().Verdict == estimator.Tight {
				least = j
				break
			}
		}
		if s.isToday(least) && least.Fit().Verdict != estimator.Tight {
			return out // no way out: it is what does not fit
		}
		return append(out, proposal{Judged: least, title: s.pairTitle(least)})
	}
	out = append(out, proposal{Judged: *best, title: s.pairTitle(*best)})
	if pair := s.rank.recommended(s.exact); pair != nil {
		out = append(out, proposal{Judged: *pair, title: s.pairTitle(*pair)})
	}
	last, smaller := best.Micro, 0
	for _, j := range work {
		if smaller < smallerPairs && j.Fits() && j.Micro <= last/2 && j.Time.Expected <= reasonable*best.Time.Expected {
			title := "Reduce the micro-batch further"
			if s.isToday(j) { // where no pair is exact, today's may be among the near ones
				title = keepTitle
			}
			out = append(out, proposal{Judged: j, title: title})
			last, smaller = j.Micro, smaller+1
		}
	}
	if safe := s.rank.safest(work); safe != nil {
		out = append(out, proposal{Judged: *safe, title: s.pairTitle(*safe)})
	}
	return out
}

// isToday reports whether a candidate has the pair that runs today.
func (s *search) isToday(j asking.Judged) bool {
	return s.rank.today != nil && j.Choice() == s.rank.today.Choice()
}

func (s *search) pairTitle(j asking.Judged) string {
	switch {
	case s.isToday(j):
		return keepTitle
	case s.Effective(j.Candidate) != s.Batch.Target:
		return "Nearest effective batch that the GPUs can share"
	case s.rank.today == nil:
		return "Split the effective batch"
	case j.Micro < s.rank.today.Micro:
		return "Reduce the micro-batch only"
	case j.Micro > s.rank.today.Micro:
		return "Raise the micro-batch"
	}
	return "Change the accumulation only"
}

// startingPoint is the pair at which a lever is judged by itself: today's, or the
// best, or the smallest.
func (s *search) startingPoint(best *asking.Judged) asking.Judged {
	switch {
	case s.rank.today != nil && s.Batch.Exact():
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
func (s *search) neutralOptions(ctx context.Context, work []asking.Judged, best *asking.Judged) ([]proposal, error) {
	start := s.startingPoint(best)
	var out []proposal
	levers := asking.First(s.Asker, lever.Neutral(s.Costs.Base, s.Tool), "settings that leave training alone")
	alone, err := s.pullEach(ctx, levers, start)
	if err != nil {
		return nil, err
	}
	var own []proposal // what makes the job fit at its own pair
	for i, j := range alone {
		if j.Result == nil || idle(j, start) {
			continue
		}
		p := proposal{Judged: j, title: levers[i].Title, beside: &start}
		out = append(out, p)
		if p.ownPair = s.isToday(j) && !start.Fits() && j.Fits() && levers[i].Code == "checkpointing-full"; p.ownPair {
			own = append(own, p)
		}
		if levers[i].Code == "checkpointing-selective" {
			s.explainMore(j, start, "selective checkpointing", "none")
		}
	}
	if !s.Affords(pairQuestions*len(out), "other pairs for such settings") {
		return append(own, sayFutileOnce(out)...), nil
	}
	err = asking.Parallel(ctx, len(out), func(ctx context.Context, i int) error {
		p := &out[i]
		pair, err := s.largestPair(ctx, p.With, s.worthwhile(p.With, work, best, start, p.Judged))
		if err == nil && pair != nil && (!p.Fits() || s.rank.better(*pair, p.Judged) < 0) {
			*p = proposal{Judged: *pair, title: p.title + ", with another pair"}
		}
		return err
	})
	return append(own, sayFutileOnce(out)...), err
}

// pairQuestions is about how many questions it takes to find the largest pair with a lever.
const pairQuestions = 2

// pullEach judges each of some levers by itself.
func (s *search) pullEach(ctx context.Context, levers []lever.Lever, start asking.Judged) ([]asking.Judged, error) {
	out := make([]asking.Judged, len(levers))
	err := asking.Parallel(ctx, len(levers), func(ctx context.Context, i int) (err error) {
		out[i], err = s.JudgeShown(ctx, lever.NewVariant(levers[i]), start.Choice())
		return err
	})
	return out, err
}

// worthwhile are the pairs with which a lever may be worth a word besides at the starting point: larger ones than it
// fits with there, or smaller ones where it does not. They are larger than the best pair without the lever, or that
// pair where the lever makes it faster.
func (s *search) worthwhile(v lever.Variant, work []asking.Judged, best *asking.Judged, start,
	alone asking.Judged) []pairing.Choice {
	var out []pairing.Choice
	for _, j := range work {
		if alone.Fits() != (j.Micro > start.Micro) || j.Micro == start.Micro {
			continue
		}
		if best != nil && j.Micro <= best.Micro {
			with := j
			with.With = v
			if j.Micro < best.Micro || s.RelativeTime(with).Expected >= best.Time.Expected-lever.SettingEffort {
				continue
			}
		}
		out = append(out, j.Choice())
	}
	return out
}

// sayFutileOnce keeps, of several levers of a kind that save nothing, one to say so.
func sayFutileOnce(ps []proposal) []proposal {
	futile := map[string]bool{}
	return slices.DeleteFunc(ps, func(p proposal) bool {
		group := p.With.Levers[0].Group
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
func idle(with, without asking.Judged) bool {
	a, b := with.Result.Peak, without.Result.Peak
	a.MicroStep, b.MicroStep = nil, nil                                           // two pointers are never the same
	a.LowBytes, b.LowBytes, a.MinimumLimitBytes, b.MinimumLimitBytes = 0, 0, 0, 0 // which only whole answers have
	return a == b && slices.Equal(with.Result.Phases, without.Result.Phases)
}

// changingOptions pulls each lever that changes the result, where the job does not
// fit today: of each kind the least that fits, and the least of all for comparison.
func (s *search) changingOptions(ctx context.Context, work []asking.Judged, best *asking.Judged) ([]proposal, error) {
	start := s.startingPoint(best)
	var levers []lever.Lever
	for _, l := range lever.Changing(s.Costs.Base, s.Shape, s.Tool) {
		// A job that fits needs none of them, but a faster precision is worth a word.
		if !start.Fits() || l.Group == "precision" {
			levers = append(levers, l)
		}
	}
	levers = asking.First(s.Asker, levers, "settings that change training")
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
		if k.done || alone[i].Result == nil || idle(alone[i], start) {
			continue
		}
		// Optimizers stand by themselves; sizes and adapters go on until one fits.
		if k.done = alone[i].Fits() && l.Group != "optimizer"; k.done || !k.listed || l.Group == "optimizer" {
			out = append(out, proposal{Judged: alone[i], title: l.Title, beside: &start})
			k.listed = true
		}
		kinds[l.Group] = k
	}
	return sayFutileOnce(out), nil
}

// batchOptions change the effective batch: a smaller micro-batch with today's
// accumulation, and the nearest batch where no exact pair is good.
func (s *search) batchOptions(ctx context.Context, best *asking.Judged, edge limit) ([]proposal, error) {
	var out []proposal
	add := func(title string, c pairing.Choice) error {
		if s.rank.today != nil && c == s.rank.today.Choice() {
			title = keepTitle
		}
		j, err := s.Judge(ctx, lever.Variant{}, c)
		if err == nil && j.Result != nil && s.Batch.Effective(c.MicroBatch, c.GradientAccumulation) != s.Batch.Target {
			out = append(out, proposal{Judged: j, title: title})
		}
		return err
	}
	if t := s.rank.today; t != nil && !t.Fits() {
		micro := edge.micro()
		if best != nil {
			micro = best.Micro
		}
		if micro > 0 && micro < t.Micro {
			if err := add("Smaller effective batch, same accumulation", pairing.At(micro, t.Accum)); err != nil {
				return nil, err
			}
			// With less than a quarter of the batch it would be another training.
			if t.Accum > 1 && 4*s.Batch.Effective(micro, 1) >= s.Batch.Target {
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
