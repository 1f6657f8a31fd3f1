package model

import "github.com/vramplan/vramplan/estimator/step"

// latentAttention is DeepseekV3Attention or DeepseekV2Attention of later releases: what is compressed goes into the
// cache, and a head's keys are written into one tensor, part by part.
// Source: transformers/models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3Attention.forward, expand_kv), 5.23.
func (own *latent) latentAttention(m *decoder, t *step.Tape, s *deepSeekLayer, w *around,
	x step.T) (step.T, *step.T) {
	heads := own.heads(m.a)
	n := t.Shape.N() * heads.Query
	qs := t.Heads(own.queries(m, t, s, x), heads.Query > 1)
	qPass, qTurned := t.Split2(qs, n*own.keyDim)
	compressed := s.kvDown.forward(t, x)
	narrow, kTurned := t.Split2(compressed, t.Shape.N()*own.keyValueRank)
	normed := m.normalize(s.kvNorm, t, narrow)
	t.Drop(narrow)
	qr, kr := own.rotateLater(t, qTurned, kTurned, heads, w)
	t.Drop(qTurned)
	t.Drop(kTurned)
	normed, kr = appendKV(t, &m.cache, normed, kr)
	q := t.JoinHeads(qPass, qr)
	k, v := own.expand(t, s, heads, normed, kr)
	y, probabilities := m.scores(t, w, heads, q, k, v)
	out := s.out.forward(t, y)
	for _, local := range [...]step.T{y, q, k, v, qs, qPass, qr, compressed, normed, kr} {
		t.Drop(local)
	}
	return out, probabilities
}

// expand is expand_kv: the keys and values of every head.
func (own *latent) expand(t *step.Tape, s *deepSeekLayer, heads step.Heads, normed, kr step.T) (k, v step.T) {
	up := t.Heads(s.kvUp.forward(t, normed), heads.Query > 1)
	pass, v := t.Split2(up, t.Shape.N()*heads.Query*own.keyDim)
	t.Drop(up)
	turned := t.Expand(kr, heads.Query)
	k = t.FillHeads(pass, turned)
	t.Drop(turned)
	t.Drop(pass)
	return k, v
}

// rotateLater is apply_rotary_pos_emb_interleave on even and odd elements as they lie, or what it was before.
func (own *latent) rotateLater(t *step.Tape, q, k step.T, heads step.Heads, w *around) (qr, kr step.T) {
	if own.second || !own.interleaved {
		return own.rotate(t, q, k, heads, w)
	}
	even := func(x step.T) step.T { return t.Slice(x, x.Numel()/2) }
	q1, q2 := even(q), even(q)
	k1, k2 := even(k), even(k)
	qr, kr = rotatePairs(t, q1, q2, w), rotatePairs(t, k1, k2, w)
	for _, local := range [...]step.T{q1, q2, k1, k2} {
		t.Drop(local)
	}
	return qr, kr
}

// rotatePairs is cat(x1·cos − x2·sin, x2·cos + x1·sin) with the first half of either table.
func rotatePairs(t *step.Tape, x1, x2 step.T, w *around) step.T {
	times := func(x, table step.T) step.T { return t.Mul(x, table.Half(), false, step.LabelRotary) }
	a, b := times(x1, w.cos), times(x2, w.sin)
	first := t.Subtract(a, b, step.LabelRotary)
	t.Drop(a)
	t.Drop(b)
	a, b = times(x2, w.cos), times(x1, w.sin)
	second := t.Add(a, b, step.LabelRotary)
	t.Drop(a)
	t.Drop(b)
	y := t.JoinHeads(first, second)
	t.Drop(first)
	t.Drop(second)
	return y
}

// declareGrouped lists the modules of DeepseekV3MoE whose experts are two tensors.
func (own *latent) declareGrouped(b *builder, s *deepSeekLayer) {
	e := own.experts
	s.grouped = &groupedBlock{a: b.a, e: e}
	s.grouped.declareExperts(b)
	own.declareRouter(b, s)
	if e.SharedFFN > 0 {
		s.mlp = buildGatedMLP(b, "mlp.shared_experts", e.SharedFFN, b.a.MLPBias)
	}
}

