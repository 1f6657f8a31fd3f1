package step

// DeltaHeads are the heads of a gated delta net: keys and queries have as many, each of which serves several values.
type DeltaHeads struct{ Keys, Values, KeyDim, ValueDim int64 }

// deltaChunk is how many tokens the rule takes at a time.
const deltaChunk = 64

// DeltaChunks is in how many chunks the rule takes so many tokens.
func DeltaChunks(tokens int64) int64 { return CeilDiv(tokens, deltaChunk) }

// GatedDeltaRule is torch_chunk_gated_delta_rule, which runs where the package fla is not there, on queries and keys
// that are normed in it. It lets go of none of its arguments. Beside the output it returns the last state, and what the
// operations that made that keep: nothing follows from it, so that its part of the graph goes with who holds the state.
// Source: transformers/models/qwen3_5/modeling_qwen3_5.py (torch_chunk_gated_delta_rule, l2norm), 5.23.
func (t *Tape) GatedDeltaRule(q, k, v, decay, beta T, h DeltaHeads) (y, state T, kept []T) {
	d := v.dtype
	q, k = t.repeatKeys(q, h), t.repeatKeys(k, h)
	wide := [5]T{}
	for i, x := range [...]T{q, k, v, beta, decay} {
		wide[i] = t.Float(x, LabelCast)
	}
	t.Drop(q, k)
	q, k, v, beta, decay = wide[0], wide[1], wide[2], wide[3], wide[4]
	q = t.l2Norm(q, h.KeyDim)
	k = t.l2Norm(k, h.KeyDim)
	scaled := t.MulScalar(q, LabelAttentionScores)
	t.Drop(q)

	rows := t.Shape.Batch * h.Values
	tokens := roundUp(t.Shape.Tokens, deltaChunk)
	chunks := tokens / deltaChunk
	q, k, v = t.padTokens(rows*tokens, scaled, k, v)
	beta, decay = t.padRows(rows*tokens, beta, decay)
	weighed := func(x T) T {
		by := t.View(t.Hold(beta))
		y := t.Mul(x, by, true, LabelAttentionScores)
		t.Drop(by)
		return y
	}
	values := weighed(v)
	weighedKeys := weighed(k)
	q, k = t.View(q), t.View(k)
	relay := t.View
	if chunks > 1 { // gradients come with the elements of a token outermost
		relay = t.relaid
	}
	weighedKeys = relay(weighedKeys)
	values = relay(values)
	decay = t.View(decay)
	ones := t.Input(deltaChunk*deltaChunk, Bool)
	mask := t.Input(deltaChunk*deltaChunk, Bool)
	t.Drop(ones)
	// What is filled up lies densely; a clone lies as what it is of, which a sum is not taken of.
	laid := NoTensor
	if tokens == t.Shape.Tokens && h.Values > 1 {
		laid = t.fresh(decay.numel, F32, LabelContiguous)
	}
	sums := t.cumulativeSum(decay)
	t.Drop(laid)

	square := rows * tokens * deltaChunk
	pairs := t.pairwise(sums, square)
	masked := t.MaskedFill(pairs, mask)
	t.Drop(pairs)
	pairs = t.exponential(masked)
	t.Drop(masked)
	// Where nothing is cast and nothing filled up, queries and keys lie as they were transposed, of which no matrices
	// are made without a copy.
	lie := operand((*Tape).View)
	if d == F32 && t.Recipe.Compute == F32 && tokens == t.Shape.Tokens && h.Values > 1 && chunks > 1 {
		lie = func(t *Tape, x T) T {
			y := t.Contiguous(x)
			t.Drop(x)
			return t.View(y)
		}
	}
	within := func(left T) T {
		product := t.batchedProduct(left, k, square, lie, lie)
		y := t.Mul(product, pairs, false, LabelAttentionScores)
		t.Drop(product)
		return y
	}
	system := within(weighedKeys)
	inner := within(q)
	decayed := t.decayed(weighedKeys, t.exponential(sums))
	newValues := t.solveTriangular(system, values, rows*chunks)
	oldKeys := t.solveTriangular(system, decayed, rows*chunks)

	state = t.fresh(rows*h.KeyDim*h.ValueDim, F32, LabelAttentionOutput)
	out := t.fresh(newValues.numel, F32, LabelAttentionOutput)
	queries := t.decayed(q, t.exponential(sums))
	t.Drop(q)
	last := t.Slice(sums, rows*chunks)
	left := t.subtractEach(last, sums)
	t.Drop(last)
	remaining := t.exponential(left)
	t.Drop(left)
	keys := t.decayed(k, remaining)
	t.Drop(k)
	last = t.Slice(sums, rows*chunks)
	whole := t.exponential(last)
	t.Drop(last)
	whole = t.View(whole)

	var locals [2]T
	hold := func(i int, x T) {
		t.Drop(locals[i])
		locals[i] = x
	}
	locals[0], locals[1] = NoTensor, NoTensor
	read := rows * deltaChunk * h.ValueDim
	for i := range chunks {
		of := func(x T) T { return t.Slice(x, x.numel/chunks) }
		given, by := of(newValues), of(oldKeys)
		predicted := t.batchedProduct(by, state, read, lie, (*Tape).View)
		t.Drop(by)
		corrected := t.correct(given, predicted)
		t.Drop(given, predicted)
		hold(0, corrected)
		asked := of(queries)
		between := t.batchedProduct(asked, state, read, lie, (*Tape).View)
		t.Drop(asked)
		hold(1, between)
		part := of(inner)
		product := t.batchedProduct(part, corrected, read, (*Tape).View, (*Tape).View)
		t.Drop(part)
		sum := t.Add(between, product, LabelAttentionOutput)
		t.Drop(product)
		out = t.fillPart(out, sum)
		t.Drop(sum)
		state, kept = t.nextState(state, whole, keys, corrected, chunks, i == chunks-1, lie)
	}
	if !t.Recipe.UseCache { // which would hold it
		t.Drop(kept...)
		t.Drop(state)
		state, kept = NoTensor, nil
	}
	if chunks > 1 { // whose tokens lie apart
		dense := t.Contiguous(out)
		t.Drop(out)
		out = dense
	}
	if tokens != t.Shape.Tokens {
		cut := t.Slice(out, rows*t.Shape.Tokens*h.ValueDim)
		t.Drop(out)
		out = cut
	}
	y = t.Cast(out, d, LabelAttentionOutput)
	t.Drop(out, queries, keys, v, beta, decay, values, weighedKeys, mask, sums, pairs, system, inner, decayed,
		newValues, oldKeys, whole, locals[0], locals[1])
	return y, state, kept
}

