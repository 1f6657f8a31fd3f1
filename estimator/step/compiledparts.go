package step

// What torch.compile(dynamic=True) makes of parts of a model that otherwise runs eagerly: each part is one node in the
// graph, whose backward lets go of what it saved as soon as it has been read. Weights are cast inside, without
// autocast's cache. The orders were read off traces of ModernBERT in transformers 4.57 under torch 2.9 (Inductor).

// partType is the type in which a compiled part computes its products.
func (t *Tape) partType() DType {
	if t.autocast {
		return t.Recipe.Compute
	}
	return t.Recipe.Stored
}

// castWeight is w in the type of the products: the parameter itself, or a copy for this use alone.
func (t *Tape) castWeight(w Weight) T {
	p, d := t.Parameter(w), t.partType()
	if p.dtype == d {
		return T{storage: None, edge: noEdge, form: plain(d), numel: p.numel}
	}
	return T{storage: t.Alloc(p.numel*d.Size(), PrecisionCopies, LabelWeightCopy), edge: noEdge, form: plain(d),
		numel: p.numel}
}

// statistics are the mean and the reciprocal deviation of rows that a norm keeps for backward.
func (t *Tape) statistics(rows int64) (mean, rstd T) {
	return t.fresh(rows, F32, LabelNormStatistics), t.fresh(rows, F32, LabelNormStatistics)
}

// forget lets go of the saved tensors with the given numbers.
func (o op) forget(saved ...uint8) op {
	for _, k := range saved {
		o.act(act{verb: actForget, route: route{reg: k}})
	}
	return o
}

// CompiledEmbedding is norm(embedding(ids)) as one compiled part.
func (t *Tape) CompiledEmbedding(ids T, w, gain Weight) T {
	p := t.Parameter(w)
	rows := ids.numel
	embedded := t.fresh(rows*w.Cols, p.dtype, LabelEmbedding)
	mean, rstd := t.statistics(rows)
	y := t.fresh(rows*w.Cols, p.dtype, LabelNormOutput)
	o := t.op(p, t.Parameter(gain)).save(ids, embedded, mean, rstd)
	o.alloc(0, p.numel*F32.Size(), LabelGradient).forget(0)
	o.gainSum(2, 1, rows, gain, func() { o.forget(1, 2, 3) })
	grad := 0
	if p.dtype != F32 {
		o.alloc(3, p.bytes(), LabelGradient).free(0)
		grad = 3
	}
	y = o.send(2, 1).send(grad, 0).out(y, 0)
	t.Drop(embedded, mean, rstd)
	return y
}

// CompiledGLU is down(act(a)·b) of the halves a and b of up(norm(x)) as one compiled part.
func (t *Tape) CompiledGLU(x T, gain, up, down Weight) T {
	rows, d := x.numel/gain.Rows, t.partType()
	ins := [4]T{x, t.Parameter(gain), t.Parameter(up), t.Parameter(down)}
	graph := t.grads(ins[:]...)
	var mean, rstd T
	if graph {
		mean, rstd = t.statistics(rows)
	}
	normed := t.fresh(x.numel, d, LabelNormOutput)
	upper := t.castWeight(up)
	both := t.fresh(rows*up.Rows, d, LabelLinear)
	t.workspace()
	var lower, product T
	if graph {
		lower = t.castWeight(down)
		product = t.fresh(rows*down.Cols, d, LabelActivation)
	} else {
		t.Drop(normed, upper)
		product = t.fresh(rows*down.Cols, d, LabelActivation)
		t.Drop(both)
		lower = t.castWeight(down)
	}
	y := t.fresh(rows*down.Rows, d, LabelLinear)
	if !graph {
		t.Drop(product, lower)
		return y
	}
	o := t.op(ins[0], ins[1], ins[2], ins[3]).save(product, lower, both, normed, upper, mean, rstd, x)
	const lowerGrad, productGrad, bothGrad, upperGrad, normedGrad, inputGrad, partial, gainGrad, lowerStored,
		upperStored = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	o.alloc(lowerGrad, lower.bytes(), LabelWeightGradient).workspace().forget(0).
		alloc(productGrad, product.bytes(), LabelInputGradient).forget(1)
	lowerGradient := o.cast(lowerGrad, lowerStored, down)
	o.alloc(bothGrad, both.bytes(), LabelInputGradient).free(productGrad).forget(2).
		alloc(upperGrad, upper.bytes(), LabelWeightGradient).forget(3).
		alloc(normedGrad, normed.bytes(), LabelInputGradient).free(bothGrad).forget(4)
	upperGradient := o.cast(upperGrad, upperStored, up)
	o.alloc(inputGrad, x.bytes(), LabelInputGradient)
	o.gainSum(gainGrad, partial, rows, gain, func() { o.free(normedGrad).forget(5, 6, 7) })
	y = o.send(inputGrad, 0).send(gainGrad, 1).send(upperGradient, 2).send(lowerGradient, 3).out(y, 0)
	t.Drop(product, lower, both, normed, upper, mean, rstd)
	return y
}

