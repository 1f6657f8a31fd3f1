package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// present writes down the pairs, those to choose, and the options.
func (show presenter) present(p *document.Plan, fewest *judged, options []proposal) {
	if t := show.s.rank.today; t != nil {
		p.Today = &document.Today{
			MicroBatch: t.micro, GradientAccumulation: t.accum, EffectiveBatch: show.s.effective(t.candidate),
			DeviceBytes: t.deviceBytes(), LowBytes: t.lowBytes(), HighBytes: t.highBytes(),
			HeadroomBytes: t.fit().HeadroomBytes, Verdict: t.fit().Verdict, AtLeast: t.atLeast(),
		}
	}
	p.Pairs = make([]document.Pair, len(show.s.exact))
	for i, j := range show.s.exact {
		p.Pairs[i] = document.Pair{
			MicroBatch: j.micro, GradientAccumulation: j.accum, EffectiveBatch: show.s.effective(j.candidate),
			DeviceBytes: j.deviceBytes(), LowBytes: j.lowBytes(), HighBytes: j.highBytes(),
			HeadroomBytes: j.fit().HeadroomBytes,
			Verdict:       j.fit().Verdict, AtLeast: j.atLeast(), RelativeStepTime: j.time.Expected,
		}
	}
	if j := show.s.rank.recommended(show.s.exact); j != nil {
		c := j.choice()
		p.Recommended = &c
		if len(p.GPUs) > 0 {
			own := &p.GPUs[0]
			own.Recommended, own.DeviceBytes, own.RelativeStepTime = &c, j.deviceBytes(), j.time.Expected
		}
	}
	if j := show.s.rank.besideDisplay(show.s.exact); j != nil {
		c := j.choice()
		p.BesideDisplay = &c
	}
	if j := show.s.rank.safest(show.s.exact); j != nil {
		c := j.choice()
		p.Safest = &c
	}
	if j := fewest; j != nil {
		p.FewestGPUs = &document.FewestGPUs{GPUs: show.s.gpus(j.candidate), Changes: j.changes(show.s.costs.base),
			MicroBatch: j.micro, GradientAccumulation: j.accum,
			DeviceBytes: j.deviceBytes(), LowBytes: j.lowBytes(), HighBytes: j.highBytes()}
		p.FewestGPUs.Changes["micro_batch"], p.FewestGPUs.Changes["gradient_accumulation"] = j.micro, j.accum
	}
	p.Options = show.render(options, show.s.rank.safest(show.s.work()))
}

// render turns proposals, in their order, into the answer's options.
func (show presenter) render(ps []proposal, safest *judged) []document.Option {
	out := make([]document.Option, len(ps))
	// The recommended pair stands first; where no pair fits, the first of whatever does.
	firstThatFits := slices.IndexFunc(ps, func(p proposal) bool { return p.fits() && !p.with.OtherCards() })
	for i, p := range ps {
		c, effective := p.choice(), show.s.effective(p.candidate)
		changes := p.changes(show.s.costs.base)
		var settings, used []string
		gpus := show.s.gpus(p.candidate)
		today, asked := show.s.rank.today, show.s.batch
		if today == nil || c != today.choice() || show.s.tool == "nanogpt" && gpus != asked.GPUs {
			changes["micro_batch"], changes["gradient_accumulation"] = p.micro, p.accum
			settings = pairing.Settings(show.s.tool, c, pairing.Batch{Target: asked.Target, GPUs: gpus,
				Stages: asked.Stages})
		}
		effects := []string{}
		for _, l := range p.with.Levers {
			settings = append(settings, l.Settings...)
			if l.Library != "" && !slices.Contains(used, l.Library) {
				used = append(used, l.Library)
			}
			if l.Effect != "" {
				effects = append(effects, l.Effect)
			}
		}
		if effective != show.s.batch.Target {
			effects = append(effects, effectiveBatchEffect(p.input(show.s.costs.base).Job.Training, show.s.batch.Target,
				effective))
		}
		o := document.Option{
			Rank: i + 1, Title: p.title, Changes: maps.Clone(changes), Settings: append([]string{}, settings...),
			Library:    strings.Join(used, " and "),
			MicroBatch: p.micro, GradientAccumulation: p.accum, DataParallelGPUs: gpus, EffectiveBatch: effective,
			SavesBytes:  show.s.saved(p.judged),
			DeviceBytes: p.deviceBytes(), LowBytes: p.lowBytes(), HighBytes: p.highBytes(), Verdict: p.fit().Verdict,
			AtLeast: p.atLeast(), RelativeStepTime: p.time, RelativeGPUTime: round3(show.s.rank.gpuTime(p.judged)), TrainingEffect: "none",
			ChangesTraining: show.s.rank.changesTraining(p),
		}
		if effective != show.s.batch.Target {
			o.DeviationPercent = show.s.batch.Deviation(effective)
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
func (s *search) saved(j judged) *int64 {
	if j.atLeast() || s.reference.atLeast() {
		return nil
	}
	by := s.reference.deviceBytes() - j.deviceBytes()
	return &by
}

// recommendation is the word on one option.
func (show presenter) recommendation(p proposal, first bool, safest *judged) string {
	changes := show.s.rank.changesTraining(p)
	fits := p.fits()
	switch {
	case p.with.Holds("gpu"):
		return "another card"
	case p.with.Holds(lever.CardsGroup):
		return fmt.Sprintf("needs %s, %.2f× the GPU time", document.Count(int(show.s.gpus(p.candidate)), "GPU"), show.s.rank.gpuTime(p.judged))
	case first && fits && !changes:
		return document.BestChoice
	case !fits && p.savesNothing():
		if p.with.Holds("allocator") {
			return "saves nothing here: what is reserved depends on the order of frees"
		}
		if p.result.Peak.AllocatedBytes < p.beside.result.Peak.AllocatedBytes {
			return "saves nothing on the card: tensors shrink, but the allocator keeps as much"
		}
		return "saves nothing: the peak is in " + document.PeakOf(p.result)
	case p.fit().Verdict == estimator.Tight:
		return "may fail: little room is left"
	case !fits && changes:
		return "not enough alone, and changes " + show.changed(p)
	case !fits:
		return "not enough alone"
	case first:
		return "least change that fits; changes " + show.changed(p)
	case changes:
		return "changes " + show.changed(p)
	case show.s.rank.cramped(p.judged):
		return "fits, and leaves a display too little: " + estimator.Bytes(show.s.rank.spare(p.judged)).String()
	case safest != nil && p.with.Key == "" && p.choice() == safest.choice():
		return "safe choice"
	case p.with.Key == "" && show.s.rank.today != nil && p.choice() == show.s.rank.today.choice():
		return "fits as it is"
	case show.s.rank.today != nil && show.s.rank.today.fits() && p.time.Expected < 0.99:
		return "also fits, faster than today"
	}
	return "also fits"
}

func (show presenter) changed(p proposal) string {
	if p.with.Holds("layers") || p.with.Holds("width") {
		return "the model"
	}
	if !p.with.ChangesTraining() {
		return "the effective batch"
	}
	return "training"
}
