package step

// What multi-head latent attention does beside the usual (DeepSeek).

// Split2 is x.split of the last dimension into a part of numel elements and the rest: views, whose gradients meet in
// one tensor.
func (t *Tape) Split2(x T, numel int64) (first, rest T) {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	first, rest = t.Hold(x), t.Hold(x)
	first.numel, rest.numel = numel, x.numel-numel
	return o.out(first, 0), o.out(rest, 1)
}

// FillHeads is a new tensor of heads into which a and then b are copied, each into its part of every head. Backward
// copies the whole gradient once for either, takes the part out of that and puts zeros in its place.
// Source: torch/csrc/autograd/functions/tensor.cpp (CopySlices::apply, CopyBackwards::apply), torch 2.15.
func (t *Tape) FillHeads(a, b T) T {
	return t.exec.combined(t, a, b, combination{a.numel + b.numel, a.dtype, LabelRotary, fillHeads})
}

func fillHeads(t *Tape, a, b, y T) T {
	y.layout = headsFirst
	return t.fillPart(t.fillPart(y, a), b)
}

// fillPart copies part into its place in y, which it takes over.
func (t *Tape) fillPart(y, part T) T {
	const whole, zeros, cast = 2, 3, 4
	o := t.op(y, part)
	slice := part.numel * y.dtype.Size()
	o.alloc(whole, y.bytes(), LabelInputGradient).alloc(1, slice, LabelInputGradient)
	if o.needs(0) {
		o.alloc(zeros, slice, LabelInputGradient)
	}
	from := 1
	if o.needs(1) && part.dtype != y.dtype {
		from = cast
		o.alloc(cast, part.bytes(), LabelInputGradient).free(1)
	}
	if o.needs(0) {
		o.free(zeros)
	}
	if o.needs(1) {
		o.send(from, 1)
	} else {
		o.free(1)
	}
	if o.needs(0) {
		o.send(whole, 0)
	} else {
		o.free(whole)
	}
	return o.out(y, 0)
}

// Half is a view of half of every row of x, which no gradient reaches.
func (x T) Half() T {
	x.numel /= 2
	return x
}

// Remembers says that operations on x keep what they save for backward: a gradient could reach it, and they are not
// checkpointed, or run for a second time.
func (t *Tape) Remembers(x T) bool { return t.grads(x) && (t.layer == None || t.recompute) }

// Deinterleave brings the even elements of every head before the odd ones: a copy, and one of the gradient.
// Source: transformers/models/deepseek_v3/modeling_deepseek_v3.py (apply_rotary_pos_emb_interleave), 4.57.
func (t *Tape) Deinterleave(x T) T {
	return t.exec.pointwise(t, x, pointwise{form: form{dtype: x.dtype, layout: headsFirst}, label: LabelRotary,
		gradient: LabelRotary})
}

// Expand is x.expand over n heads of what x has for one: a view, whose gradient is summed.
func (t *Tape) Expand(x T, n int64) T {
	y := t.Hold(x)
	y.numel *= n
	if n == 1 {
		return y
	}
	y.layout = repeated
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// Chosen is x.gather(1, indices) of rows of d elements, k of each. It keeps the indices.
func (t *Tape) Chosen(x, indices T) T {
	y := t.fresh(indices.numel, x.dtype, LabelRouting)
	return t.op(x).save(indices).alloc(0, x.bytes(), LabelRouting).send(0, 0).out(y, 0)
}

// Rows is x[indices] with one tensor of indices for each leading dimension of x, in rows of d elements: Gather whose
// gradient does not go through a view.
func (t *Tape) Rows(x T, d int64, indices ...T) T {
	n := indices[0].numel
	y := t.fresh(n*d, x.dtype, LabelExpertInput)
	o := t.op(x).save(indices...)
	o.alloc(0, x.bytes(), LabelInputGradient).scatterScratch(n, x.numel/d, len(indices))
	return o.send(0, 0).out(y, 0)
}

// FloatMatrixLinear is F.linear(x, w.float()) of a float32 matrix x.
func (t *Tape) FloatMatrixLinear(x T, w Weight, l Label) T {
	p := t.Parameter(w)
	if t.autocast && p.dtype == F32 {
		return t.LinearMatrix(x, w, NoWeight, l)
	}
	return t.FloatTimes(x, p, w.Cols, l)
}

// FloatTimes is F.linear(x, w.float()) of a float32 matrix x of rows of in elements, for a matrix w that is no
// parameter.
func (t *Tape) FloatTimes(x, w T, in int64, l Label) T {
	wide := t.Float(w, LabelWeightCopy)
	defer t.Drop(wide)
	weight := t.autocastTo(wide, t.Recipe.Compute, LabelWeightCopy)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	return t.product(input, weight, T{}, false, false, in, w.numel/in, l)
}

// With is the type of an operation on d and other.
func (d DType) With(other DType) DType { return promote(d, other) }
