package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// present writes down the pairs, those to choose, and the options.
func (show presenter) present(p *document.Plan, fewest *asking.Judged, options []proposal) {
	if t := show.s.rank.today; t != nil {
		p.Today = &document.Today{
			MicroBatch: t.Micro, GradientAccumulation: t.Accum, EffectiveBatch: show.s.Effective(t.Candidate),
			DeviceBytes: t.DeviceBytes(), LowBytes: t.LowBytes(), HighBytes: t.HighBytes(),
			HeadroomBytes: t.Fit().HeadroomBytes, Verdict: t.Fit().Verdict, AtLeast: t.AtLeast(),
		}
	}
	p.Pairs = make([]document.Pair, len(show.s.exact))
	for i, j := range show.s.exact {
		p.Pairs[i] = document.Pair{
			MicroBatch: j.Micro, GradientAccumulation: j.Accum, EffectiveBatch: show.s.Effective(j.Candidate),
			DeviceBytes: j.DeviceBytes(), LowBytes: j.LowBytes(), HighBytes: j.HighBytes(),
			HeadroomBytes: j.Fit().HeadroomBytes,
			Verdict:       j.Fit().Verdict, AtLeast: j.AtLeast(), RelativeStepTime: j.Time.Expected,
		}
	}
	if j := show.s.rank.recommended(show.s.exact); j != nil {
		c := j.Choice()
		p.Recommended = &c
		if len(p.GPUs) > 0 {
			own := &p.GPUs[0]
			own.Recommended, own.DeviceBytes, own.RelativeStepTime = &c, j.DeviceBytes(), j.Time.Expected
			own.RelativeCost = show.s.costOn(&show.s.GPU, *j)
		}
	}
	slices.SortStableFunc(p.GPUs, document.ByCost)
	if base := show.s.priced(); base != nil && len(p.GPUs) > 0 {
		p.CostsBeside = base.ID
	}
	if j := show.s.rank.besideDisplay(show.s.exact); j != nil {
		c := j.Choice()
		p.BesideDisplay = &c
	}
	if j := show.s.rank.safest(show.s.exact); j != nil {
		c := j.Choice()
		p.Safest = &c
	}
	if j := fewest; j != nil {
		p.FewestGPUs = &document.FewestGPUs{GPUs: show.s.GPUs(j.Candidate), Changes: j.Changes(show.s.Costs.Base),
			MicroBatch: j.Micro, GradientAccumulation: j.Accum,
			DeviceBytes: j.DeviceBytes(), LowBytes: j.LowBytes(), HighBytes: j.HighBytes()}
		p.FewestGPUs.Changes["micro_batch"], p.FewestGPUs.Changes["gradient_accumulation"] = j.Micro, j.Accum
	}
	p.Options = show.render(options, show.s.rank.safest(show.s.work()))
}

