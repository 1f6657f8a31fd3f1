package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// pictureTransformer is Transformer2DModel over the places of a picture.
// Source: diffusers/models/transformers/transformer_2d.py, 0.39.
type pictureTransformer struct {
	norm                arch.Norm
	groups              int64
	linear              bool
	in, out             arch.Convolution
	linearIn, linearOut arch.Linear
	blocks              []transformerBlock
}

// transformerBlock is BasicTransformerBlock with a gated feed-forward layer.
// Source: diffusers/models/attention.py, 0.39.
type transformerBlock struct {
	before, between, last arch.Norm
	self, cross           crossAttention
	up, down              arch.Linear
}

// crossAttention is Attention with AttnProcessor2_0.
type crossAttention struct {
	q, k, v, out arch.Linear
	heads        int64
}

// pictureTransformer declares one with so many blocks.
func (o unetOptions) pictureTransformer(b *arch.Builder, name string, width, heads, blocks int64) pictureTransformer {
	name += ".attentions"
	m := pictureTransformer{groups: o.groups, linear: o.linear, blocks: make([]transformerBlock, blocks)}
	m.norm = b.Norm(name+".norm", width, true)
	if o.linear {
		m.linearIn = b.Linear(name+".proj_in", width, width, true)
	} else {
		m.in = b.Convolution(name+".proj_in", width, width, 1, 1, true)
	}
	for i := range m.blocks {
		m.blocks[i] = o.transformerBlock(b, name+".transformer_blocks", width, heads)
	}
	if o.linear {
		m.linearOut = b.Linear(name+".proj_out", width, width, true)
	} else {
		m.out = b.Convolution(name+".proj_out", width, width, 1, 1, true)
	}
	return m
}

func (o unetOptions) transformerBlock(b *arch.Builder, name string, width, heads int64) transformerBlock {
	const growth = 4 // mult of FeedForward, whose gate is as wide again
	attention := func(name string, context int64) crossAttention {
		return crossAttention{heads: heads, q: b.Linear(name+".to_q", width, width, false),
			k: b.Linear(name+".to_k", context, width, false), v: b.Linear(name+".to_v", context, width, false),
			out: b.Linear(name+".to_out.0", width, width, true)}
	}
	var l transformerBlock
	l.before = b.Norm(name+".norm1", width, true)
	l.self = attention(name+".attn1", width)
	l.between = b.Norm(name+".norm2", width, true)
	l.cross = attention(name+".attn2", o.context)
	l.last = b.Norm(name+".norm3", width, true)
	l.up = b.Linear(name+".ff.net.0.proj", width, 2*growth*width, true)
	l.down = b.Linear(name+".ff.net.2", growth*width, width, true)
	return l
}

// forward borrows x. scattered says that the gradient of the result is a part of a wider one.
func (m *pictureTransformer) forward(r *unetRun, x step.T, at extent, scattered bool) step.T {
	t := r.t
	t.In(step.PartNorm)
	normed := t.GroupNorm(x, m.norm.W, m.norm.B, step.Grouped{Groups: m.groups,
		GradientScattered: m.linear && t.Shape.Batch > 1})
	t.In(step.PartAttention)
	var tokens step.T
	if m.linear {
		if m.linearIn.Adapter != nil {
			tokens = m.linearIn.Forward(t, normed)
		} else {
			tokens = t.PlacesLinear(normed, m.linearIn.W, m.linearIn.B, step.LabelLinear)
		}
		t.Drop(normed)
	} else {
		tokens = t.View(forward(m.in, t, normed, at.places()))
	}
	for i := range m.blocks {
		tokens = r.layer(tokens, r.text, func(t *step.Tape, x step.T) step.T {
			return m.blocks[i].forward(r, x, at, i == 0 && !m.linear, !m.linear && t.Shape.Batch > 1)
		})
	}
	t.In(step.PartAttention)
	var out step.T
	if m.linear {
		projection := m.linearOut
		projection.Relays = t.Shape.Batch > 1
		projected := projection.Forward(t, tokens)
		out = t.Contiguous(projected)
		t.Drop(projected)
	} else {
		dense := t.Contiguous(t.View(tokens))
		out = t.PictureConvolution(dense, m.out.W, m.out.B, at.places(), scattered)
		t.Drop(dense)
	}
	y := t.AddPictures(out, x, step.LabelResidual)
	t.Drop(out)
	t.Drop(tokens) // the caller's variable
	return y
}

// forward borrows x. transposed says that its elements do not lie side by side, relays that the gradient of the
// residual stream arrives so, as the convolution behind the last block leaves it.
func (m *transformerBlock) forward(r *unetRun, x step.T, at extent, transposed, relays bool) step.T {
	t := r.t
	t.In(step.PartNorm)
	var h step.T
	if transposed {
		h = t.TransposedLayerNorm(x, m.before.W, m.before.B)
	} else {
		h = m.before.Layer(t, x)
	}
	attended := m.self.forward(t, h, h, at.places(), at.places(), relays)
	t.In(step.PartNorm)
	x1 := t.Add(attended, x, step.LabelResidual)
	normed := m.between.Layer(t, x1)
	t.Drop(h)
	crossed := m.cross.forward(t, normed, r.text, at.places(), r.textTokens, relays)
	t.Drop(attended)
	t.In(step.PartNorm)
	x2 := t.Add(crossed, x1, step.LabelResidual)
	t.Drop(x1)
	h = m.last.Layer(t, x2)
	t.Drop(normed)
	t.In(step.PartMLP)
	wide := m.up.Forward(t, h)
	value, gate := t.Chunk2(wide)
	t.Drop(wide)
	act := t.GELU(gate)
	gated := t.Mul(value, act, false, step.LabelActivation)
	t.Drop(act, value, gate)
	down := m.down
	down.Relays = relays
	out := down.Forward(t, gated)
	t.Drop(gated)
	y := t.Add(out, x2, step.LabelResidual)
	t.Drop(x2, h, crossed, out)
	return y
}

// forward borrows x and the source of keys and values.
func (m *crossAttention) forward(t *step.Tape, x, source step.T, queries, keys int64, relays bool) step.T {
	t.In(step.PartAttention)
	h := step.Heads{Query: m.heads, KV: m.heads, Dim: m.q.W.Rows / m.heads, Queries: queries, Keys: keys,
		Bidirectional: true}
	padded := t.PadsHeads(h, false)
	q := t.Heads(m.q.Forward(t, x), padded)
	k := t.Heads(m.k.Forward(t, source), padded)
	v := t.Heads(m.v.Forward(t, source), padded)
	context := t.TokensFirst(t.SDPA(q, k, v, h, nil, 0), h, false)
	projection := m.out
	projection.Relays = relays
	out := projection.Forward(t, context)
	t.Drop(context)
	y := t.MulScalar(out, step.LabelLinear)
	t.Drop(out, q, k, v)
	return y
}
