package step

import "github.com/vramplan/vramplan/estimator/release"

// groupsEfficient lets memory-efficient attention take grouped heads.
var groupsEfficient = release.Declare("groups-memory-efficient-attention", release.Change{
	Library: "torch", After: "2.12", From: "2.14",
	What: "memory-efficient attention of torch 2.14 takes grouped heads, so that fp32 does not " +
		"write the scores out, nor does a single head of keys and values with a mask",
	Source: "aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, 2.9.1 and 2.15.0",
	Shown:  "traces of Llama and Qwen3 in fp32",
})

// writtenOut says whether torch falls back on the written-out formula: for grouped heads, for heads that the
// memory-efficient kernel cannot load in whole vectors, and for bfloat16 before Ampere. With a mask, transformers has
// repeated grouped keys and values before. Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp
// (use_mem_efficient_attention, minimum_gemm_alignment), torch 2.9.
func (t *Tape) writtenOut(h Heads, mask bool) bool {
	if t.usesFlash(h, mask) || t.exec.alignsMask(mask) {
		return false
	}
	alignment, old := int64(1), t.Recipe.ComputeCapability < ampere
	switch d := t.Recipe.Compute; {
	case d == BF16 && old:
		return true
	case d.Half() && t.Recipe.ComputeCapability >= volta:
		alignment = 8
	case !old:
		alignment = 4
	}
	grouped := h.KV < h.Query && !mask && !t.Recipe.Software.Has(groupsEfficient) && !t.RepeatsWide(h)
	return grouped || h.Dim%alignment != 0 || h.value()%alignment != 0
}

// mathAttention is the formula written out inside scaled_dot_product_attention, in float32, with
// the keys and values of grouped heads repeated.
// Source: aten/src/ATen/native/transformers/attention.cpp (_scaled_dot_product_attention_math), torch 2.9.
func (t *Tape) mathAttention(half, halfK, halfV T, h Heads, mask *T, dropout float64) T {
	bias := T{storage: None}
	if mask != nil {
		given := *mask
		if given.dtype != Bool {
			given = t.Cast(given, half.dtype, LabelAttentionMask)
			defer t.Drop(given)
		}
		bias = t.additive(given, half.dtype)
	}
	q, k, v := t.Float(half, LabelCast), t.Float(halfK, LabelCast), t.Float(halfV, LabelCast)
	queries, keys := t.lengths(h)
	qs := t.MulScalar(q, LabelAttentionScores)
	qs.layout = q.layout
	if mask == nil && !h.Bidirectional {
		bias = t.causalBias(queries, q.dtype)
	}
	kr, vr := t.interleaveKV(k, h), t.interleaveKV(v, h)
	ks := t.MulScalar(kr, LabelAttentionScores)
	ks.layout = kr.layout
	qc, kc := t.matrices(qs, h), t.matrices(ks, h)
	scores := t.BMM(qc, kc, t.Shape.Batch*h.Query*queries*keys, LabelAttentionScores)
	t.Drop(qc, kc, ks)
	// elsewhere it is added in place, but not where something looks at every operation
	if mask != nil && bias.RequiresGrad() {
		scores = t.AddInPlace(scores, bias)
	} else if bias.numel > 0 && t.choosing() != nil {
		masked := t.Add(scores, bias, LabelAttentionScores)
		t.Drop(scores)
		scores = masked
	}
	p := t.safeSoftmax(scores, keys, q.dtype)
	t.Drop(scores)
	dropped := t.Dropout(p, dropout)
	t.Drop(p)
	returned := t.Cast(dropped, half.dtype, LabelAttentionProbabilities) // the second result, which nobody takes
	vc := t.matrices(vr, h)
	product := t.heads(t.BMM(dropped, vc, q.numel/h.Dim*h.value(), LabelAttentionOutput), h)
	t.Drop(vc)
	y := t.Cast(product, half.dtype, LabelAttentionOutput)
	t.Drop(product, returned, dropped, kr, vr, qs, bias, q, k, v)
	return y
}

// Softmax is F.softmax over the last dimension: it keeps its result, and its backward
// forms the product with the gradient before it writes its own.
func (t *Tape) Softmax(x T, l Label) T { return t.exec.softmax(t, x, l) }

func (eager) softmax(t *Tape, x T, l Label) T {
	y := t.fresh(x.numel, x.dtype, l)
	return t.op(x).keepSoftmax(x, y).alloc(0, x.bytes(), LabelAttentionScores).scratch(x.bytes(), LabelAttentionScores).
		send(0, 0).out(y, 0)
}

// BMM is a batched product of a and b with numel elements in its result. It keeps both.
func (t *Tape) BMM(a, b T, numel int64, l Label) T {
	a, b = t.realize(a), t.realize(b)
	y := t.fresh(numel, a.dtype, l)
	t.workspace()
	o := t.op(a, b)
	o.keepOperands(0, 1, a, b)
	if o.needs(1) {
		o.alloc(1, b.bytes(), LabelInputGradient).workspace()
	}
	if o.needs(0) {
		o.alloc(0, a.bytes(), LabelInputGradient).workspace().send(0, 0)
	}
	if o.needs(1) {
		o.send(1, 1)
	}
	return o.out(y, 0)
}
