package model

import "github.com/vramplan/vramplan/estimator/step"

// block is JointTransformerBlock.forward. in are the picture's and the text's hidden states and the condition; the
// results are the former two, without the text's of the last block. The picture's lie with the channels outermost, as
// the convolution of the patches left them.
func (m *sd3) block(t *step.Tape, l *sd3Block, in []step.T) []step.T {
	states, condition := [2]step.T{in[0], in[1]}, in[2]
	var parts [2][]step.T // shift, scale and gate of attention, then of the MLP
	var normed, together [2]step.T
	t.In(step.PartNorm)
	normed[0], parts[0], together[0] = zeroNorm(t, &l.norm[0], states[0], condition, true, 6)
	if l.last {
		normed[1], together[1] = continuousNorm(t, &l.norm[1], states[1], condition, false), step.NoTensor
	} else {
		normed[1], parts[1], together[1] = zeroNorm(t, &l.norm[1], states[1], condition, false, 6)
	}
	t.In(step.PartAttention)
	attended := m.attention(t, l, normed)
	var outs, held []step.T
	for k := range states {
		if k == 1 && l.last {
			held = append(held, normed[1], attended[1])
			break
		}
		t.In(step.PartNorm)
		gated := t.Mul(attended[k], parts[k][2], false, step.LabelResidual)
		t.Drop(attended[k])
		middle := t.Add(states[k], gated, step.LabelResidual)
		plain := t.NormRows(middle, m.own.width(), k == 0)
		t.Drop(normed[k])
		again := modulate(t, plain, parts[k][4], parts[k][3])
		t.In(step.PartMLP)
		wide := l.up[k].forward(t, again)
		act := t.GELU(wide)
		t.Drop(wide)
		down := l.down[k].forward(t, act)
		t.Drop(act)
		t.In(step.PartNorm)
		update := t.Mul(down, parts[k][5], false, step.LabelResidual)
		if k == 0 {
			t.Drop(down)
		}
		outs = append(outs, t.Add(middle, update, step.LabelResidual))
		t.Drop(middle)
		if k == 0 { // its variables live to the end of the function
			held = append(held, again, gated, update)
		} else {
			t.Drop(update)
			held = append(held, again, gated, down)
		}
	}
	for k := range parts {
		held = append(append(held, parts[k]...), together[k])
	}
	for _, x := range held {
		t.Drop(x)
	}
	return outs
}

// attention is JointAttnProcessor2_0: queries, keys and values of the picture and of the text as one sequence, which
// begins with the picture and has the heads outermost.
func (m *sd3) attention(t *step.Tape, l *sd3Block, x [2]step.T) [2]step.T {
	var q, k, v [2]step.T
	for i := range x {
		q[i], k[i], v[i] = l.q[i].forward(t, x[i]), l.k[i].forward(t, x[i]), l.v[i].forward(t, x[i])
	}
	both := func(x [2]step.T) step.T {
		y := t.JoinHeadsOutermost(x[0], x[1])
		t.Drop(x[0])
		return y
	}
	joint := [3]step.T{both(q), both(k), both(v)}
	n := m.text + m.picture
	h := step.Heads{Query: m.own.heads, KV: m.own.heads, Dim: m.own.headDim, Queries: n, Keys: n, Bidirectional: true}
	y := t.AttendAll(joint[0], joint[1], joint[2], h, m.batch)
	picture, text := t.SliceTokens(y, m.picture, m.text)
	t.Drop(y)
	outs := [2]step.T{step.NoTensor, text}
	if !l.last {
		outs[1] = m.project(t, &l.o[1], text)
	}
	outs[0] = m.project(t, &l.o[0], picture)
	t.Drop(append(joint[:], q[1], k[1], v[1])...)
	return outs
}

// project is a linear layer on a part of every picture's tokens, which it takes over. Parts of several pictures do not
// lie side by side, and are laid out for the product.
func (m *sd3) project(t *step.Tape, layer *linear, x step.T) step.T {
	if m.batch > 1 {
		dense := t.Contiguous(x)
		t.Drop(x)
		x = dense
	}
	y := layer.forward(t, x)
	t.Drop(x)
	return y
}
