package step

// AdapterProduct is the product of an adapter's two matrices as DoRA makes it, by sending the unit matrix through the
// adapter. Its gradient is never asked for, but what its graph has saved lives as long as the product does: saved holds
// it. Source: peft/tuners/lora/dora.py (DoraLinearLayer.get_lora_weight), 0.21.
func (t *Tape) AdapterProduct(down, up Weight) (product T, saved []T) {
	unit := t.fresh(down.Cols*down.Cols, t.Parameter(down).dtype, LabelAdapter)
	a := t.weightApart(down)
	input := t.autocastTo(unit, t.Recipe.Compute, LabelAdapter)
	low := t.fresh(down.Cols*down.Rows, input.dtype, LabelAdapter)
	t.workspace()
	t.Drop(a)
	saves := !t.noGrad && (t.layer == None || t.recompute) // what layers save that run again goes at once
	if !saves {
		t.Drop(input)
	}
	b := t.weightApart(up)
	product = t.fresh(down.Cols*up.Rows, low.dtype, LabelAdapter)
	t.workspace()
	t.Drop(unit)
	if !saves {
		t.Drop(b, low)
		return product, nil
	}
	return product, []T{input, low, b}
}

// weightApart is the parameter in the type in which products are computed, for one that no gradient comes back through.
// Where autocast does not cache the copy, nobody else gets this one.
func (t *Tape) weightApart(w Weight) T {
	p := t.Parameter(w)
	if !t.autocast || p.dtype == t.Recipe.Compute || p.dtype == F32 && !t.params[w.Index].frozen {
		return t.weight(w)
	}
	return t.fresh(p.numel, t.Recipe.Compute, LabelWeightCopy)
}

// SumNorm is the norm of every row of w + c·delta, outside the graph. transposed says that rows are stored as columns.
// Source: peft/tuners/lora/dora.py (DoraLinearLayer.get_weight_norm), 0.21.
func (t *Tape) SumNorm(w, delta T, rows int64, transposed bool) T {
	scaled := t.MulScalar(delta, LabelAdapter)
	sum := t.Add(w, scaled, LabelAdapter)
	t.Drop(scaled)
	d := sum.dtype
	if t.autocast { // asks for a float32 result and leaves the input as it is
		d = F32
	}
	norm := t.fresh(rows, d, LabelNormStatistics)
	over, long, short := OverCols, rows, sum.numel/rows
	if transposed {
		over, long, short = OverRows, short, long
	}
	if scratch, semaphores := t.Recipe.Reduction(over, long, short); scratch > 0 {
		partial, semaphore := t.fresh(scratch, Bool, LabelReduction), t.fresh(semaphores, Bool, LabelReduction)
		t.Drop(semaphore, partial)
	}
	y := t.Cast(norm, sum.dtype, LabelNormStatistics)
	t.Drop(norm, sum)
	return y
}

// DivideBy is x / by, where by has no gradient.
func (t *Tape) DivideBy(x, by T, l Label) T {
	y := t.fresh(x.numel, promote(x.dtype, by.dtype), l)
	return t.op(x).save(by).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// Times is x · wᵀ for a matrix w that is no parameter, (out, in).
func (t *Tape) Times(x, w T, in int64, matrix bool, l Label) T {
	weight := t.autocastTo(w, t.Recipe.Compute, LabelWeightCopy)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	return t.product(input, weight, T{}, false, !matrix, in, w.numel/in, l)
}

// Dequantised is the weight of a frozen layer as a matrix of numbers: itself, or made from what bitsandbytes packed.
// Source: peft/utils/integrations.py (dequantize_module_weight), 0.21.
func (t *Tape) Dequantised(w Weight, q Quantisation) T {
	p := t.Parameter(w)
	switch q {
	case NF4:
		return t.fresh(p.numel, p.dtype, LabelDequantised)
	case NF4Double:
		scale := t.fresh(scales(p.numel), F32, LabelDequantised)
		defer t.Drop(scale)
		return t.fresh(p.numel, p.dtype, LabelDequantised)
	}
	return p
}
