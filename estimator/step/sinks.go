package step

import "github.com/vramplan/vramplan/estimator/release"

// What GPT-OSS does that no other model does.

// RotaryHalves turns x by tables for half a head: cat(first·cos - second·sin, second·cos + first·sin).
// Source: transformers/models/gpt_oss/modeling_gpt_oss.py (_apply_rotary_emb), 4.57.
func (t *Tape) RotaryHalves(x, cos, sin T) T {
	first, second := t.SplitHalves(x)
	a, b := t.mulBroadcast(first, cos), t.mulBroadcast(second, sin)
	left := t.Subtract(a, b, LabelRotary)
	t.Drop(a, b)
	a, b = t.mulBroadcast(second, cos), t.mulBroadcast(first, sin)
	right := t.Add(a, b, LabelRotary)
	t.Drop(a, b)
	y := t.JoinHeads(left, right)
	t.Drop(left, right, first, second)
	return y
}

// Subtract is a - b in the type of a, where b may have one value for each row of a; the gradient of b is formed in
// full.
func (t *Tape) Subtract(a, b T, l Label) T {
	y := t.fresh(a.numel, a.dtype, l)
	o := t.op(a, b)
	if o.needs(0) {
		o.pass(0, 0)
	}
	if !o.needs(1) {
		return o.out(y, 0)
	}
	o.alloc(1, a.bytes(), LabelInputGradient).validate()
	r := 1
	switch {
	case b.numel < a.numel:
		r = 2
		o.alloc(r, b.bytes(), LabelReduction).free(1)
	case b.dtype != a.dtype:
		r = 2
		o.alloc(r, b.bytes(), LabelInputGradient).free(1)
	}
	return o.send(r, 1).out(y, 0)
}

// narrowsSinks is GPT-OSS that brings its probabilities into the type of the values.
var narrowsSinks = release.Declare("narrows-sinks", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "GPT-OSS of transformers 5.10 brings the probabilities of attention into the type of the values " +
		"before it lets go of the scores",
	Source: "models/gpt_oss/modeling_gpt_oss.py (eager_attention_forward), 4.57.6 and 5.23.0",
	Shown:  "traces of GPT-OSS",
})

// SinkAttention is a written out with one more score for every head, a parameter, which is dropped after the softmax.
// Source: transformers/models/gpt_oss/modeling_gpt_oss.py (eager_attention_forward), 4.57.
func (t *Tape) SinkAttention(a EagerAttention, sinks Weight, q, k, v T) (y, probabilities T) {
	h, n := a.Heads, t.Shape.Tokens
	kc, qc := t.autocastTo(k, t.Recipe.Compute, LabelCast), t.autocastTo(q, t.Recipe.Compute, LabelCast)
	queries, keys := t.matrices(qc, h), t.matrices(kc, h)
	scores := t.BMM(queries, keys, t.Shape.Batch*h.Query*n*n, LabelAttentionScores)
	t.Drop(qc, kc, queries, keys)
	scaled := t.MulScalar(scores, LabelAttentionScores)
	t.Drop(scores)
	masked := t.Add(scaled, *a.Mask, LabelAttentionScores)
	t.Drop(scaled)
	combined := t.withSinks(masked, sinks)
	highest := t.highest(combined, n+1)
	shifted := t.Subtract(combined, highest, LabelAttentionScores)
	t.Drop(combined, highest)
	p := t.Softmax(shifted, LabelAttentionProbabilities)
	kept := t.SliceRows(p, masked.numel)
	dropped := t.Dropout(kept, a.Dropout)
	if t.Recipe.Software.Has(narrowsSinks) {
		narrow := t.Cast(dropped, v.dtype, LabelAttentionProbabilities)
		t.Drop(dropped)
		dropped = narrow
	}
	t.Drop(masked)
	vc := t.autocastTo(v, t.Recipe.Compute, LabelCast)
	pc := t.autocastTo(dropped, t.Recipe.Compute, LabelAttentionProbabilities)
	values := t.matrices(vc, h)
	y = t.heads(t.BMM(pc, values, v.numel, LabelAttentionOutput), h)
	t.Drop(vc, pc, values)
	if h.Query > 1 {
		product := y
		y = t.Contiguous(product)
		t.Drop(product)
	}
	t.Drop(shifted, p, kept)
	return y, dropped
}

// withSinks is torch.cat of scores and the sinks, one behind each row.
func (t *Tape) withSinks(scores T, sinks Weight) T {
	p := t.Parameter(sinks)
	rows := scores.numel / t.Shape.Tokens
	expanded := T{storage: None, form: plain(p.dtype), numel: rows}
	expanded = t.op(p).alloc(0, p.bytes(), LabelReduction).sendView(0, 0).out(expanded, 0)
	y := t.fresh(scores.numel+rows, promote(scores.dtype, p.dtype), LabelAttentionScores)
	o := t.op(scores, expanded)
	for k, x := range [...]T{scores, expanded} {
		switch {
		case !o.needs(k):
		case x.dtype == y.dtype:
			o.pass(0, k)
		default:
			o.alloc(k, x.bytes(), LabelInputGradient).send(k, k)
		}
	}
	return o.out(y, 0)
}

// highest is x.max(dim=-1, keepdim=True).values of rows of d elements. It keeps where they are.
func (t *Tape) highest(x T, d int64) T {
	y := t.fresh(x.numel/d, x.dtype, LabelAttentionScores)
	places := t.fresh(x.numel/d, I64, LabelAttentionScores)
	y = t.op(x).save(places).alloc(0, x.bytes(), LabelAttentionScores).send(0, 0).out(y, 0)
	t.Drop(places)
	return y
}

// Scatter is torch.zeros(numel).scatter_(1, places, x), which keeps the places.
func (t *Tape) Scatter(x, places T, numel int64) T {
	y := t.fresh(numel, x.dtype, LabelRouting)
	return t.op(x).save(places).alloc(0, x.bytes(), LabelRouting).send(0, 0).out(y, 0)
}

// ExpertProduct is x @ w[i], where w holds the matrices of count experts. Autocast casts the matrix at every use.
func (t *Tape) ExpertProduct(x T, w Weight, count int64) T {
	p := t.Parameter(w)
	one := t.SliceRows(p, p.numel/count)
	matrix := t.autocastTo(one, t.Recipe.Compute, LabelWeightCopy)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	y := t.BMM(input, matrix, input.numel/(w.Rows/count)*w.Cols, LabelLinear)
	t.Drop(matrix, input)
	return y
}

// Interleaved are x[..., ::2] and x[..., 1::2]: views, each of whose gradients is put into zeros as large as x.
func (t *Tape) Interleaved(x T) (even, odd T) {
	return t.SliceRows(x, x.numel/2), t.SliceRows(x, x.numel/2)
}

// ClampAbove is x.clamp(max=c), which keeps x: its backward forms one mask.
func (t *Tape) ClampAbove(x T) T {
	y := t.fresh(x.numel, x.dtype, LabelElementwise)
	return t.op(x).save(x).alloc(1, x.dtype.Size(), LabelElementwise).alloc(2, x.numel, LabelElementwise).
		alloc(0, x.bytes(), LabelInputGradient).free(2).free(1).send(0, 0).out(y, 0)
}
