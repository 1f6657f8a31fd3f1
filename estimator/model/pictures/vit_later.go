package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// reassigningLayer is ViTLayer of transformers 5, which has one variable for all that runs through it: what went into
// attention or into the MLP goes when its result comes, and the probabilities stay to the end.
// Source: transformers/models/vit/modeling_vit.py (ViTLayer, ViTAttention, ViTMLP), 5.23.
func (m *vit) reassigningLayer(t *step.Tape, l *vitLayer, x step.T) step.T {
	t.In(step.PartNorm)
	normed := l.before.Layer(t, x)
	t.In(step.PartAttention)
	heads := m.a.Geometry()
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, false)
	q := t.Heads(l.q.Forward(t, normed), copiesQV)
	k := t.Heads(l.k.Forward(t, normed), copiesK)
	v := t.Heads(l.v.Forward(t, normed), copiesQV)
	context, probabilities := m.context(t, heads, q, k, v)
	projected := l.out.Forward(t, context)
	t.Drop(context, q, k, v, normed)
	attended := m.dropped(t, projected)
	t.In(step.PartNorm)
	middle := t.Add(attended, x, step.LabelResidual)
	t.Drop(attended)
	h := l.after.Layer(t, middle)
	t.In(step.PartMLP)
	up := l.up.Forward(t, h)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	out := l.down.Forward(t, act)
	t.Drop(act, h)
	down := m.dropped(t, out)
	y := t.Add(down, middle, step.LabelResidual)
	t.Drop(down, middle, probabilities)
	return y
}
