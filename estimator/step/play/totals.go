package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// plainTotals is optimizerTotals without a play, for the optimizers whose state and temporaries of all parameters add
// up and for parameters of one type; of a deep model the play takes longer than the rest of the ledger.
func (r reckoner) plainTotals() (optimizerTotals, bool) {
	st := &r.s.Recipe.States
	o := r.s.Optimizer
	_, aligns := r.s.strategy.(step.Aligning) // which copies besides
	if o.Own != nil || o.Loop != nil || aligns {
		return optimizerTotals{}, false
	}
	lists, moments := int64(optim.Lists(&r.s.Recipe, o)), int64(o.Moments)
	if st.MasterWeights || st.GradientBuffers || r.s.Recipe.UpdatesInBackward {
		return optimizerTotals{}, false
	}
	r.s.updater.Recipe = &r.s.Recipe
	var count, largest, chunks, states int64
	var scratch [2]int64 // of the groups, one of which is updated after the other
	var d step.DType
	one := true
	r.s.Parameters.Distinct(func(p *step.Parameter, times int64) {
		if !p.Trained() || p.Unreached {
			return
		}
		one = one && (count == 0 || p.Dtype == d)
		d, count, largest = p.Dtype, count+times, max(largest, p.Numel)
		chunks += times * step.CeilDiv(p.Numel, normChunk)
		moment := alloc.Rounded(r.s.updater.Moment(p))
		group := 0
		if r.s.Recipe.GroupsByDecay && !p.Matrix() {
			group = 1
		}
		scratch[group] += times * lists * moment
		states += times * moments * moment
		if o.Counter {
			states += times * alloc.BlockBytes
		}
	})
	if !one || count == 0 {
		return optimizerTotals{}, false
	}
	found, unscaling, sum := int64(0), int64(0), int64(0)
	if r.s.Recipe.GradScaler {
		found, unscaling = alloc.BlockBytes, 4*alloc.BlockBytes
		if o.Fused {
			sum = alloc.BlockBytes
		}
	}
	totals := optimizerTotals{states: states, scratch: found + sum + max(scratch[0], scratch[1]),
		label: step.LabelOptimizerScratch}
	before := unscaling
	if r.s.Clip {
		kernel := alloc.Rounded(count * step.CeilDiv(largest, normChunk) * 4)
		if r.s.Recipe.Software.Has(packsNorms) {
			kernel = alloc.Rounded((count+1)*8) + alloc.Rounded(chunks*4)
		}
		before = max(before, found+clipPeak(count, d, kernel, r.clipScalars()))
	}
	totals.prepare(before, r.s.Clip)
	return totals, true
}

// clipScalars is the most that the arithmetic after the norm holds.
func (r reckoner) clipScalars() int64 {
	var c alloc.Tally
	r.s.strategy.Clip(&c, c.Alloc(1), 1)
	return c.Most
}

// clipPeak is the most that clip holds for count gradients of type d; kernel is what the norms' kernel takes besides
// them, scalars what the arithmetic after the norm does.
func clipPeak(count int64, d step.DType, kernel, scalars int64) int64 {
	norms := count * alloc.BlockBytes
	stacked := alloc.Rounded(count * d.Size())
	return max(norms+kernel, norms+stacked+alloc.BlockBytes, scalars)
}
