package step

// LinearUncached is x @ w.T of a parameter: autocast caches copies of leaves, and a transposed view is none.
// Source: transformers/models/falcon/modeling_falcon.py (FalconLinear), 4.57.
func (t *Tape) LinearUncached(x T, w Weight, l Label) T {
	x = t.productInput(x)
	defer t.Drop(x)
	weight := t.Parameter(w)
	if t.autocast && weight.dtype != t.Recipe.Compute {
		half := T{storage: t.Alloc(weight.numel*t.Recipe.Compute.Size(), PrecisionCopies, LabelWeightCopy),
			edge: noEdge, form: plain(t.Recipe.Compute), numel: weight.numel}
		weight = t.op(weight).alloc(0, weight.bytes(), LabelWeightGradient).sendView(0, 0).out(half, 0)
	}
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	return t.product(input, weight, T{}, false, true, w.Cols, w.Rows, l)
}

// Scale is x *= c. It takes over x.
func (t *Tape) Scale(x T) T { return t.exec.scaleInPlace(t, x) }

func (eager) scaleInPlace(t *Tape, x T) T {
	return t.op(x).alloc(0, x.bytes(), LabelAttentionScores).send(0, 0).out(x, 0)
}

// Pick is x[..., [i], :], numel elements of it: the list becomes a tensor, which is kept, and the gradient is put into
// zeros as large as x by a kernel that sorts its one index. copies says that it comes in another layout and is copied
// first. Source: aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel), torch 2.9.
func (t *Tape) Pick(x T, numel int64, copies bool) T { return t.exec.pick(t, x, numel, copies) }

func (eager) pick(t *Tape, x T, numel int64, copies bool) T {
	index := t.fresh(1, I64, LabelInput)
	y := t.fresh(numel, x.dtype, LabelContiguous)
	o := t.op(x).save(index).alloc(0, x.bytes(), LabelInputGradient)
	o.alloc(1, 8, LabelReduction).alloc(2, 8, LabelReduction).free(1)
	if copies {
		o.alloc(7, y.bytes(), LabelContiguous)
	}
	for r := 3; r <= 5; r++ {
		o.alloc(r, 8, LabelReduction)
	}
	o.alloc(6, 1, LabelReduction)
	for r := 6; r >= 2; r-- {
		o.free(r)
	}
	if copies {
		o.free(7)
	}
	t.Drop(index)
	return o.send(0, 0).out(y, 0)
}

