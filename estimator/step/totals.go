package step

// plainTotals is optimizerTotals without a play, for the optimizers whose state and temporaries of all parameters add up and for
// parameters of one type; of a deep model the play takes longer than the rest of the ledger.
func (s *Session) plainTotals() (optimizerTotals, bool) {
	st := &s.Recipe.States
	foreach := s.Optimizer == AdamWForeach
	moments := int64(0)
	switch s.Optimizer {
	case AdamWForeach, AdamWFused:
		moments = 2
	case SGDMomentum, SGDMomentumFused:
		moments = 1
	case SGD, SGDFused:
	default:
		return optimizerTotals{}, false
	}
	if st.MasterWeights || st.GradientBuffers || s.Recipe.UpdatesInBackward {
		return optimizerTotals{}, false
	}
	s.updater.recipe = &s.Recipe
	var count, largest, roots, states int64
	var d DType
	one := true
	s.Parameters.Distinct(func(p *Parameter, times int64) {
		if !p.Trained() {
			return
		}
		one = one && (count == 0 || p.Dtype == d)
		d, count, largest = p.Dtype, count+times, max(largest, p.Numel)
		moment := rounded(s.updater.moment(p))
		roots += times * moment
		states += times * moments * moment
		if s.Optimizer == AdamWFused {
			states += times * blockBytes // the step counter
		}
	})
	if !one || count == 0 {
		return optimizerTotals{}, false
	}
	if !foreach {
		roots = 0
	} else if s.Recipe.TwoTemporaries {
		roots *= 2
	}
	found, unscaling, sum := int64(0), int64(0), int64(0)
	if s.Recipe.GradScaler {
		found, unscaling = blockBytes, 4*blockBytes
		if s.Optimizer.fused() {
			sum = blockBytes
		}
	}
	totals := optimizerTotals{states: states, scratch: found + sum + roots, label: LabelOptimizerScratch}
	before := unscaling
	if s.Clip {
		before = max(before, found+clipPeak(count, largest, d, s.clipScalars()))
	}
	totals.prepare(before, s.Clip)
	return totals, true
}

// clipScalars is the most that the arithmetic after the norm holds.
func (s *Session) clipScalars() int64 {
	var c counting
	s.strategy.Clip(&c, c.Alloc(1), 1)
	return c.most
}

// clipPeak is the most that clip holds for count gradients of type d, of which the largest has so many elements; scalars is what the
// arithmetic after the norm does.
func clipPeak(count, largest int64, d DType, scalars int64) int64 {
	norms := count * blockBytes
	partial := rounded(count * ceilDiv(largest, normChunk) * 4)
	stacked := rounded(count * d.Size())
	return max(norms+partial, norms+stacked+blockBytes, scalars)
}
