package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// optimizerTotals is what the optimizer holds, in bytes of blocks: the state, and the most of a step besides, with what
// kind of temporary that is.
type optimizerTotals struct {
	states, scratch int64
	label           step.Label
}

// reckoner says what the update of a session holds: by adding up where that is all, and else by playing it on a tally.
type reckoner struct{ s *Session }

// optimizerTotals adds up where that is all, and else plays.
func (r reckoner) optimizerTotals(t *alloc.Tally) optimizerTotals {
	if totals, ok := r.ownTotals(t); ok {
		return totals
	}
	if totals, ok := r.plainTotals(); ok {
		return totals
	}
	return r.playedTotals(t)
}

// playedTotals plays the optimizer step twice on t: the first leaves the state behind, the second finds it.
func (r reckoner) playedTotals(t *alloc.Tally) optimizerTotals {
	*t = alloc.Tally{Sizes: t.Sizes[:0]}
	r.s.started = false
	if r.s.Recipe.UpdatesInBackward {
		return optimizerTotals{label: step.LabelOptimizerScratch}
	}
	r.s.construct(t)
	r.s.optimizerStep(t)
	states := t.Live
	t.Most = states
	found := r.s.prepare(t)
	clipping := t.Most
	t.Most = t.Live
	r.s.update(t)
	if found != alloc.None {
		t.Free(found)
	}
	totals := optimizerTotals{states: states, scratch: t.Most - states, label: step.LabelOptimizerScratch}
	totals.prepare(clipping-states, r.s.Clip)
	return totals
}

// ownTotals plays a strategy's own optimizer step twice on t; false where it has none. The gradients that it lets go of
// are counted as there before it.
func (r reckoner) ownTotals(t *alloc.Tally) (optimizerTotals, bool) {
	*t = alloc.Tally{Sizes: t.Sizes[:0]}
	heap := r.s.heap
	defer func() { r.s.heap = heap }()
	r.s.heap, r.s.started = t, false
	gone := int64(0)
	own := r.s.updating(func(bytes int64) {
		gone += alloc.Rounded(bytes)
		t.Live -= alloc.Rounded(bytes)
	})
	if !r.s.strategy.Update(r.s.asRank(), t, own) {
		return optimizerTotals{}, false
	}
	t.Live += gone
	before := t.Live
	t.Most = before
	r.s.strategy.Update(r.s.asRank(), t, own)
	return optimizerTotals{states: before, scratch: t.Most - before, label: step.LabelOptimizerScratch}, true
}

// prepare counts what unscaling the gradients, and clipping them where that is done, takes before the update.
func (o *optimizerTotals) prepare(most int64, clips bool) {
	if most <= o.scratch {
		return
	}
	o.scratch = most
	if clips {
		o.label = step.LabelClip
	}
}
