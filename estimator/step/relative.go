package step

import "github.com/vramplan/vramplan/estimator/release"

// AddMask is bias + mask with numel elements, where bias has no batch dimension and mask no heads.
func (t *Tape) AddMask(bias, mask T, numel int64) T {
	return t.exec.combined(t, bias, mask, combination{numel, promote(bias.dtype, mask.dtype), LabelAttentionMask,
		addMask})
}

func addMask(t *Tape, bias, _, y T) T {
	o := t.op(bias)
	last := -1 // the register that holds the gradient, none while it is the incoming one
	if bias.numel < y.numel {
		o.sumRows(0, y.dtype, y.numel/bias.numel, bias.numel, LabelReduction)
		last = 0
	}
	if bias.dtype != y.dtype {
		o.alloc(1, bias.bytes(), LabelInputGradient)
		if last == 0 {
			o.free(0)
		}
		last = 1
	}
	if last < 0 {
		o.pass(0, 0)
	} else {
		o.send(last, 0)
	}
	return o.out(y, 0)
}

// PositionBias is T5Attention.compute_bias: a bias for every head and every pair of a query and a key. Both directions
// share the buckets where every token sees all others.
// Source: transformers/models/t5/modeling_t5.py, 4.57 and 5.23.
func (t *Tape) PositionBias(queries, keys int64, bothDirections bool, w Weight) T {
	return t.exec.positionBias(t, queries, keys, bothDirections, w)
}

// InterfacesT5 is T5 whose attention goes through the library's interfaces, sdpa too, and adds bias and mask apart.
var InterfacesT5 = release.Declare("interfaces-t5", release.Change{
	Library: "transformers", After: "5.14", From: "5.17",
	What: "T5's attention goes through the library's interfaces, and eager attention adds bias and mask one after " +
		"the other",
	Source: "models/t5/modeling_t5.py (T5Attention), 4.57.6, 5.14.0, 5.15.0, 5.19.0, 5.20.0 and 5.23.0",
	Shown:  "traces of T5 and mT5 with eager attention",
})

func (eager) positionBias(t *Tape, queries, keys int64, bothDirections bool, w Weight) T {
	context := NoTensor
	// arange(queries) + what the cache has seen; before, the stack's cache_position
	if t.Recipe.Software.Has(InterfacesT5) {
		first := t.fresh(queries, I64, LabelPositions)
		context = t.fresh(queries, I64, LabelPositions)
		t.Drop(first)
	}
	memory := t.fresh(keys, I64, LabelPositions)
	relative := t.fresh(queries*keys, I64, LabelPositions)
	buckets := t.buckets(queries*keys, bothDirections)
	values := t.biasOf(buckets, w)
	t.Drop(context, memory, relative, buckets)
	return values
}

// buckets is _relative_position_bucket of n distances.
func (t *Tape) buckets(n int64, bothDirections bool) T {
	in := func(d DType) T { return t.fresh(n, d, LabelPositions) }
	var buckets, distance T
	if bothDirections {
		positive := in(Bool)
		whole := in(I64)
		t.Drop(positive)
		scaled := in(I64)
		t.Drop(whole)
		buckets = in(I64)
		t.Drop(scaled)
		distance = in(I64)
	} else {
		zeros := in(I64)
		least := in(I64)
		t.Drop(zeros)
		distance = in(I64)
		t.Drop(least)
	}
	small := in(Bool)
	large := t.largeBuckets(n)
	chosen := in(I64)
	if !bothDirections {
		buckets = in(I64)
	}
	t.Drop(chosen, distance, small, large)
	return buckets
}

// largeBuckets is the logarithmic half of the buckets: every step of the formula makes a tensor of n elements.
func (t *Tape) largeBuckets(n int64) T {
	x := t.fresh(n, F32, LabelPositions)
	for range 4 { // / max_exact, log, / log(max_distance / max_exact), * buckets
		y := t.fresh(n, F32, LabelPositions)
		t.Drop(x)
		x = y
	}
	whole := t.fresh(n, I64, LabelPositions)
	t.Drop(x)
	shifted := t.fresh(n, I64, LabelPositions)
	t.Drop(whole)
	limit := t.fresh(n, I64, LabelPositions)
	y := t.fresh(n, I64, LabelPositions)
	t.Drop(limit, shifted)
	return y
}

// biasOf looks up the buckets: an embedding that is permuted to put the heads first, so that its gradient has to be
// laid out again, and, in transformers 4, then cut to all of its queries.
func (t *Tape) biasOf(buckets T, w Weight) T {
	p := t.Parameter(w)
	y := t.fresh(buckets.numel*w.Cols, p.dtype, LabelPositions)
	const contiguous = 11 // a register that the embedding's gradient leaves alone
	o := t.op(p).save(buckets)
	if buckets.numel > 1 {
		o.alloc(contiguous, y.bytes(), LabelContiguous)
	}
	o.embeddingGradient(buckets.numel, w.Rows, w.Cols, p.dtype)
	if buckets.numel > 1 {
		o.free(contiguous)
	}
	y = o.send(0, 0).out(y, 0)
	if t.Recipe.Software.Has(InterfacesT5) {
		return y
	}
	return t.relaid(y)
}

// Scratch is a tensor that no gradient reaches.
func (t *Tape) Scratch(numel int64, d DType, l Label) T { return t.fresh(numel, d, l) }
