package step

// What mixtures of experts do beside matrix products: choose experts, gather their tokens and add their
// outputs up. How many tokens an expert gets depends on the data; the replay takes them evenly divided.

// SoftmaxFloat is F.softmax(x, dtype=torch.float): float16 goes in as it is, bfloat16 is cast first.
// Source: aten/src/ATen/native/SoftMax.cpp (softmax, half_to_float), torch 2.9.
func (t *Tape) SoftmaxFloat(x T, scores, probabilities Label) T {
	if t.exec.softmaxReads(x.dtype) {
		y := t.fresh(x.numel, F32, probabilities)
		return t.op(x).keepSoftmax(x, y).alloc(0, x.bytes(), scores).scratch(y.bytes(), scores).send(0, 0).out(y, 0)
	}
	wide := t.Float(x, scores)
	y := t.Softmax(wide, probabilities)
	t.Drop(wide)
	return y
}

// TopK is torch.topk(x, k) of rows of d elements: the values, and indices, which backward needs to put
// the gradient in its places.
func (t *Tape) TopK(x T, d, k int64) (values, indices T) {
	n := x.numel / d * k
	values = t.fresh(n, x.dtype, LabelRouting)
	indices = t.fresh(n, I64, LabelRouting)
	return t.op(x).save(indices).alloc(0, x.bytes(), LabelRouting).send(0, 0).out(values, 0), indices
}

// SumRowsKept is x.sum(dim=-1, keepdim=True) over rows of d elements, in float32 under autocast; its gradient is the
// arriving one, expanded.
func (t *Tape) SumRowsKept(x T, d int64) T {
	to := x.dtype
	if t.autocast {
		to = F32
	}
	y := t.fresh(x.numel/d, to, LabelRouting)
	o := t.op(x)
	if to == x.dtype {
		return o.pass(0, 0).out(y, 0)
	}
	return o.alloc(0, x.bytes(), LabelRouting).send(0, 0).out(y, 0)
}

// DivideInPlace is x /= sum, where sum has one value for each row of x. A division in place keeps a copy of what it
// overwrites. It takes over x.
func (t *Tape) DivideInPlace(x, sum T) T {
	o := t.op(x, sum)
	if o.i == None {
		return o.out(x, 0)
	}
	before := t.fresh(x.numel, x.dtype, LabelRouting)
	wide := x.numel * promote(x.dtype, sum.dtype).Size()
	o.save(sum, before).divisorGradient(x.bytes(), wide).alloc(0, wide, LabelRouting).validate()
	quotient, divisor := 0, 5
	if x.bytes() != wide {
		quotient = 6
		o.alloc(quotient, x.bytes(), LabelRouting).free(0)
	}
	if sum.numel < x.numel {
		divisor = 1
		o.alloc(divisor, sum.bytes(), LabelRouting).free(5)
	}
	o.send(quotient, 0).send(divisor, 1)
	t.Drop(before)
	return o.out(x, 0)
}

// divisorGradient forms -grad · (x / sum / sum) in register 5, from a gradient of narrow bytes.
// Source: torch/csrc/autograd/FunctionsManual.cpp (div_tensor_other_grad), torch 2.9.
func (o op) divisorGradient(narrow, wide int64) op {
	return o.alloc(2, wide, LabelRouting).alloc(3, wide, LabelRouting).alloc(4, narrow, LabelRouting).
		alloc(5, wide, LabelRouting).free(4).free(3).free(2)
}

// SumOverTokens is the sum of a (rows, cols) integer matrix over its rows, in accumulators of 64 bits, twice those
// of float32.
func (t *Tape) SumOverTokens(rows, cols int64) T {
	y := t.fresh(cols, I64, LabelRouting)
	if scratch, semaphores := t.Recipe.Reduction(OverRows, rows, cols); scratch > 0 {
		a, b := t.fresh(2*scratch, Bool, LabelReduction), t.fresh(semaphores, Bool, LabelReduction)
		t.Drop(a, b)
	}
	return y
}

