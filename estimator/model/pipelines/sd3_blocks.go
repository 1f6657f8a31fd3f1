package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/encoderdecoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// block is JointTransformerBlock.forward. in are the picture's and the text's hidden states and the condition; the
// results are the former two, without the text's of the last block. The picture's lie with the channels outermost, as
// the convolution of the patches left them.
func (m *sd3) block(t *step.Tape, l *sd3Block, in []step.T) []step.T {
	states, condition := [2]step.T{in[0], in[1]}, in[2]
	var parts [2][]step.T // shift, scale and gate of attention, then of the MLP
	var normed, together [2]step.T
	t.In(step.PartNorm)
	own := step.NoTensor // what the second attention reads
	if l.second != nil {
		normed[0], own, parts[0], together[0] = twiceNorm(t, &l.norm[0], states[0], condition)
	} else {
		normed[0], parts[0], together[0] = zeroNorm(t, &l.norm[0], states[0], condition, true, 6)
	}
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
		if k == 0 && l.second != nil {
			t.In(step.PartAttention)
			again := m.attendItself(t, l.second, own)
			t.In(step.PartNorm)
			update := t.Mul(again, parts[0][8], false, step.LabelResidual)
			t.Drop(again)
			sum := t.Add(middle, update, step.LabelResidual)
			t.Drop(middle)
			middle = sum
			held = append(held, update, own)
		}
		plain := t.NormRows(middle, m.own.width(), k == 0)
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
		q[i], k[i], v[i] = l.q[i].Forward(t, x[i]), l.k[i].Forward(t, x[i]), l.v[i].Forward(t, x[i])
		q[i], k[i] = m.headNorm(t, l.normQ[i], q[i]), m.headNorm(t, l.normK[i], k[i])
	}
	both := func(x [2]step.T) step.T {
		y := t.JoinHeadsOutermost(x[0], x[1])
		t.Drop(x[0])
		return y
	}
	joint := [3]step.T{both(q), both(k), both(v)}
	n := m.text + m.picture
	h := step.Heads{Query: m.own.heads, KV: m.own.heads, Dim: m.own.headDim, Queries: n, Keys: n, Bidirectional: true}
	attended := t.AttendAll(joint[0], joint[1], joint[2], h, m.batch)
	y := t.Cast(attended, joint[0].Dtype(), step.LabelCast)
	t.Drop(attended)
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
func (m *sd3) project(t *step.Tape, layer *arch.Linear, x step.T) step.T {
	if m.batch > 1 {
		dense := t.Contiguous(x)
		t.Drop(x)
		x = dense
	}
	y := layer.Forward(t, x)
	t.Drop(x)
	return y
}

// attendItself is JointAttnProcessor2_0 of the picture alone.
func (m *sd3) attendItself(t *step.Tape, l *sd3Second, x step.T) step.T {
	q, k, v := l.q.Forward(t, x), l.k.Forward(t, x), l.v.Forward(t, x)
	q, k = m.headNorm(t, l.normQ, q), m.headNorm(t, l.normK, k)
	h := step.Heads{Query: m.own.heads, KV: m.own.heads, Dim: m.own.headDim, Queries: m.picture, Keys: m.picture,
		Bidirectional: true}
	attended := t.AttendAll(q, k, v, h, m.batch)
	y := t.Cast(attended, q.Dtype(), step.LabelCast)
	t.Drop(attended)
	out := l.o.Forward(t, y)
	t.Drop(y, q, k, v)
	return out
}

// headNorm is diffusers' RMSNorm over the elements of each head, where the model has one; T5's is written the same. It
// takes over x. Source: diffusers/models/normalization.py (RMSNorm), 0.39.
func (m *sd3) headNorm(t *step.Tape, n arch.Norm, x step.T) step.T {
	if !m.own.norms {
		return x
	}
	y := encoderdecoders.T5Norm(t, n, x)
	t.Drop(x)
	return y
}

// twiceNorm is SD35AdaLayerNormZeroX: x normalised once, and scaled and moved for either attention.
func twiceNorm(t *step.Tape, layer *arch.Linear, x, condition step.T) (y, second step.T, parts []step.T,
	together step.T) {
	act := t.SiLU(condition)
	together = layer.Forward(t, act)
	t.Drop(act)
	parts = t.Chunks(together, 9)
	plain := t.NormRows(x, layer.W.Cols, true)
	y = modulate(t, t.Hold(plain), parts[1], parts[0])
	second = modulate(t, plain, parts[7], parts[6])
	return y, second, parts, together
}
