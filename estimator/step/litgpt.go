package step

// GroupedProduct multiplies each of so many equal parts of a token's values by its share of the rows of w, as a
// convolution of width one does. It keeps its input.
func (t *Tape) GroupedProduct(x T, w Weight, groups int64) T {
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	y := t.fresh(input.numel/(w.Cols*groups)*w.Rows, input.dtype, LabelAdapter)
	t.workspace()
	y = t.op(input, weight).save(weight, input).
		alloc(0, input.bytes(), LabelInputGradient).alloc(1, weight.bytes(), LabelWeightGradient).workspace().
		validate().send(0, 0).send(1, 1).out(y, 0)
	t.Drop(input)
	t.Drop(weight)
	return y
}

// IndexCopy puts x into zeros of numel elements, along indices that the module holds. It keeps x.
// Source: tools/autograd/derivatives.yaml (index_copy), torch 2.9.
func (t *Tape) IndexCopy(x T, numel int64) T {
	y := t.fresh(numel, x.dtype, LabelAdapter)
	return t.op(x).save(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}
