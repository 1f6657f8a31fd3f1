package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// buildBERTLayer is BertLayer: attention and MLP, each followed by dropout, the residual and a norm.
type bertLayer struct {
	q, k, v, out            arch.Linear
	attentionNorm, lastNorm arch.Norm
	up, down                arch.Linear
	// projectsFirst says that eager attention has all projections in front of their views by heads.
	projectsFirst bool
}

func buildBERTLayer(b *arch.Builder) bertLayer {
	d, f := b.A.Hidden, b.A.FFN
	var l bertLayer
	l.q, l.k, l.v = b.Linear("attention.self.query", d, d, true), b.Linear("attention.self.key", d, d, true),
		b.Linear("attention.self.value", d, d, true)
	l.out, l.attentionNorm = b.Linear("attention.output.dense", d, d, true),
		b.Norm("attention.output.LayerNorm", d, true)
	l.up, l.down = b.Linear("intermediate.dense", d, f, true), b.Linear("output.dense", f, d, true)
	l.lastNorm = b.Norm("output.LayerNorm", d, true)
	return l
}

func (m *bert) layer(t *step.Tape, i int, x step.T) step.T {
	if encoder(m.a).NormFirst {
		return m.normFirst(t, &m.layers[i], x)
	}
	l := &m.layers[i]
	t.In(step.PartAttention)
	context := l.attention(t, m.a, m.mask, x)
	attended := m.output(t, l.out, l.attentionNorm, context, x)
	t.Drop(context)

	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, attended)
	y := m.output(t, l.down, l.lastNorm, act, attended)
	t.Drop(act, attended)
	dropProbabilities(t)
	return y
}

// dropProbabilities lets go of the probabilities of eager attention where the layer does not return them: transformers
// 5 ends their variable with the layer's function.
func dropProbabilities(t *step.Tape) {
	if t.Recipe.Software.Has(step.ReassignsScores) {
		dropSecond(t)
	}
}

// dropSecond lets go of the probabilities, of attention that made any.
func dropSecond(t *step.Tape) {
	if probabilities, eager := t.Second(); eager {
		t.Drop(probabilities)
	}
}

// normFirst is the same layer with the norms before attention and MLP.
func (m *bert) normFirst(t *step.Tape, l *bertLayer, x step.T) step.T {
	t.In(step.PartNorm)
	h := l.attentionNorm.Layer(t, x)
	t.In(step.PartAttention)
	context := l.attention(t, m.a, m.mask, h)
	t.Drop(h)
	middle := m.residual(t, l.out, context, x)
	t.Drop(context)
	t.In(step.PartNorm)
	h = l.lastNorm.Layer(t, middle)
	t.In(step.PartMLP)
	act := l.intermediate(t, m.a, h)
	t.Drop(h)
	y := m.residual(t, l.down, act, middle)
	t.Drop(act, middle)
	dropProbabilities(t)
	return y
}

// residual is dropout(dense(h)) + x.
func (m *bert) residual(t *step.Tape, dense arch.Linear, h, x step.T) step.T {
	projected := dense.Forward(t, h)
	dropped := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(projected)
	y := t.Add(dropped, x, step.LabelResidual)
	t.Drop(dropped)
	return y
}

// output is BertSelfOutput and BertOutput: LayerNorm(dropout(dense(h)) + x).
func (m *bert) output(t *step.Tape, dense arch.Linear, n arch.Norm, h, x step.T) step.T {
	projected := dense.Forward(t, h)
	dropped := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(projected)
	part := t.In(step.PartNorm)
	sum := t.Add(dropped, x, step.LabelResidual)
	y := n.Layer(t, sum)
	t.In(part)
	t.Drop(sum, dropped)
	return y
}

// attention is BertSdpaSelfAttention or BertSelfAttention; the second returns the probabilities with its output.
func (l *bertLayer) attention(t *step.Tape, a *arch.Architecture, mask *step.T, x step.T) step.T {
	y, locals := l.attend(t, a, mask, x)
	t.Drop(locals[:]...)
	return y
}

// attend is attention, which leaves queries, keys, values and scores to its caller.
func (l *bertLayer) attend(t *step.Tape, a *arch.Architecture, mask *step.T, x step.T) (y step.T, locals [4]step.T) {
	heads := a.Geometry()
	eager := t.Recipe.Attention == step.AttentionEager
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, mask != nil)
	var q, k, v step.T
	if eager && l.projectsFirst {
		q, k, v = l.q.Forward(t, x), l.k.Keys(t, x, copiesK), l.v.Forward(t, x)
		q, v = t.Heads(q, copiesQV), t.Heads(v, copiesQV)
	} else {
		q = t.Heads(l.q.Forward(t, x), copiesQV)
		k = l.k.Keys(t, x, copiesK)
		v = t.Heads(l.v.Forward(t, x), copiesQV)
	}
	scores := step.NoTensor
	if eager {
		var probabilities step.T
		y, probabilities, scores = t.EncoderAttention(q, k, v, heads, mask, a.AttentionDropout)
		t.AlsoReturns(probabilities)
	} else {
		y = t.TokensFirst(t.SDPA(q, k, v, heads, mask, a.AttentionDropout), heads, mask != nil)
	}
	return y, [4]step.T{scores, q, k, v}
}

// intermediate is BertIntermediate.
func (l *bertLayer) intermediate(t *step.Tape, a *arch.Architecture, x step.T) step.T {
	up := l.up.Forward(t, x)
	act := arch.Activation(t, a.Activation, up)
	t.Drop(up)
	return act
}