// cast brings the gradient of w in register from into the type of the parameter, and returns the register that it is
// in.
func (o op) cast(from, to int, w Weight) int {
	p := o.t.Parameter(w)
	if p.dtype == o.t.partType() {
		return from
	}
	o.alloc(to, p.bytes(), LabelWeightGradient).free(from)
	return to
}

// gainSum allocates register r for the gradient of a norm's gain. The kernel that reads what read lets go of sums it,
// or writes partial sums to register scratch.
func (o op) gainSum(r, scratch int, rows int64, gain Weight, read func()) {
	bytes := o.t.Parameter(gain).bytes()
	if o.t.Recipe.outerSplits(rows, gain.Rows) <= 1 {
		o.alloc(r, bytes, LabelWeightGradient)
		read()
		return
	}
	o.partials(scratch, rows, gain.Rows)
	read()
	o.alloc(r, bytes, LabelWeightGradient).free(scratch)
}

// partials allocates register r for the partial sums of a (rows, cols) matrix over its rows.
func (o op) partials(r int, rows, cols int64) op {
	return o.alloc(r, o.t.Recipe.partialElements(rows, cols)*F32.Size(), LabelReduction)
}

// partialElements are the elements of the partial sums of a (rows, cols) matrix over its rows, none where it is summed
// in one go.
func (r *Recipe) partialElements(rows, cols int64) int64 {
	const lineElements, shortRow = 32, 1024
	splits := r.outerSplits(rows, cols)
	if splits <= 1 {
		return 0
	}
	stride := cols
	if cols > shortRow {
		stride = roundUp(cols, lineElements)
	}
	return (splits-1)*stride + cols
}

// outerSplits is over how many blocks Inductor splits the sum of a (rows, cols) matrix over its rows.
// Source: torch/_inductor/choices.py (reduction_split_factor), torch/_inductor/ir.py (Reduction.num_splits), torch 2.9.
func (r *Recipe) outerSplits(rows, cols int64) int64 {
	const (
		minPerThread, maxPerThread = 32, 512
		threadsPerMultiprocessor   = 2048
		threads, perThread         = 256, 4
		blockColumns               = 128
	)
	if rows <= minPerThread || cols >= r.Multiprocessors*2*32 {
		return 1
	}
	device := r.Multiprocessors * threadsPerMultiprocessor
	var size int64
	switch n := rows * cols; {
	case n < minPerThread*device:
		size = minPerThread
	case n < maxPerThread*device:
		blocks := CeilDiv(device/threads, CeilDiv(cols, blockColumns))
		size = CeilDiv(rows, perThread*blocks)
		if near, ok := divisorNear(rows, size, 20); ok {
			size = max(near, minPerThread)
		}
	default:
		size = maxPerThread
		if near, ok := divisorNear(rows, size, 50); ok {
			size = near
		}
	}
	return CeilDiv(rows, perThread*size)
}

// divisorNear is the divisor of n nearest to x, if it is closer than within.
func divisorNear(n, x, within int64) (int64, bool) {
	for delta := range within {
		for _, candidate := range [...]int64{x - delta, x + delta} {
			if candidate > 0 && n%candidate == 0 {
				return candidate, true
			}
		}
	}
	return 0, false
}
