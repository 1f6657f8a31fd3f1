package step

// HeadNorms is StableLM's norm of every head by a gain of its own: the heads are split, go through a LayerNorm each and
// are put together again.
// Source: transformers/models/stablelm/modeling_stablelm.py (StableLmLayerNormPerHead), 4.57.
func (t *Tape) HeadNorms(x T, gains []Weight) T {
	heads := int64(len(gains))
	head := x
	head.numel /= heads
	head = t.op(x).collect(x.bytes()).out(head, 0)

	normed := make([]T, heads)
	before := T{edge: noEdge}
	for i, w := range gains {
		normed[i] = t.headNorm(head, before, w, heads > 1)
		before = normed[i]
	}
	y := t.fresh(x.numel, before.dtype, LabelNormOutput)
	y.layout, y.edge = headsFirst, before.edge
	for _, n := range normed {
		t.Drop(n)
	}
	return y
}

// headNorm is the LayerNorm of one head, a view of all of them. The gradient that it gets is that of all heads together
// and goes on to the head before.
func (t *Tape) headNorm(x, before T, w Weight, several bool) T {
	input := t.autocastTo(x, F32, LabelCast)
	weight := t.Parameter(w)
	rows := input.numel / w.Rows
	strided := input.storage == x.storage && several
	if strided { // the kernel wants it dense
		dense := t.fresh(input.numel, input.dtype, LabelContiguous)
		defer t.Drop(dense)
	}
	y := t.fresh(input.numel, input.dtype, LabelNormOutput)
	mean := t.fresh(rows, F32, LabelNormStatistics)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	o := t.op(input, weight, before).save(input, mean, rstd, weight)
	if strided {
		o.alloc(3, input.bytes(), LabelContiguous)
	}
	for k, p := range [...]T{input, weight} {
		if o.needs(k) {
			o.alloc(k, p.bytes(), LabelInputGradient).send(k, k)
		}
	}
	if several && t.Shape.Batch > 1 { // the same of the gradient
		o.scratch(input.bytes(), LabelContiguous)
	}
	o.tallNorm(2, rows, w.Rows, input.dtype)
	if strided {
		o.free(3)
	}
	y = o.pass(0, 2).out(y, 0)
	t.Drop(mean, rstd, input)
	return y
}