// Broadcast is torch.broadcast_to(x, ...) with numel elements: a view, over whose copies the gradient is summed.
func (t *Tape) Broadcast(x T, numel int64) T {
	y := t.Hold(x)
	y.numel = numel
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// BroadcastAttention is scaled_dot_product_attention of many query heads and a single one of keys and values where no
// kernel takes them: the formula, in float32, repeats the keys and values as its products do. Without a mask it is
// causal.
// Source: aten/src/ATen/native/transformers/attention.cpp (_scaled_dot_product_attention_math), torch 2.9.
func (t *Tape) BroadcastAttention(half, halfK, halfV T, h Heads, mask *T) T {
	var bias T
	if mask != nil {
		bias = t.additive(*mask, half.dtype)
	}
	q, k, v := t.Float(half, LabelCast), t.Float(halfK, LabelCast), t.Float(halfV, LabelCast)
	n := t.Shape.Tokens
	qs := t.MulScalar(q, LabelAttentionScores)
	qs.layout = q.layout
	if mask == nil {
		bias = t.causalBias(n, q.dtype)
	}
	ks := t.MulScalar(k, LabelAttentionScores)
	qc, kr := t.batched(qs), t.RepeatKV(ks, h)
	kc := t.batched(kr)
	scores := t.BMM(qc, kc, t.Shape.Batch*h.Query*n*n, LabelAttentionScores)
	t.Drop(qc, kr, kc, ks)
	p := t.safeSoftmax(scores, t.Shape.Tokens, q.dtype)
	t.Drop(scores)
	returned := t.Cast(p, half.dtype, LabelAttentionProbabilities) // the second result, which nobody takes
	vr := t.RepeatKV(v, h)
	vc := t.batched(vr)
	product := t.unbatched(t.BMM(p, vc, q.numel, LabelAttentionOutput))
	t.Drop(vc)
	y := t.Cast(product, half.dtype, LabelAttentionOutput)
	t.Drop(product, returned, p, vr, qs, bias, q, k, v)
	return y
}

// causalBias is the triangle that the written-out formula adds to the scores of n tokens, in d.
func (t *Tape) causalBias(n int64, d DType) T {
	ones := t.fresh(n*n, Bool, LabelAttentionMask)
	tril := t.fresh(n*n, Bool, LabelAttentionMask)
	t.Drop(ones)
	zero, inf := t.fresh(1, d, LabelAttentionMask), t.fresh(1, d, LabelAttentionMask)
	bias := t.fresh(n*n, d, LabelAttentionMask)
	t.Drop(inf, zero, tril)
	return bias
}

// safeSoftmax is a softmax over keys scores a row that gives rows without anything to attend to zeros.
// Source: aten/src/ATen/native/transformers/attention.cpp (_safe_softmax), torch 2.9.
func (t *Tape) safeSoftmax(scores T, keys int64, d DType) T {
	p := t.Softmax(scores, LabelAttentionProbabilities)
	t.exec.findUnreachable(t, p, keys, d)
	return p
}

func (eager) findUnreachable(t *Tape, p T, keys int64, d DType) {
	unreachable := t.fresh(p.numel, Bool, LabelAttentionScratch)
	rows := t.fresh(p.numel/keys, Bool, LabelAttentionScratch)
	fill := t.fresh(1, d, LabelAttentionScratch)
	t.Drop(fill, rows, unreachable)
}

// FalconAttention is Falcon's attention written out.
type FalconAttention struct {
	Heads Heads
	Mask  T
	// Alibi, where there is one, is added to the scores in float32, and dropout follows the softmax.
	Alibi   *T
	Dropout float64
	// Softmax is the type that the softmax runs in.
	Softmax DType
}

// FalconEager runs a on q, k and v. It returns the output, tokens first, the probabilities, and what variables hold
// besides. Source: transformers/models/falcon/modeling_falcon.py (FalconAttention), 4.57.
func (t *Tape) FalconEager(a FalconAttention, q, k, v T) (y, probabilities T, held []T) {
	n := t.Shape.Tokens
	kc := t.autocastTo(k, t.Recipe.Compute, LabelCast)
	qc := t.autocastTo(q, t.Recipe.Compute, LabelCast)
	kr := t.RepeatKV(kc, a.Heads)
	queries, keys := t.batched(qc), t.batched(kr)
	scores := t.BMM(queries, keys, t.Shape.Batch*a.Heads.Query*n*n, LabelAttentionScores)
	t.Drop(kc, qc, kr, queries, keys)
	if a.Alibi != nil {
		wide := t.Float(scores, LabelAttentionScores)
		logits := t.Scale(t.Add(wide, *a.Alibi, LabelAttentionScores))
		held = []T{scores, wide}
		scores = logits
	} else {
		scores = t.Scale(scores)
	}
	masked := t.Add(scores, a.Mask, LabelAttentionScores)
	cast := t.Cast(masked, a.Softmax, LabelAttentionScores)
	p := t.Softmax(cast, LabelAttentionProbabilities)
	t.Drop(cast, masked)
	if a.Alibi != nil {
		held = append(held, scores)
		dropped := t.Dropout(p, a.Dropout)
		t.Drop(p)
		p = dropped
	} else {
		t.Drop(scores)
	}
	vc := t.autocastTo(v, t.Recipe.Compute, LabelCast)
	pc := t.View(t.autocastTo(p, t.Recipe.Compute, LabelCast)) // as a batch
	vr := t.RepeatKV(vc, a.Heads)
	values := t.batched(vr)
	product := t.unbatched(t.BMM(pc, values, q.numel, LabelAttentionOutput))
	t.Drop(vc, pc, vr, values)
	y = t.Contiguous(product)
	t.Drop(product)
	return y, p, held
}

// BroadcastsHeads says whether a kernel takes a single head of keys and values for all queries: later,
// memory-efficient attention does, and flash attention, which takes no mask.
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, torch 2.15.
func (t *Tape) BroadcastsHeads(h Heads, mask bool) bool {
	return t.Recipe.Software.Has(groupsEfficient) && !t.writtenOut(h, mask)
}

// MaskedSDPA is scaled_dot_product_attention with a float mask for every head, under autocast.
func (t *Tape) MaskedSDPA(q, k, v, mask T, h Heads, dropout float64) T {
	mc := t.autocastTo(mask, t.Recipe.Compute, LabelAttentionMask)
	qc, kc, vc := t.AutocastQKV(q, k, v)
	y := t.SDPA(qc, kc, vc, h, &mc, dropout)
	t.Drop(mc, qc, kc, vc)
	return y
}

// HeadsContiguous is x.contiguous() of heads. It takes over x.
func (t *Tape) HeadsContiguous(x T) T {
	if x.layout == headsFirst {
		return x
	}
	y := t.Contiguous(x)
	y.layout = headsFirst
	t.Drop(x)
	return y
}
