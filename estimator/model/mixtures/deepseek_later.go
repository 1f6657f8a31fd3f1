package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// latentAttention is DeepseekV3Attention or DeepseekV2Attention of later releases: what is compressed goes into the
// cache, and a head's keys are written into one tensor, part by part.
// Source: transformers/models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3Attention.forward, expand_kv), 5.23.
func (own *Latent) latentAttention(m *blocks.Decoder, t *step.Tape, s *deepSeekLayer, w *blocks.Around,
	x step.T) (step.T, *step.T) {
	heads := own.Heads(m.A)
	n := t.Shape.N() * heads.Query
	qs := t.Heads(own.queries(m, t, s, x), heads.Query > 1)
	qPass, qTurned := t.Split2(qs, n*own.KeyDim)
	compressed := s.kvDown.Forward(t, x)
	narrow, kTurned := t.Split2(compressed, t.Shape.N()*own.KeyValueRank)
	normed := m.Normalize(s.kvNorm, t, narrow)
	t.Drop(narrow)
	qr, kr := own.rotateLater(t, qTurned, kTurned, heads, w)
	t.Drop(qTurned, kTurned)
	normed, kr = blocks.AppendKV(t, &m.Cache, normed, kr)
	q := t.JoinHeads(qPass, qr)
	k, v := own.expand(t, s, heads, normed, kr)
	y, probabilities := m.Scores(t, w, heads, q, k, v)
	out := s.out.Forward(t, y)
	t.Drop(y, q, k, v, qs, qPass, qr, compressed, normed, kr)
	return out, probabilities
}

// expand is expand_kv: the keys and values of every head.
func (own *Latent) expand(t *step.Tape, s *deepSeekLayer, heads step.Heads, normed, kr step.T) (k, v step.T) {
	up := t.Heads(s.kvUp.Forward(t, normed), heads.Query > 1)
	pass, v := t.Split2(up, t.Shape.N()*heads.Query*own.KeyDim)
	t.Drop(up)
	turned := t.Expand(kr, heads.Query)
	k = t.FillHeads(pass, turned)
	t.Drop(turned, pass)
	return k, v
}

// rotateLater is apply_rotary_pos_emb_interleave on even and odd elements as they lie, or what it was before.
func (own *Latent) rotateLater(t *step.Tape, q, k step.T, heads step.Heads, w *blocks.Around) (qr, kr step.T) {
	if own.Second || !own.interleaved {
		return own.rotate(t, q, k, heads, w)
	}
	even := func(x step.T) step.T { return t.Slice(x, x.Numel()/2) }
	q1, q2 := even(q), even(q)
	k1, k2 := even(k), even(k)
	qr, kr = rotatePairs(t, q1, q2, w), rotatePairs(t, k1, k2, w)
	t.Drop(q1, q2, k1, k2)
	return qr, kr
}

// rotatePairs is cat(x1·cos − x2·sin, x2·cos + x1·sin) with the first half of either table.
func rotatePairs(t *step.Tape, x1, x2 step.T, w *blocks.Around) step.T {
	times := func(x, table step.T) step.T { return t.Mul(x, table.Half(), false, step.LabelRotary) }
	a, b := times(x1, w.Cos), times(x2, w.Sin)
	first := t.Subtract(a, b, step.LabelRotary)
	t.Drop(a, b)
	a, b = times(x2, w.Cos), times(x1, w.Sin)
	second := t.Add(a, b, step.LabelRotary)
	t.Drop(a, b)
	y := t.JoinHeads(first, second)
	t.Drop(first, second)
	return y
}