// groupedMixture is DeepseekV3MoE or DeepseekV2Moe whose experts run as grouped products.
// Source: transformers/models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3MoE.forward), 5.23.
func (own *latent) groupedMixture(m *decoder, t *step.Tape, s *deepSeekLayer, x step.T) step.T {
	logits, chosen, weights := own.routeInGraph(t, s, x)
	tokens := t.View(t.Hold(x))
	y := s.grouped.mix(t, tokens, weights, chosen)
	t.Drop(tokens)
	if own.experts.SharedFFN > 0 {
		shared := s.mlp.forward(t, m.a, x)
		sum := t.Add(y, shared, step.LabelResidual)
		t.Drop(shared)
		t.Drop(y)
		y = sum
	}
	for _, local := range [...]step.T{logits, chosen, weights} {
		t.Drop(local)
	}
	return y
}

// routeInGraph is DeepseekV3TopkRouter or DeepseekV2TopkRouter, which return their logits, too.
func (own *latent) routeInGraph(t *step.Tape, s *deepSeekLayer, x step.T) (logits, chosen, weights step.T) {
	e := own.experts
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	wide := t.Float(x, step.LabelRouting)
	logits = t.FloatMatrixLinear(wide, s.router, step.LabelRouting)
	t.Drop(wide)
	if own.second {
		chosen, weights = own.bestOfSoftmax(t, logits)
		return logits, chosen, weights
	}
	scores := t.Sigmoid(logits, step.LabelRouting)
	chosen, locals := own.chooseInGraph(t, scores, scores.Dtype().With(s.biasType))
	weights = t.Chosen(scores, chosen)
	if e.Normalise {
		sum := t.SumRowsKept(weights, e.TopK)
		denominator := t.AddScalar(sum, step.LabelRouting)
		t.Drop(sum)
		weights = t.DivideInPlace(weights, denominator)
		locals = append(locals, denominator)
	}
	scaled := t.MulScalar(weights, step.LabelRouting)
	for _, local := range append(locals, weights, scores) {
		t.Drop(local)
	}
	return logits, chosen, scaled
}

// bestOfSoftmax is how V2 chooses.
func (own *latent) bestOfSoftmax(t *step.Tape, logits step.T) (chosen, weights step.T) {
	e := own.experts
	scores := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	var locals []step.T
	if own.groups > 0 {
		allowed, more := own.bestGroups(t, scores)
		t.Drop(scores)
		scores, locals = allowed, more
	}
	top, chosen := t.TopK(scores, e.Count, e.TopK)
	weights = t.MulScalar(top, step.LabelRouting)
	for _, local := range append(locals, top, scores) {
		t.Drop(local)
	}
	return chosen, weights
}

// chooseInGraph are the best groups by their two best experts, then the best experts in them. Gradients are kept track
// of although none ever comes: what an operation saves lives as long as what it made, unless it is checkpointed. d is
// the type of the corrected scores.
func (own *latent) chooseInGraph(t *step.Tape, scores step.T, d step.DType) (chosen step.T, locals []step.T) {
	e, n := own.experts, t.Shape.N()
	in := func(numel int64, d step.DType) step.T { return t.RoutingTensor(numel, d) }
	saved := func(x step.T) {
		if t.Remembers(scores) {
			locals = append(locals, x)
		} else {
			t.Drop(x)
		}
	}
	corrected := in(n*e.Count, d)
	best, places := in(n*own.groups*2, d), in(n*own.groups*2, step.I64)
	saved(places)
	groups := in(n*own.groups, step.F32)
	t.Drop(best)
	values, group := in(n*own.chosenGroups, step.F32), in(n*own.chosenGroups, step.I64)
	t.Drop(values)
	mask := in(n*own.groups, step.F32)
	spread := own.spread(t, mask)
	keep := in(n*e.Count, step.Bool)
	drop := in(n*e.Count, step.Bool)
	t.Drop(keep)
	masked := in(n*e.Count, d)
	saved(drop)
	t.Drop(corrected)
	values, chosen = in(n*e.TopK, d), in(n*e.TopK, step.I64)
	t.Drop(values)
	return chosen, append(locals, groups, group, mask, spread, masked)
}
