package step

// What mixtures of experts do that sort their tokens (DeepSeek V2).

// Turn is x times a table of complex numbers, both taken as pairs of float32. It keeps the table, of which backward
// forms the conjugate.
// Source: torch/csrc/autograd/FunctionsManual.cpp (mul_tensor_backward), torch 2.9.
func (t *Tape) Turn(x, table T) T {
	y := t.fresh(x.numel, x.dtype, LabelRotary)
	y.layout = x.layout
	return t.op(x).save(table).alloc(1, table.bytes(), LabelRotary).alloc(0, x.bytes(), LabelRotary).free(1).
		send(0, 0).out(y, 0)
}

// ArgSort is x.argsort() of n whole numbers: the places; besides, the sorted values and what CUB asks for.
// Source: aten/src/ATen/native/cuda/Sort.cpp (should_use_small_sort), torch 2.9.
func (t *Tape) ArgSort(n int64) T {
	values, places := t.Sort(n)
	t.Drop(values)
	return places
}

// Sort is torch.sort of n whole numbers: sorted, and their former places.
func (t *Tape) Sort(n int64) (values, places T) {
	values, places = t.RoutingTensor(n, I64), t.RoutingTensor(n, I64)
	const small = 4096 // sorted in one block
	index := t.RoutingTensor(n, I64)
	if n > small {
		t.Drop(t.fresh(t.sortScratch(n), Bool, LabelRouting))
	}
	t.Drop(index)
	return values, places
}

// SliceRows is a slice of numel elements of x: a view, whose gradient is put into zeros as large as x.
func (t *Tape) SliceRows(x T, numel int64) T {
	y := t.Hold(x)
	y.numel = numel
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// Stack is torch.cat of matrices along their rows. Their gradients are views of the one that arrives.
func (t *Tape) Stack(xs []T) T {
	total := int64(0)
	for _, x := range xs {
		total += x.numel
	}
	y := t.fresh(total, xs[0].dtype, LabelExpertOutput)
	y = t.op(xs[0]).act(act{verb: actPassView}).out(y, 0)
	for _, x := range xs[1:] { // a node has few inputs: a chain of them hands the gradient on
		y = t.op(y, x).pass(0, 0).act(act{verb: actPassView, route: route{edge: 1}}).out(y, 0)
	}
	return y
}

// PutRows is y[places] = x for a new y as large as x; the gradient of x is gathered.
func (t *Tape) PutRows(x, places T) T {
	y := t.fresh(x.numel, x.dtype, LabelExpertOutput)
	return t.op(x).save(places).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// MulInPlace is x *= w, where w has one value for each row of x. A product in place keeps a copy of what it overwrites.
// view says that x is a view of another tensor, whose gradient is then formed in a copy.
// It takes over x. Source: torch/csrc/autograd/functions/tensor.cpp (CopySlices), torch 2.9.
func (t *Tape) MulInPlace(x, w T, view bool) T {
	o := t.op(x, w)
	if o.i == None {
		return o.out(x, 0)
	}
	before := t.fresh(x.numel, x.dtype, LabelExpertOutput)
	o.save(w, before)
	b, kept := x.bytes(), 0
	if view {
		kept = 3
		o.alloc(3, b, LabelInputGradient).alloc(4, b, LabelInputGradient)
	}
	o.alloc(1, b, LabelInputGradient).alloc(0, b, LabelInputGradient)
	if view {
		o.free(4).free(0)
	}
	o.validate().alloc(2, w.bytes(), LabelRouting).free(1).send(kept, 0).send(2, 1)
	t.Drop(before)
	x = o.out(x, 0)
	if view {
		x = t.relaid(x)
	}
	return x
}
