package step

// FusedDeltaRule is chunk_gated_delta_rule of flash-linear-attention, which transformers calls where that package is
// installed: queries and keys are normed in kernels of their own, and backward makes again what forward made of them.
// It lets go of none of its arguments. The last state is no part of the graph, and is there where somebody asks for it.
// Sources: fla/ops/gated_delta_rule/chunk.py (chunk_gated_delta_rule_fwd, _bwd), fla/ops/common/chunk_delta_h.py,
// chunk_o.py, fla/modules/l2norm.py, flash-linear-attention 0.6.0; transformers/models/qwen3_5/modeling_qwen3_5.py,
// 5.23.
func (t *Tape) FusedDeltaRule(q, k, v, decay, beta T, h DeltaHeads, stateful bool) (y, state T) {
	t.Applied.Kernels.DeltaRule = true
	d := v.dtype
	rows := t.Shape.N() * h.Values // one for every token and head of values
	inner := rows * h.KeyDim
	states := t.Shape.Batch * h.Values * h.KeyDim * h.ValueDim
	chunked := states * DeltaChunks(t.Shape.Tokens)
	kept := func(numel int64, d DType) T { return t.fresh(numel, d, LabelAttentionScores) }

	dense := [3]T{}
	for i, x := range [...]T{q, k, v} {
		dense[i] = t.fresh(x.numel, d, LabelContiguous)
	}
	normed := [4]T{}
	for i, x := range [...]T{q, k} {
		normed[2*i], normed[2*i+1] = kept(x.numel, d), kept(x.numel/h.KeyDim, F32)
	}
	sums := kept(rows, F32)
	system := kept(rows*deltaChunk, d)
	oldKeys, newValues := kept(inner, d), kept(v.numel, d)
	each := kept(chunked, d)
	state = NoTensor
	if stateful {
		state = kept(states, F32)
	}
	corrected := kept(v.numel, d)
	y = t.fresh(v.numel, d, LabelAttentionOutput)
	t.Drop(oldKeys, newValues, each, corrected, dense[0], dense[1])

	o := t.op(q, k, v, decay, beta)
	o = o.save(normed[0], normed[1], normed[2], normed[3], dense[2], sums, beta, system)
	y = t.fusedDeltaBackward(o, q, k, v, beta, h, stateful).out(y, 0)
	t.Drop(normed[0], normed[1], normed[2], normed[3], dense[2], sums, system)
	return y, state
}

// fusedDeltaBackward is chunk_gated_delta_rule_bwd, and the backward of the norms of queries and keys.
func (t *Tape) fusedDeltaBackward(o op, q, k, v, beta T, h DeltaHeads, stateful bool) op {
	const (
		ofState = iota
		oldKeys
		newValues
		each
		corrected
		values
		eachGradient
		moreValues
		byHeadQuery
		byHeadKey
		oldKeysGradient
		query
		key
		sums
		keysAgain
		valueGradient
		sumsAgain
		betaGradient
		keyAgain
		decayGradient
	)
	size, rows := v.dtype.Size(), t.Shape.N()*h.Values
	inner := rows * h.KeyDim * size
	states := t.Shape.Batch * h.Values * h.KeyDim * h.ValueDim
	chunked := states * DeltaChunks(t.Shape.Tokens) * size
	// A head of keys serves several of values, whose gradients are summed, in float32 under autocast.
	shares := h.Keys < h.Values
	sumOf := func(x T) int64 {
		if t.autocast {
			return x.numel * F32.Size()
		}
		return x.bytes()
	}
	alloc := func(reg int, bytes int64) { o.alloc(reg, bytes, LabelInputGradient) }

	if stateful { // zeros, since nothing follows from it
		alloc(ofState, states*F32.Size())
	}
	alloc(oldKeys, inner)
	alloc(newValues, v.bytes())
	alloc(each, chunked)
	alloc(corrected, v.bytes())
	alloc(values, v.bytes())
	alloc(eachGradient, chunked)
	alloc(moreValues, v.bytes())
	o.free(values)
	queryFrom, keyFrom := query, key
	if shares {
		queryFrom, keyFrom = byHeadQuery, byHeadKey
	}
	alloc(queryFrom, inner)
	alloc(keyFrom, inner)
	const parts = values // of the gradient of the sums, for every part of a key
	alloc(parts, rows*F32.Size())
	alloc(oldKeysGradient, inner)
	if shares {
		alloc(query, sumOf(q))
		o.free(byHeadQuery)
		alloc(key, sumOf(k))
		o.free(byHeadKey)
	}
	alloc(sums, rows*F32.Size())
	o.free(parts)
	alloc(keysAgain, inner)
	alloc(valueGradient, v.bytes())
	alloc(sumsAgain, rows*F32.Size())
	alloc(betaGradient, beta.bytes())
	again := keysAgain
	if shares {
		again = keyAgain
		alloc(keyAgain, sumOf(k))
		o.free(keysAgain)
	}
	o.free(moreValues)
	alloc(decayGradient, rows*F32.Size())
	o.free(sums).free(oldKeys).free(newValues).free(each).free(corrected).free(eachGradient).free(oldKeysGradient).
		free(again).free(sumsAgain)
	const queryGradient, keyGradient = oldKeys, newValues
	alloc(queryGradient, q.bytes())
	o.free(query)
	alloc(keyGradient, k.bytes())
	o.free(key)
	if stateful {
		o.free(ofState)
	}
	return o.send(queryGradient, 0).send(keyGradient, 1).send(valueGradient, 2).send(decayGradient, 3).
		send(betaGradient, 4)
}
