package step

// What peft's adapters on a parameter do: the module computes with the sum of the parameter and of the product of the
// adapter's two matrices, which is made anew whenever the module runs.
// Sources: peft/tuners/lora/layer.py (ParamWrapper, _LoraFactorsProxy, _LoraParameterProxy), 0.20 and 0.21;
// torch/nn/utils/parametrize.py (register_parametrization, cached), torch 2.15.

// Factors are the two matrices of an adapter, one pair for each of count experts, in type d: up is (out, rank·count)
// and is read with the experts first, down (rank·count, in).
func (t *Tape) Factors(down, up Weight, d DType) (lhs, rhs T) {
	rows := t.View(t.Parameter(down))
	experts := t.permuted(t.Parameter(up))
	lhs = t.Cast(experts, d, LabelAdapter)
	rhs = t.Cast(rows, d, LabelAdapter)
	return lhs, rhs
}

// permuted is x seen in another order of its dimensions: the gradient is laid out as x is.
func (t *Tape) permuted(x T) T {
	return t.op(x).alloc(0, x.bytes(), LabelWeightGradient).send(0, 0).out(x, 0)
}

// FoldedExperts is w + scale · lhs · rhs for each of the experts: torch.baddbmm. scaled says that scale is not one.
// Source: tools/autograd/derivatives.yaml (baddbmm), torch 2.15.
func (t *Tape) FoldedExperts(w Weight, lhs, rhs T, scaled bool) T {
	const plain = 2 // the registers of gradients that are still to be multiplied by scale
	o := t.op(lhs, rhs)
	o.keepOperands(0, 1, lhs, rhs)
	p := t.Parameter(w)
	y := t.expertsBatch(lhs, p.numel, p.dtype, LabelFoldedWeight)
	for k, factor := range [...]T{lhs, rhs} {
		if !o.needs(k) {
			continue
		}
		if !scaled {
			o.factorGradient(k, k, factor, lhs)
			continue
		}
		o.factorGradient(plain, k, factor, lhs).alloc(k, factor.bytes(), LabelWeightGradient).free(plain)
	}
	return o.sendNeeded().out(y, 0)
}

// expertsBatch allocates what a batched product with lhs does, which cuBLAS has laid out anew.
// Source: aten/src/ATen/native/cuda/Blas.cpp (prepare_batch_matrix_for_cublas), torch 2.15.
func (t *Tape) expertsBatch(lhs T, numel int64, d DType, l Label) T {
	y := t.fresh(numel, d, l)
	copied := t.fresh(lhs.numel, lhs.dtype, LabelContiguous)
	t.workspace()
	t.Drop(copied)
	return y
}

// factorGradient forms the gradient of the k-th factor in register r. That of the second is lhs transposed, times what
// arrives.
func (o op) factorGradient(r, k int, factor, lhs T) op {
	o.alloc(r, factor.bytes(), LabelWeightGradient)
	if k == 0 {
		return o.workspace()
	}
	const copied = 3
	return o.alloc(copied, lhs.bytes(), LabelContiguous).workspace().free(copied)
}

// sendNeeded hands registers 0 and 1 to the inputs of those numbers that want a gradient.
func (o op) sendNeeded() op {
	for k := range 2 {
		if o.needs(k) {
			o.send(k, k)
		}
	}
	return o
}

// DeltaOfExperts is Delta for each of the experts of w: torch.einsum, which autocast computes in its type.
func (t *Tape) DeltaOfExperts(w, down, up Weight) T {
	p, d := t.Parameter(w), t.Parameter(up).dtype
	if t.autocast {
		d = t.Recipe.Compute
	}
	lhs, rhs := t.Factors(down, up, d)
	o := t.op(lhs, rhs)
	o.keepOperands(0, 1, lhs, rhs)
	product := t.expertsBatch(lhs, p.numel, d, LabelAdapter)
	if o.needs(1) {
		o.factorGradient(1, 1, rhs, lhs)
	}
	if o.needs(0) {
		o.factorGradient(0, 0, lhs, lhs)
	}
	product = o.sendNeeded().out(product, 0)
	t.Drop(lhs, rhs)
	return t.scaledDelta(product, p.dtype)
}

// scaledDelta is what an adapter adds: a product times a number, in type d. It takes over the product.
func (t *Tape) scaledDelta(product T, d DType) T {
	scaled := t.MulScalar(product, LabelAdapter)
	t.Drop(product)
	delta := t.Cast(scaled, d, LabelAdapter)
	t.Drop(scaled)
	return delta
}

// TryFolding is what registering a parametrization computes once to see what comes out, and drops.
func (t *Tape) TryFolding(w Weight, lhs T) {
	p := t.Parameter(w)
	t.Drop(t.expertsBatch(lhs, p.numel, p.dtype, LabelFoldedWeight))
}

// Delta is what an adapter adds to the matrix w: the product of its matrices, times a number.
func (t *Tape) Delta(w, down, up Weight) T {
	weight := t.weight(down)
	input := t.weight(up)
	product := t.product(input, weight, T{}, false, false, up.Cols, down.Cols, LabelAdapter)
	return t.scaledDelta(product, t.Parameter(w).dtype)
}

// WithDelta is a parameter plus what an adapter adds to it.
func (t *Tape) WithDelta(w Weight, delta T) T { return t.Add(t.Parameter(w), delta, LabelFoldedWeight) }

// TryDelta is TryFolding for it.
func (t *Tape) TryDelta(w Weight) {
	p := t.Parameter(w)
	t.Drop(t.fresh(p.numel, p.dtype, LabelFoldedWeight))
}
