package step

// optimizerTotals is what the optimizer holds, in bytes of blocks: the state, and the most of a step besides, with what kind of
// temporary that is.
type optimizerTotals struct {
	states, scratch int64
	label           Label
}

// optimizerTotals adds up where that is all, and else plays.
func (s *Session) optimizerTotals(t *tally) optimizerTotals {
	if totals, ok := s.plainTotals(); ok {
		return totals
	}
	return s.playedTotals(t)
}

// playedTotals plays the optimizer step twice on t: the first leaves the state behind, the second finds it.
func (s *Session) playedTotals(t *tally) optimizerTotals {
	*t = tally{sizes: t.sizes[:0]}
	s.started = false
	if s.Recipe.UpdatesInBackward {
		return optimizerTotals{label: LabelOptimizerScratch}
	}
	s.construct(t)
	s.optimizerStep(t)
	states := t.live
	t.most = states
	found := s.prepare(t)
	clipping := t.most
	t.most = t.live
	s.update(t)
	if found != noHandle {
		t.Free(found)
	}
	totals := optimizerTotals{states: states, scratch: t.most - states, label: LabelOptimizerScratch}
	totals.prepare(clipping-states, s.Clip)
	return totals
}

// prepare counts what unscaling the gradients, and clipping them where that is done, takes before the update.
func (o *optimizerTotals) prepare(most int64, clips bool) {
	if most <= o.scratch {
		return
	}
	o.scratch = most
	if clips {
		o.label = LabelClip
	}
}
