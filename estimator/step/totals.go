package step

// plainTotals is optimizerTotals without a play, for the optimizers whose state and temporaries of all parameters add up and for
// parameters of one type; of a deep model the play takes longer than the rest of the ledger.
func (s *Session) plainTotals() (optimizerTotals, bool) {
	st := &s.Recipe.States
	o := s.Optimizer
	if o.Own != nil || o.Loop != nil {
		return optimizerTotals{}, false
	}
	lists, moments := int64(s.Recipe.lists(o)), int64(o.Moments)
	if st.MasterWeights || st.GradientBuffers || s.Recipe.UpdatesInBackward {
		return optimizerTotals{}, false
	}
	s.updater.recipe = &s.Recipe
	var count, largest, scratch, states int64
	var d DType
	one := true
	s.Parameters.Distinct(func(p *Parameter, times int64) {
		if !p.Trained() {
			return
		}
		one = one && (count == 0 || p.Dtype == d)
		d, count, largest = p.Dtype, count+times, max(largest, p.Numel)
		moment := rounded(s.updater.moment(p))
		scratch += times * lists * moment
		states += times * moments * moment
		if o.Counter {
			states += times * blockBytes
		}
	})
	if !one || count == 0 {
		return optimizerTotals{}, false
	}
	found, unscaling, sum := int64(0), int64(0), int64(0)
	if s.Recipe.GradScaler {
		found, unscaling = blockBytes, 4*blockBytes
		if o.Fused {
			sum = blockBytes
		}
	}
	totals := optimizerTotals{states: states, scratch: found + sum + scratch, label: LabelOptimizerScratch}
	before := unscaling
	if s.Clip {
		before = max(before, found+clipPeak(count, largest, d, s.clipScalars()))
	}
	totals.prepare(before, s.Clip)
	return totals, true
}

// clipScalars is the most that the arithmetic after the norm holds.
func (s *Session) clipScalars() int64 {
	var c tally
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