// Gather is x[indices[0], …]: n rows of d elements of x, chosen by tensors of n indices each, where slots of d elements
// in x have as many leading dimensions as there are index tensors. It keeps the indices. The gradient is scattered
// into zeros after the indices are sorted; it reaches x through a view.
// Source: aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel, computeLinearIndex), torch 2.9.
func (t *Tape) Gather(x T, d int64, indices ...T) T { return t.gatherRows(x, d, true, indices...) }

// GatherRows is Gather of x itself, whose gradient reaches x as it is.
func (t *Tape) GatherRows(x T, d int64, indices ...T) T { return t.gatherRows(x, d, false, indices...) }

func (t *Tape) gatherRows(x T, d int64, view bool, indices ...T) T {
	n := indices[0].numel
	o := t.op(x).save(indices...) // before it runs: where checkpointing waits for these alone, it does not
	y := t.fresh(n*d, x.dtype, LabelExpertInput)
	o.alloc(0, x.bytes(), LabelInputGradient).scatterScratch(n, x.numel/d, len(indices))
	if view {
		o.sendView(0, 0)
	} else {
		o.send(0, 0)
	}
	return o.out(y, 0)
}

// scatterScratch is what index_put_ with accumulate takes to add n values into rows slots that dims indices name.
func (o op) scatterScratch(n, rows int64, dims int) op {
	return o.scatterPlaces(n, dims).scatterSorted(n, rows)
}

// scatterPlaces makes one index of those of all dimensions.
func (o op) scatterPlaces(n int64, dims int) op {
	ids := n * I64.Size()
	for k := range dims {
		const remainder, product = 12, 13
		o.alloc(remainder, ids, LabelRouting).alloc(product-min(k, 1)*2, ids, LabelRouting).free(remainder)
		if k > 0 { // added to the first
			o.free(product - 2)
		}
	}
	return o
}

// scatterSorted sorts that index and adds.
func (o op) scatterSorted(n, rows int64) op {
	ids := n * I64.Size()
	o.alloc(1, ids, LabelRouting).alloc(2, ids, LabelRouting).alloc(3, ids, LabelRouting).
		scratch(o.t.indexSortScratch(n, rows), LabelRouting)
	return o.free(3).free(2).free(1).free(13)
}

// indexSortScratch is what CUB's radix sort of n keys below rows with values asks for: one byte where a block sorts
// them all, else by pass over eight bits a histogram, 1 KiB for every tile, and from the second pass
// on another buffer for keys and values. Read off PyTorch 2.9 with CUDA 12.8, exact there for n up to 10^6.
func (t *Tape) indexSortScratch(n, rows int64) int64 {
	const oneBlock, histogram, counters = 2304, 2048, 511
	if n <= oneBlock {
		return 1
	}
	passes := int64(1)
	for key := rows - 1; key > 255; key >>= 8 {
		passes++
	}
	scratch := counters + passes*histogram + 1024*CeilDiv(n, t.sortTile())
	if passes > 1 {
		scratch += 2 * roundUp(n*I64.Size(), 256)
	}
	return scratch
}

// IndexAdd is x.index_add_(0, indices, source) in place: rows of source are added to rows of x. It keeps the source and
// the indices; the source's gradient is gathered. It takes over x.
func (t *Tape) IndexAdd(x, indices, source T) T {
	o := t.op(x, source).save(source, indices)
	if o.needs(0) {
		o.pass(0, 0)
	}
	if o.needs(1) {
		o.alloc(1, source.bytes(), LabelInputGradient).send(1, 1)
	}
	return o.out(x, 0)
}

// Zeros is torch.zeros, which accumulates the experts' outputs.
func (t *Tape) Zeros(numel int64, d DType, l Label) T { return t.fresh(numel, d, l) }

// RoutingTensor is a tensor of indices or a mask that says which expert gets which token.
func (t *Tape) RoutingTensor(numel int64, d DType) T { return t.fresh(numel, d, LabelRouting) }

// Sigmoid is torch.sigmoid(x), which keeps its result.
func (t *Tape) Sigmoid(x T, l Label) T { return t.Tanh(x, l) }
