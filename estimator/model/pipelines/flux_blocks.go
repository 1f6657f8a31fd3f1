package pipelines

import "github.com/vramplan/vramplan/estimator/step"

// double is FluxTransformerBlock.forward. in are the picture's and the text's hidden states, the condition, and the
// cosines and sines of the places; the results are the former two.
func (m *flux) double(t *step.Tape, l *fluxDouble, in []step.T) []step.T {
	states, condition, cos, sin := [2]step.T{in[0], in[1]}, in[2], in[3], in[4]
	var parts [2][]step.T // shift, scale and gate of attention, then of the MLP
	var normed, together [2]step.T
	t.In(step.PartNorm)
	for k := range states {
		normed[k], parts[k], together[k] = zeroNorm(t, &l.norm[k], states[k], condition, false, 6)
	}
	t.In(step.PartAttention)
	attended := m.jointAttention(t, l, normed, cos, sin)
	var outs [2]step.T
	var held []step.T
	for k := range states {
		t.In(step.PartNorm)
		gated := t.Mul(attended[k], parts[k][2], false, step.LabelResidual)
		middle := t.Add(states[k], gated, step.LabelResidual)
		plain := t.NormRows(middle, m.own.width(), false)
		t.Drop(normed[k])
		again := modulate(t, plain, parts[k][4], parts[k][3])
		t.In(step.PartMLP)
		wide := l.up[k].Forward(t, again)
		act := t.GELU(wide)
		t.Drop(wide)
		down := l.down[k].Forward(t, act)
		t.Drop(act)
		t.In(step.PartNorm)
		update := t.Mul(down, parts[k][5], false, step.LabelResidual)
		outs[k] = t.Add(middle, update, step.LabelResidual)
		t.Drop(middle)
		held = append(held, again, together[k], attended[k], gated)
		if k == 0 { // its variables live to the end of the function
			t.Drop(down)
			held = append(held, update)
		} else {
			t.Drop(update)
			held = append(held, down)
		}
	}
	for k := range parts {
		held = append(held, parts[k]...)
	}
	for _, x := range held {
		t.Drop(x)
	}
	return outs[:]
}

// jointAttention is FluxAttnProcessor: queries, keys and values of the picture and of the text, each normed, as one
// sequence that begins with the text.
func (m *flux) jointAttention(t *step.Tape, l *fluxDouble, x [2]step.T, cos, sin step.T) [2]step.T {
	var q, k, v [2]step.T
	for i := range x {
		q[i], k[i], v[i] = l.q[i].Forward(t, x[i]), l.k[i].Forward(t, x[i]), l.v[i].Forward(t, x[i])
	}
	for i := range x {
		q[i], k[i] = m.headNorm(t, q[i], l.normQ[i]), m.headNorm(t, k[i], l.normK[i])
	}
	both := func(x [2]step.T) step.T {
		y := t.Concat(x[1], x[0], step.LabelContiguous)
		t.Drop(x[0])
		return y
	}
	joint := [3]step.T{both(q), both(k), both(v)}
	y := m.attend(t, &joint, cos, sin)
	text, picture := t.SplitTokens(y, m.textTokens, m.picTokens, m.batch)
	var outs [2]step.T
	outs[0] = l.o[0].Forward(t, picture)
	t.Drop(picture)
	outs[1] = l.o[1].Forward(t, text)
	t.Drop(text, y, joint[0], joint[1], joint[2], q[1], k[1], v[1])
	return outs
}

// headNorm is nn.RMSNorm over the elements of each head. It takes over x.
func (m *flux) headNorm(t *step.Tape, x step.T, w step.Weight) step.T {
	y := t.NativeRMSNorm(x, w)
	t.Drop(x)
	return y
}

// attend turns queries and keys by their places, in the place of what they were, and attends.
func (m *flux) attend(t *step.Tape, qkv *[3]step.T, cos, sin step.T) step.T {
	for i := range 2 {
		turned := t.RotaryPairs(qkv[i], cos, sin)
		t.Drop(qkv[i])
		qkv[i] = turned
	}
	n := m.textTokens + m.picTokens
	h := step.Heads{Query: m.own.heads, KV: m.own.heads, Dim: m.own.headDim, Queries: n, Keys: n, Bidirectional: true}
	return t.AttendAll(qkv[0], qkv[1], qkv[2], h, m.batch)
}

// single is FluxSingleTransformerBlock.forward, of the same tensors as double. Its results are parts of one tensor.
func (m *flux) single(t *step.Tape, l *fluxSingle, in []step.T) []step.T {
	condition, cos, sin := in[2], in[3], in[4]
	t.In(step.PartNorm)
	x := t.Concat(in[1], in[0], step.LabelContiguous)
	normed, parts, together := zeroNorm(t, &l.norm, x, condition, false, 3)
	t.In(step.PartMLP)
	wide := l.up.Forward(t, normed)
	act := t.GELU(wide)
	t.Drop(wide)
	t.In(step.PartAttention)
	q, k, v := l.q.Forward(t, normed), l.k.Forward(t, normed), l.v.Forward(t, normed)
	q, k = m.headNorm(t, q, l.normQ), m.headNorm(t, k, l.normK)
	qkv := [3]step.T{q, k, v}
	attended := m.attend(t, &qkv, cos, sin)
	for _, x := range qkv {
		t.Drop(x)
	}
	t.In(step.PartMLP)
	joined := t.JoinColumns(attended, act)
	down := l.down.Forward(t, joined)
	t.In(step.PartNorm)
	update := t.Mul(down, parts[2], false, step.LabelResidual)
	t.Drop(down, joined)
	y := t.Add(x, update, step.LabelResidual)
	t.Drop(append(parts, update, x, normed, together, act, attended)...)
	text, picture := t.SliceTokens(y, m.textTokens, m.picTokens)
	t.Drop(y)
	return []step.T{picture, text}
}