// nextState is what a chunk makes of the state: state * chunk_decay[:, :, i] + key[:, :, i] @ v_new. It takes over
// state. The last one is no part of the graph, and returns what it would have kept.
func (t *Tape) nextState(state, decay, keys, values T, chunks int64, last bool, lie operand) (next T, kept []T) {
	keeps, follows := t.Remembers(keys), state.RequiresGrad()
	if last {
		state, decay, keys, values = state.Detached(), decay.Detached(), keys.Detached(), values.Detached()
	}
	by := t.Slice(decay, decay.numel/chunks)
	faded := t.Mul(state, by, true, LabelAttentionOutput)
	written := t.Slice(keys, keys.numel/chunks)
	right, left := t.autocastTo(values, t.Recipe.Compute, LabelCast), t.autocastTo(written, t.Recipe.Compute, LabelCast)
	left = lie(t, left)
	product := t.multiply(left, right, state.numel)
	if last && keeps {
		kept = []T{t.Hold(left), t.Hold(right), t.Hold(state)}
		if follows {
			kept = append(kept, t.Hold(by))
		}
	}
	t.Drop(by, left, right, written)
	next = t.Add(faded, product, LabelAttentionOutput)
	t.Drop(faded, product, state)
	return next, kept
}

// correct is new_values[:, :, i] - what the state predicts.
func (t *Tape) correct(given, predicted T) T {
	y := t.fresh(given.numel, given.dtype, LabelAttentionScores)
	o := t.op(given, predicted).pass(0, 0)
	if !o.needs(1) {
		return o.out(y, 0)
	}
	o.alloc(1, y.bytes(), LabelInputGradient).validate()
	r := 1
	if predicted.dtype != y.dtype {
		r = 2
		o.alloc(r, predicted.bytes(), LabelInputGradient).free(1)
	}
	return o.send(r, 1).out(y, 0)
}

// repeatKeys is x.repeat_interleave over the values that a key serves, or a view whose gradient comes by heads.
func (t *Tape) repeatKeys(x T, h DeltaHeads) T {
	if h.Keys == h.Values {
		return t.Hold(x)
	}
	y := t.fresh(x.numel/h.Keys*h.Values, x.dtype, LabelExpandedKV)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).act(act{verb: actSendMarked}).out(y, 0)
}

// l2Norm is x over the length of its rows of d elements. It takes over x.
func (t *Tape) l2Norm(x T, d int64) T {
	square := t.Mul(x, x, false, LabelElementwise)
	sum := t.fresh(x.numel/d, F32, LabelNormStatistics)
	sum = t.op(square).act(act{verb: actPassView}).out(sum, 0)
	t.Drop(square)
	eps := t.AddScalar(sum, LabelNormStatistics)
	t.Drop(sum)
	inverse := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	y := t.Mul(x, inverse, true, LabelNormScaled)
	t.Drop(inverse, x)
	return y
}

// padTokens brings queries, keys and values to whole chunks, n rows of all heads. It takes them over.
func (t *Tape) padTokens(n int64, q, k, v T) (T, T, T) {
	rows := n / roundUp(t.Shape.Tokens, deltaChunk) * t.Shape.Tokens
	old := [3]T{q, k, v}
	var padded [3]T
	for i, x := range old {
		padded[i] = t.Padded(x, x.numel/rows*n)
	}
	t.Drop(old[:]...)
	return padded[0], padded[1], padded[2]
}

