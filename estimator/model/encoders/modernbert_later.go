package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// modernSide is what all layers of one kind, global or local, share.
type modernSide struct {
	mask     *step.T
	cos, sin step.T
}

// captured are the keywords of a layer.
func (s *modernSide) captured() []step.T {
	all := []step.T{s.cos, s.sin}
	if s.mask != nil {
		all = append(all, *s.mask)
	}
	return all
}

// kinds says whether there are global and local layers.
func kinds(a *arch.Architecture) [2]bool {
	every := modern(a).globalEvery
	return [2]bool{a.Layers > 0, a.Layers > 1 && every > 1}
}

// declareTables lists the frequencies of each kind of layer that there is.
func (m *modernBERT) declareTables(b *arch.Builder) {
	for local, name := range [...]string{"full_attention_", "sliding_attention_"} {
		if kinds(m.a)[local] {
			b.Frequencies("rotary_emb."+name, m.a.HeadDim/2)
		}
	}
}

// encode is ModernBertModel of later releases, which makes masks and tables of positions once for each kind of layer.
// Source: transformers/models/modernbert/modeling_modernbert.py (ModernBertModel.forward), 5.23.
func (m *modernBERT) encode(t *step.Tape, ids step.T) step.T {
	positions := t.Input(t.Shape.Tokens, step.I64)
	x := m.embeddings(t, ids)
	m.sides = [2]modernSide{}
	m.sides[0].mask = blocks.CrossedMask(t, t.Shape.Tokens, x.Dtype())
	m.sides[1].mask = windowMask(t, modern(m.a).local/2, x.Dtype())
	locals := []step.T{positions, t.Hold(x)} // the embeddings are among the masks' arguments
	for local, used := range kinds(m.a) {
		side := &m.sides[local]
		if used {
			side.cos, side.sin = blocks.RotaryTables(t, m.a.HeadDim, x.Dtype())
			locals = append(locals, side.cos, side.sin)
		}
		if side.mask != nil {
			locals = append(locals, *side.mask)
		}
	}
	x = blocks.RunLayersWith(t, m.a, len(m.layers), x, m.keywords(t), m.layer)
	t.In(step.PartNorm)
	last := m.final.Layer(t, x)
	t.Drop(x)
	t.Drop(locals...)
	return last
}

// keywords are those of each layer; while a reentrant graph lives, it makes no difference which of them has which.
func (m *modernBERT) keywords(t *step.Tape) func(i int) step.Besides {
	var all [2]step.Besides
	for local, used := range kinds(m.a) {
		if used {
			all[local].Captured = m.sides[local].captured()
		}
	}
	if t.Recipe.Reentrant {
		both := step.Besides{Captured: append(all[0].Captured, all[1].Captured...)}
		return func(int) step.Besides { return both }
	}
	return func(i int) step.Besides {
		if m.layers[i].local {
			return all[1]
		}
		return all[0]
	}
}

// windowMask is create_bidirectional_sliding_window_mask: what is further away than window tokens is out of sight,
// unless no sequence is that long.
// Source: transformers/masking_utils.py (sliding_window_bidirectional_overlay, sdpa_mask, eager_mask), 5.23.
func windowMask(t *step.Tape, window int64, d step.DType) *step.T {
	b, n := t.Shape.Batch, t.Shape.Tokens
	in := func(numel int64, d step.DType) step.T { return t.Input(numel, d) }
	given := in(b*n, step.Bool)
	t.Drop(in(1, step.Bool))
	if !t.Recipe.ExplicitMask && n < window {
		t.Drop(given)
		return nil
	}
	indices := [...]step.T{in(b, step.I64), in(1, step.I64), blocks.PositionNumbers(t), blocks.PositionNumbers(t)}
	one, inner := in(1, step.Bool), in(1, step.Bool)
	apart := in(n*n, step.I64)
	distance := in(n*n, step.I64)
	t.Drop(apart)
	near := in(n*n, step.Bool)
	t.Drop(distance)
	within := in(n*n, step.Bool)
	t.Drop(near, inner)
	valid := in(n, step.Bool)
	both := in(n*n, step.Bool)
	t.Drop(valid, within)
	seen := in(n*n, step.Bool)
	t.Drop(both, one)
	padding := blocks.PaddingOfKeys(t, t.Shape.Tokens)
	mask := in(b*n*n, step.Bool)
	t.Drop(padding, seen)
	for _, index := range indices {
		t.Drop(index)
	}
	if t.Recipe.Attention == step.AttentionEager {
		mask = blocks.Additive(t, mask, d)
	}
	t.Drop(given)
	return &mask
}

// attend is ModernBertAttention of later releases, which turns queries and keys in float32.
func (m *modernBERT) attend(t *step.Tape, l *modernLayer, x step.T) (step.T, *step.T) {
	side := &m.sides[0]
	if l.local {
		side = &m.sides[1]
	}
	qkv := l.qkv.Forward(t, x)
	q, k, v := t.Split3(qkv)
	qw, kw := turnInFloat(t, q, side), turnInFloat(t, k, side)
	qr, kr := t.Cast(qw, q.Dtype(), step.LabelRotary), t.Cast(kw, q.Dtype(), step.LabelRotary)
	t.Drop(qw, kw, q, k)
	y, probabilities := blocks.Attend(t, m.a, side.mask, qr, kr, v)
	projected := l.out.Forward(t, y)
	out := t.Dropout(projected, m.a.AttentionDropout)
	t.Drop(projected, y, qkv, qr, kr, v)
	return out, probabilities
}

// turnInFloat is x.float()·cos + rotate_half(x.float())·sin.
func turnInFloat(t *step.Tape, x step.T, side *modernSide) step.T {
	wide := t.Float(x, step.LabelRotary)
	direct := t.Mul(wide, side.cos, false, step.LabelRotary)
	t.Drop(wide)
	wide = t.Float(x, step.LabelRotary)
	rotated := t.RotateHalf(wide)
	t.Drop(wide)
	shifted := t.Mul(rotated, side.sin, false, step.LabelRotary)
	t.Drop(rotated)
	y := t.Add(direct, shifted, step.LabelRotary)
	t.Drop(direct, shifted)
	return y
}
