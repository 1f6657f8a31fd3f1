package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// interfaced is T5Attention.forward of transformers 5 on x with keys and values from source. It returns its output, the
// position bias and, where attention is written out, its probabilities, which the block's variable keeps.
// Source: transformers/models/t5/modeling_t5.py (T5Attention, eager_attention_forward), 5.23.
func (s *t5Stack) interfaced(t *step.Tape, at *t5Attention, x, source step.T, to attended) (y, bias, kept step.T) {
	h := s.M.A.Geometry()
	h.Queries, h.Keys, h.Bidirectional = s.tokens(t), to.keys, true
	h.Drops = s.M.A.AttentionDropout > 0
	written := t.Recipe.Attention == step.AttentionEager
	q := t.Heads(at.q.Forward(t, x), written && h.Queries > 1 && h.Query > 1)
	k := at.k.Keys(t, source, written && t.CopiesKeys(to.keys))
	v := t.Heads(at.v.Forward(t, source), written && to.keys > 1 && h.Query > 1)
	cached := s.decodes && t.Recipe.UseCache
	if cached {
		k, v = blocks.AppendKV(t, &s.cache, k, v)
	}
	if to.bias != nil {
		bias = t.Hold(*to.bias)
	} else {
		bias = s.ownBias(t, at, h, q.Dtype())
	}
	var context step.T
	kept = step.NoTensor
	if written {
		context, kept = s.written(t, q, k, v, bias, to.mask, h, cached)
	} else {
		mask := s.biasMask(t, bias, to, h)
		context = t.TokensFirst(t.SDPA(q, k, v, h, &mask, s.M.A.AttentionDropout), h, true)
		t.Drop(mask)
	}
	y = at.o.Forward(t, context)
	t.Drop(context, q, k, v)
	return y, bias, kept
}

// OwnBias is what a stack's first block adds to the scores: looked up by distance, or zeros where the attention has no
// table.
func (s *t5Stack) ownBias(t *step.Tape, at *t5Attention, h step.Heads, d step.DType) step.T {
	if at.positions.Exists() {
		bias := t.PositionBias(h.Queries, h.Keys, !s.decodes, at.positions)
		if h.Query > 1 {
			bias = t.Permuted(bias)
		}
		return bias
	}
	zeros := t.Scratch(h.Query*h.Queries*h.Keys, d, step.LabelAttentionMask)
	if t.Recipe.CheckpointEvery > 0 { // position_bias.requires_grad = True
		zeros = t.Leaf(zeros)
	}
	return zeros
}

// biasMask is create_position_bias_mask: the bias where a token may be seen, and the least number elsewhere.
// Source: transformers/integrations/sdpa_attention.py, 5.23.
func (s *t5Stack) biasMask(t *step.Tape, bias step.T, to attended, h step.Heads) step.T {
	square := h.Queries * h.Keys
	mask, causal := t.Hold(bias), step.NoTensor
	switch {
	case to.mask != step.NoTensor:
		t.Drop(mask)
		mask = t.WhereMask(to.mask, bias, t.Shape.Batch*h.Query*square)
	case s.decodes && !to.cross && h.Queries > 1:
		rows, columns := t.Input(h.Queries, step.I64), t.Input(h.Queries, step.I64)
		causal = t.Input(square, step.Bool)
		t.Drop(rows, columns, mask)
		mask = t.WhereMask(causal, bias, bias.Numel())
	}
	if !to.cross && h.Query > 1 {
		dense := t.Contiguous(mask) // the table's columns are heads, which the mask has first
		t.Drop(mask)
		mask = dense
	}
	t.Drop(causal)
	return mask
}

// written is eager_attention_forward: it also returns the probabilities.
func (s *t5Stack) written(t *step.Tape, q, k, v, bias, mask step.T, h step.Heads, cached bool) (y, weights step.T) {
	keys := h.Keys
	if cached { // the cache has put the heads outermost
		keys = 1
	}
	qc, kc := t.Folded(q, h.Queries, h.Query), t.Folded(k, keys, h.Query)
	products := t.BMM(qc, kc, t.Shape.Batch*h.Query*h.Queries*h.Keys, step.LabelAttentionScores)
	t.Drop(qc, kc)
	scaled := t.MulScalar(products, step.LabelAttentionScores)
	t.Drop(products)
	scores := t.Add(scaled, bias, step.LabelAttentionScores)
	t.Drop(scaled)
	if mask != step.NoTensor {
		masked := t.Add(scores, mask, step.LabelAttentionScores)
		t.Drop(scores)
		scores = masked
	}
	p := t.AutocastSoftmax(scores)
	t.Drop(scores)
	weights = t.Dropout(p, s.M.A.AttentionDropout)
	t.Drop(p)
	wh := t.Cast(weights, v.Dtype(), step.LabelAttentionProbabilities)
	vc := t.Folded(v, keys, h.Query)
	product := t.Unfolded(t.BMM(wh, vc, q.Numel(), step.LabelAttentionOutput), h.Queries, h.Query)
	t.Drop(vc, wh)
	return t.ByTokens(product, h.Queries, h.Query), weights
}