// render turns proposals, in their order, into the answer's options.
func (show presenter) render(ps []proposal, safest *asking.Judged) []document.Option {
	out := make([]document.Option, len(ps))
	// The recommended pair stands first; where no pair fits, the first of whatever does.
	firstThatFits := slices.IndexFunc(ps, func(p proposal) bool { return p.Fits() && !p.With.OtherCards() })
	for i, p := range ps {
		c, effective := p.Choice(), show.s.Effective(p.Candidate)
		changes := p.Changes(show.s.Costs.Base)
		var settings, used []string
		gpus := show.s.GPUs(p.Candidate)
		today, asked := show.s.rank.today, show.s.Batch
		if today == nil || c != today.Choice() || show.s.Tool == "nanogpt" && gpus != asked.GPUs {
			changes["micro_batch"], changes["gradient_accumulation"] = p.Micro, p.Accum
			settings = pairing.Settings(show.s.Tool, c, pairing.Batch{Target: asked.Target, GPUs: gpus,
				Stages: asked.Stages})
		}
		effects := []string{}
		for _, l := range p.With.Levers {
			settings = append(settings, l.Settings...)
			if l.Library != "" && !slices.Contains(used, l.Library) {
				used = append(used, l.Library)
			}
			if l.Effect != "" {
				effects = append(effects, l.Effect)
			}
		}
		if effective != show.s.Batch.Target {
			effects = append(effects, effectiveBatchEffect(p.Input(show.s.Costs.Base).Job.Training, show.s.Batch.Target,
				effective))
		}
		o := document.Option{
			Rank: i + 1, Title: p.title, Changes: maps.Clone(changes), Settings: append([]string{}, settings...),
			Library:    strings.Join(used, " and "),
			MicroBatch: p.Micro, GradientAccumulation: p.Accum, DataParallelGPUs: gpus, EffectiveBatch: effective,
			SavesBytes:  show.s.saved(p.Judged),
			DeviceBytes: p.DeviceBytes(), LowBytes: p.LowBytes(), HighBytes: p.HighBytes(), Verdict: p.Fit().Verdict,
			AtLeast: p.AtLeast(), RelativeStepTime: p.Time, RelativeGPUTime: asking.Round3(show.s.rank.gpuTime(p.Judged)), TrainingEffect: "none",
			ChangesTraining: show.s.rank.changesTraining(p), RelativeCost: p.cost,
		}
		if effective != show.s.Batch.Target {
			o.DeviationPercent = show.s.Batch.Deviation(effective)
		}
		if len(effects) > 0 {
			o.TrainingEffect = strings.Join(effects, "; ")
		}
		o.Recommendation = show.recommendation(p, i == firstThatFits, safest)
		out[i] = o
	}
	return out
}

// saved is what a candidate takes less than the reference; nil where its bytes, in a brief plan, are a bound: a
// difference from one is no figure.
func (s *search) saved(j asking.Judged) *int64 {
	if j.AtLeast() || s.reference.AtLeast() {
		return nil
	}
	by := s.reference.DeviceBytes() - j.DeviceBytes()
	return &by
}

// recommendation is the word on one option.
func (show presenter) recommendation(p proposal, first bool, safest *asking.Judged) string {
	changes := show.s.rank.changesTraining(p)
	fits := p.Fits()
	switch {
	case p.cost != nil:
		return fmt.Sprintf("another card, %.3g× the cost", p.cost.Expected)
	case p.With.Holds("gpu"):
		return "another card"
	case p.With.Holds(lever.CardsGroup):
		return fmt.Sprintf("needs %s, %.2f× the GPU time", document.Count(int(show.s.GPUs(p.Candidate)), "GPU"), show.s.rank.gpuTime(p.Judged))
	case first && fits && !changes:
		return document.BestChoice
	case !fits && p.savesNothing():
		if p.With.Holds("allocator") {
			return "saves nothing here: what is reserved depends on the order of frees"
		}
		if p.Result.Peak.AllocatedBytes < p.beside.Result.Peak.AllocatedBytes {
			return "saves nothing on the card: tensors shrink, but the allocator keeps as much"
		}
		return "saves nothing: the peak is in " + document.PeakOf(p.Result)
	case p.Fit().Verdict == estimator.Tight:
		return "may fail: little room is left"
	case !fits && changes:
		return "not enough alone, and changes " + show.changed(p)
	case !fits:
		return "not enough alone"
	case first:
		return "least change that fits; changes " + show.changed(p)
	case changes:
		return "changes " + show.changed(p)
	case show.s.rank.cramped(p.Judged):
		return "fits, and leaves a display too little: " + estimator.Bytes(show.s.rank.spare(p.Judged)).String()
	case safest != nil && p.With.Key == "" && p.Choice() == safest.Choice():
		return "safe choice"
	case p.With.Key == "" && show.s.rank.today != nil && p.Choice() == show.s.rank.today.Choice():
		return "fits as it is"
	case show.s.rank.today != nil && show.s.rank.today.Fits() && p.Time.Expected < 0.99:
		return "also fits, faster than today"
	}
	return "also fits"
}

func (show presenter) changed(p proposal) string {
	if p.With.Holds("layers") || p.With.Holds("width") {
		return "the model"
	}
	if !p.With.ChangesTraining() {
		return "the effective batch"
	}
	return "training"
}