// padRows is padTokens of one number a row.
func (t *Tape) padRows(n int64, a, b T) (T, T) {
	x, y := t.Padded(a, n), t.Padded(b, n)
	t.Drop(a, b)
	return x, y
}

// exponential is torch.exp, which keeps its result.
func (t *Tape) exponential(x T) T { return t.Tanh(x, LabelAttentionScores) }

// cumulativeSum is x.cumsum(dim=3), whose gradient is turned around, summed and turned around again.
func (t *Tape) cumulativeSum(x T) T {
	y := t.fresh(x.numel, x.dtype, LabelAttentionScores)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).alloc(1, x.bytes(), LabelInputGradient).
		alloc(2, x.bytes(), LabelInputGradient).free(1).free(0).send(2, 0).out(y, 0)
}

// pairwise is x.unsqueeze(4) - x.unsqueeze(3), of n elements.
func (t *Tape) pairwise(x T, n int64) T {
	a, b := t.View(t.Hold(x)), t.View(t.Hold(x))
	y := t.fresh(n, x.dtype, LabelAttentionScores)
	y = t.op(a, b).alloc(0, y.bytes(), LabelInputGradient).validate().alloc(1, x.bytes(), LabelReduction).
		alloc(2, x.bytes(), LabelReduction).free(0).send(1, 0).send(2, 1).out(y, 0)
	t.Drop(a, b)
	return y
}

// decayed is x * factor.unsqueeze(-1). It takes over factor.
func (t *Tape) decayed(x, factor T) T {
	by := t.View(factor)
	y := t.Mul(x, by, true, LabelAttentionScores)
	t.Drop(by)
	return y
}

// subtractEach is a - b where a has one number for each row of b.
func (t *Tape) subtractEach(a, b T) T {
	y := t.fresh(b.numel, b.dtype, LabelAttentionScores)
	o := t.op(a, b)
	o.alloc(1, y.bytes(), LabelInputGradient).validate().alloc(0, a.bytes(), LabelReduction)
	return o.send(0, 0).send(1, 1).out(y, 0)
}

// batchedProduct is a @ b in the type that products are computed in: the second argument is cast first. left and right
// make the matrices.
func (t *Tape) batchedProduct(a, b T, numel int64, left, right operand) T {
	wide, high := t.autocastTo(b, t.Recipe.Compute, LabelCast), t.autocastTo(a, t.Recipe.Compute, LabelCast)
	x, z := left(t, high), right(t, wide)
	y := t.BMM(x, z, numel, LabelAttentionScores)
	t.Drop(x, z)
	return y
}

// operand makes matrices of a tensor, which it takes over: views, or a copy where none are possible.
type operand func(t *Tape, x T) T

// multiply is the product itself, of matrices that views make of its arguments.
func (t *Tape) multiply(a, b T, numel int64) T {
	x, z := t.View(t.Hold(a)), t.View(t.Hold(b))
	y := t.BMM(x, z, numel, LabelAttentionScores)
	t.Drop(x, z)
	return y
}

// solveTriangular is torch.linalg.solve_triangular(a, b) of so many small matrices with ones in their diagonals: beside
// its result it takes pointers to the matrices unless they are few, and keeps a and the result.
// Sources: tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp
// (linalg_solve_triangular_backward), aten/src/ATen/native/cuda/linalg/BatchLinearAlgebra.cpp
// (triangular_solve_kernel), torch 2.9.
func (t *Tape) solveTriangular(a, b T, matrices int64) T {
	const few, pointer = 8, 8
	pointers := int64(0)
	if matrices > few {
		pointers = matrices * pointer
	}
	y := t.fresh(b.numel, F32, LabelAttentionScores)
	x, z := NoTensor, NoTensor
	if pointers > 0 {
		x, z = t.fresh(pointers, Bool, LabelWorkspace), t.fresh(pointers, Bool, LabelWorkspace)
	}
	t.workspace()
	t.Drop(x, z)
	o := t.op(a, b).save(a, y)
	const gradient, product, negated, triangle, first, second = 0, 1, 2, 3, 4, 5
	o.alloc(gradient, y.bytes(), LabelInputGradient)
	if pointers > 0 {
		o.alloc(first, pointers, LabelWorkspace).alloc(second, pointers, LabelWorkspace)
	}
	o.workspace()
	if pointers > 0 {
		o.free(second).free(first)
	}
	o.alloc(product, a.bytes(), LabelInputGradient).workspace().alloc(negated, a.bytes(), LabelInputGradient).
		free(product).alloc(triangle, a.bytes(), LabelInputGradient).free(negated)
	return o.send(triangle, 0).send(gradient, 1).out(y, 0)
}
