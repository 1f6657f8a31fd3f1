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

// optimizerTotals adds up where that is all, and else plays.
func (s *Session) optimizerTotals(t *alloc.Tally) optimizerTotals {
	if totals, ok := s.ownTotals(t); ok {
		return totals
	}
	if totals, ok := s.plainTotals(); ok {
		return totals
	}
	return s.playedTotals(t)
}

// playedTotals plays the optimizer step twice on t: the first leaves the state behind, the second finds it.
func (s *Session) playedTotals(t *alloc.Tally) optimizerTotals {
	*t = alloc.Tally{Sizes: t.Sizes[:0]}
	s.started = false
	if s.Recipe.UpdatesInBackward {
		return optimizerTotals{label: step.LabelOptimizerScratch}
	}
	s.construct(t)
	s.optimizerStep(t)
	states := t.Live
	t.Most = states
	found := s.prepare(t)
	clipping := t.Most
	t.Most = t.Live
	s.update(t)
	if found != alloc.None {
		t.Free(found)
	}
	totals := optimizerTotals{states: states, scratch: t.Most - states, label: step.LabelOptimizerScratch}
	totals.prepare(clipping-states, s.Clip)
	return totals
}

// ownTotals plays a strategy's own optimizer step twice on t; false where it has none. The gradients that it lets go of
// are counted as there before it.
func (s *Session) ownTotals(t *alloc.Tally) (optimizerTotals, bool) {
	*t = alloc.Tally{Sizes: t.Sizes[:0]}
	heap := s.heap
	defer func() { s.heap = heap }()
	s.heap, s.started = t, false
	gone := int64(0)
	own := s.updating(func(bytes int64) {
		gone += alloc.Rounded(bytes)
		t.Live -= alloc.Rounded(bytes)
	})
	if !s.strategy.Update(s.asRank(), t, own) {
		return optimizerTotals{}, false
	}
	t.Live += gone
	before := t.Live
	t.Most = before
	s.strategy.Update(s.asRank(), t, own)
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
