package step

import "github.com/vramplan/vramplan/estimator/release"

// FiniteLimit is torch.where(torch.isinf(x).any(), a, b) for two numbers: a float32 scalar.
func (t *Tape) FiniteLimit(x T) T {
	magnitude := t.fresh(x.numel, x.dtype, LabelElementwise)
	infinite := t.fresh(x.numel, Bool, LabelElementwise)
	t.Drop(magnitude)
	found := t.fresh(1, Bool, LabelElementwise)
	if scratch := t.fullReduction(x.numel, Bool); scratch > 0 {
		parts, semaphores := t.fresh(scratch, Bool, LabelReduction), t.fresh(1, F32, LabelReduction)
		t.Drop(semaphores, parts)
	}
	t.Drop(infinite)
	a, b := t.fresh(1, F32, LabelElementwise), t.fresh(1, F32, LabelElementwise)
	limit := t.fresh(1, F32, LabelElementwise)
	t.Drop(b, a, found)
	return limit
}

// sharesClampTies halves the gradient of what equals a limit of a clamp between tensors.
var sharesClampTies = release.Declare("shares-clamp-ties", release.Change{
	Library: "torch", After: "2.10", From: "2.15",
	What:   "the gradient of a clamp between tensors is shared in torch 2.15 where an element equals a limit",
	Source: "torch/csrc/autograd/FunctionsManual.cpp (clamp_backward), as traces of 2.9.1 and 2.15.0 name it",
	Shown:  "traces of T5 in fp16",
})

// Clamp is torch.clamp(x, min=-limit, max=limit) with a tensor for a limit.
func (t *Tape) Clamp(x, limit T) T {
	least := t.fresh(1, limit.dtype, LabelElementwise)
	y := T{storage: None, form: plain(x.dtype), numel: x.numel}
	if !t.lastSaves(3) {
		y = t.fresh(x.numel, x.dtype, LabelElementwise)
	}
	o := t.op(x).save(x, least, limit)
	if t.Recipe.Software.Has(sharesClampTies) {
		o.clampTies(x)
		t.Drop(least)
		return o.out(y, 0)
	}
	o.alloc(0, x.dtype.Size(), LabelElementwise)
	o.alloc(1, x.numel, LabelElementwise).alloc(2, x.numel, LabelElementwise) // above, below
	y = o.alloc(4, x.bytes(), LabelInputGradient).free(2).free(1).free(0).send(4, 0).out(y, 0)
	t.Drop(least)
	return y
}

// clampTies is the backward of a clamp between tensors that halves the gradient of what equals a limit: whether the
// limits differ, what equals either, what lies beyond either, half of the gradient, and the choice between them.
// Source: the operations of torch 2.15's clamp_backward as a trace of T5 in fp16 names them.
func (o op) clampTies(x T) {
	n := x.numel
	o.alloc(0, 1, LabelElementwise)
	o.alloc(1, n, LabelElementwise).alloc(2, n, LabelElementwise).alloc(3, n, LabelElementwise)
	o.alloc(5, n, LabelElementwise).free(3).free(2).free(1)
	o.alloc(1, n, LabelElementwise).alloc(2, n, LabelElementwise).alloc(3, n, LabelElementwise).free(2).free(1)
	o.alloc(6, x.bytes(), LabelElementwise).alloc(4, x.bytes(), LabelInputGradient).free(6).free(3).free(5).free(0)
	o.send(4, 0)
}

// fullReduction is the scratch, in bytes, of reducing n elements to one of type d: as in reduction, but all
// threads of a block read along the one dimension.
// Source: aten/src/ATen/native/cuda/Reduce.cuh (setReduceConfig), torch 2.9.
func (t *Tape) fullReduction(n int64, d DType) int64 {
	const maxThreads, minValuesPerThread, maxValuesPerThread = 512, 16, 256
	values := CeilDiv(n, powerOfTwoUpTo(n, maxThreads))
	if values < maxValuesPerThread {
		return 0
	}
	target := t.Recipe.Multiprocessors * (t.Recipe.ThreadsPerMultiprocessor / maxThreads)
	blocks := max(min(target, CeilDiv(values, minValuesPerThread)), CeilDiv(values, maxValuesPerThread))
	if blocks <= 1 {
		return 0
	}
	return blocks * d.Size()
}

// LookForInfinities is torch.isfinite(x).all() or, apart, torch.isinf(x).any() and torch.isnan(x).any(). Nothing stays.
// Source: aten/src/ATen/native/TensorCompare.cpp (isinf, isfinite), torch 2.9 and 2.15.
func (t *Tape) LookForInfinities(x T, apart bool) {
	in := func(numel int64, d DType) T { return t.fresh(numel, d, LabelElementwise) }
	reduce := func() {
		result := in(1, Bool)
		if scratch := t.fullReduction(x.numel, Bool); scratch > 0 {
			partial, semaphores := t.fresh(scratch, Bool, LabelReduction), t.fresh(4, Bool, LabelReduction)
			t.Drop(partial, semaphores)
		}
		t.Drop(result)
	}
	if apart {
		size := in(x.numel, x.dtype)
		infinite := in(x.numel, Bool)
		t.Drop(size)
		reduce()
		t.Drop(infinite)
		missing := in(x.numel, Bool)
		reduce()
		t.Drop(missing)
		return
	}
	size := in(x.numel, x.dtype)
	finite, there, both := in(x.numel, Bool), in(x.numel, Bool), in(x.numel, Bool)
	t.Drop(size, there, finite)
	reduce()
	t.Drop(both)
}

// ClampBetween is torch.clamp(x, min, max) with numbers for limits: it keeps x, and its backward forms masks.
func (t *Tape) ClampBetween(x T) T { return t.exec.clamp(t, x) }

func (eager) clamp(t *Tape, x T) T {
	y := T{storage: None, form: plain(x.dtype), numel: x.numel}
	if !t.lastSaves(1) {
		y = t.fresh(x.numel, x.dtype, LabelElementwise)
	}
	o := t.op(x).save(x).alloc(0, x.dtype.Size(), LabelElementwise)
	o.alloc(1, x.numel, LabelElementwise).alloc(2, x.numel, LabelElementwise) // not below, not above
	return o.alloc(4, x.bytes(), LabelInputGradient).free(2).free(1).free(0).send(4, 0).out(y, 0)
}
