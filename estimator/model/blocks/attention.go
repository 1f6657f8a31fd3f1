package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// copies says whether the gradients of queries, and those of keys and values, have to be copied on their way back
// to the projection, because they arrive with the heads outermost; of a single head there is but one order.
type copies struct {
	Query, Key, Value bool
	// inside says that it is the projection itself that copies the gradient of the keys.
	inside bool
}

// Copies says which gradients have to be copied.
func (m *Decoder) Copies(t *step.Tape, w *Around) copies {
	if w.Rotary && t.Recipe.Kernels.Rotary { // which copies the gradients of queries and keys itself
		return copies{Value: m.arriving(t, w, false).Value}
	}
	return m.arriving(t, w, w.Rotary)
}

// arriving is what would be copied of the gradients behind attention, rotated or not.
func (m *Decoder) arriving(t *step.Tape, w *Around, rotary bool) copies {
	h, masked := m.A.Geometry(), w.Mask != nil
	several, severalKV := h.Query > 1, h.KV > 1
	cached := t.Recipe.UseCache && m.OwnCache == nil
	kv := t.CopiesKVGradient(h, masked, cached) || (m.Repeats || t.Recipe.RepeatsKV) && h.KV < h.Query
	c := copies{
		Query: several && (rotary || t.CopiesQueryGradient(h, masked)),
		Key:   severalKV && (rotary || kv),
		Value: severalKV && kv,
	}
	if t.WritesOut(h, masked) && !w.Rotary && h.KV == h.Query {
		// Straight out of the product with the queries the gradient comes with the elements of a token outermost. All
		// heads make one matrix of it, but sequences do not.
		c.Key, c.inside = t.Shape.Batch > 1, true
	}
	return c
}

// ProjectEach is q_proj, k_proj and v_proj; where queries and keys have a norm over each head, it follows at once.
func (m *Decoder) ProjectEach(t *step.Tape, l *DecoderLayer, w *Around, x step.T) (q, k, v step.T) {
	c := m.Copies(t, w)
	project := func(p arch.Linear, g *arch.Norm, copyBack bool) step.T {
		y := t.Heads(p.Forward(t, x), copyBack)
		if g == nil || !m.A.QKNorm {
			return y
		}
		n := m.Normalize(*g, t, y)
		t.Drop(y)
		return n
	}
	q = project(l.Q, &l.QNorm, c.Query)
	k = project(l.K, &l.KNorm, c.Key)
	v = project(l.V, nil, c.Value)
	return q, k, v
}

// ProjectAlone is q_proj, k_proj and v_proj, and no norm.
func (m *Decoder) ProjectAlone(t *step.Tape, l *DecoderLayer, w *Around, x step.T) (q, k, v step.T) {
	c := m.Copies(t, w)
	q = t.Heads(l.Q.Forward(t, x), c.Query)
	k = t.Heads(l.K.Forward(t, x), c.Key)
	v = t.Heads(l.V.Forward(t, x), c.Value)
	return q, k, v
}

// ProjectThenNorm is q_proj, k_proj and v_proj, and then the norms of queries and keys.
func (m *Decoder) ProjectThenNorm(t *step.Tape, l *DecoderLayer, w *Around, x step.T) (q, k, v step.T) {
	q, k, v = m.ProjectAlone(t, l, w, x)
	q, k = m.NormHeads(t, l, q, k)
	return q, k, v
}

// NormHeads norms each head of queries and keys. It takes them over.
func (m *Decoder) NormHeads(t *step.Tape, l *DecoderLayer, q, k step.T) (step.T, step.T) {
	qn := m.Normalize(l.QNorm, t, q)
	t.Drop(q)
	kn := m.Normalize(l.KNorm, t, k)
	t.Drop(k)
	return qn, kn
}

// Rotate is apply_rotary_pos_emb.
func Rotate(t *step.Tape, q, k step.T, w *Around) (qr, kr step.T) {
	return t.Rotary(q, w.Cos, w.Sin), t.Rotary(k, w.Cos, w.Sin)
}

// turn is the family's way to rotate, or the fused kernel.
func (m *Decoder) turn(t *step.Tape, q, k step.T, w *Around) (qr, kr step.T) {
	if !t.Recipe.Kernels.Rotary {
		return m.Rotate(t, q, k, w)
	}
	c := m.arriving(t, w, false)
	return t.FusedRope(q, k, w.Cos, w.Sin, c.Query, c.Key)
}

// cachesWindow keeps the length of the window as a tensor beside the cache of each layer that has one.
var cachesWindow = release.Declare("caches-window", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "transformers 5.23 keeps the length of the window as a tensor in the cache of each " +
		"layer that has one",
	Source: "cache_utils.py (DynamicSlidingWindowLayer), 4.57.6 and 5.23.0",
	Shown:  "traces of Mistral and Gemma 3",
})

// Attention is self_attn. It returns its output and, where they are formed, the probabilities.
func (m *Decoder) Attention(t *step.Tape, l *DecoderLayer, w *Around, x step.T) (step.T, *step.T) {
	q, k, v := m.Project(m, t, l, w, x)
	if w.Rotary {
		qr, kr := m.turn(t, q, k, w)
		t.Drop(q, k)
		q, k = qr, kr
	}
	if m.BehindRotary != nil {
		q, k = m.BehindRotary(m, t, l, q, k)
	}
	switch {
	case t.Recipe.UseCache && m.OwnCache != nil:
		m.Cache = append(m.Cache, t.Hold(k), t.Hold(v))
	case t.Recipe.UseCache:
		window := step.NoTensor
		if t.Recipe.Software.Has(cachesWindow) && m.A.Windowed(l.Index) {
			window = t.Input(1, step.I64)
		}
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k, v)
		k, v = kc, vc
		m.Cache = append(m.Cache, t.Hold(kc), t.Hold(vc))
		if window != step.NoTensor {
			m.Cache = append(m.Cache, window)
		}
	}
	heads := m.A.Geometry()
	if m.Repeats {
		for _, x := range [...]*step.T{&k, &v} {
			repeated := t.RepeatKV(*x, heads)
			t.Drop(*x)
			*x = repeated
		}
		heads.KV = heads.Query
	}
	y, probabilities := m.layerScores(t, w, l, heads, q, k, v)
	out := l.Out.Forward(t, y)
	if m.Repeats && probabilities != nil {
		t.Drop(*probabilities)
		probabilities = nil
	}
	t.Drop(y)
	if m.Drops {
		dropped := t.Dropout(out, m.A.ResidualDropout)
		t.Drop(out)
		out = dropped
	}
	t.Drop(q, k, v)
	return out, probabilities
}

// layerScores is the attention of layer l itself.
func (m *Decoder) layerScores(t *step.Tape, w *Around, l *DecoderLayer, heads step.Heads,
	q, k, v step.T) (step.T, *step.T) {
	if m.Score != nil {
		return m.Score(m, t, l, w, heads, q, k, v)
	}
	return m.Scores(t, w, heads, q, k, v)
}

// Scores is sdpa_attention_forward or eager_attention_forward.
func (m *Decoder) Scores(t *step.Tape, w *Around, heads step.Heads, q, k, v step.T) (step.T, *step.T) {
	eager := t.Recipe.Attention == step.AttentionEager
	if t.RepeatsGrouped(heads, w.Mask != nil) {
		k, v = t.RepeatKV(k, heads), t.RepeatKV(v, heads)
		heads.KV = heads.Query
		defer t.Drop(k)
		defer t.Drop(v)
	}
	if eager {
		written := m.Eager
		written.Heads, written.Dropout, written.Mask, written.Upcast = heads, m.A.AttentionDropout, w.Mask, true
		y, p := t.Eager(written, q, k, v)
		return y, &p
	}
	y := t.SDPA(q, k, v, heads, w.Mask, m.A.AttentionDropout)
	return t.TokensFirst(y, heads, w.Mask != nil), nil
}

// MLP is the gated MLP, or one without a gate where the family has none.
func (m *Decoder) MLP(t *step.Tape, l *DecoderLayer, x step.T) step.T {
	if m.FeedForward != nil {
		return m.FeedForward(m, t, l, x)
	}
	if !m.A.Gated {
		return m.plainMLP(t, l, x)
	}
	gated := arch.GatedMLP{Gate: l.Gate, Up: l.Up, Down: l.Down}
	return gated.Forward(t, m.A, x)
}

// ProjectFirst is q_proj, k_proj and v_proj, and only then their views by heads.
func (m *Decoder) ProjectFirst(t *step.Tape, l *DecoderLayer, w *Around, x step.T) (q, k, v step.T) {
	c := m.Copies(t, w)
	q, k, v = l.Q.Forward(t, x), l.K.Keys(t, x, c.Key && c.inside), l.V.Forward(t, x)
	return t.Heads(q, c.Query), t.Heads(k, c.Key && !c.inside), t.Heads(v, c.Value)
}

// plainMLP is down(act(up(x))), with dropout behind it where the family drops.
func (m *Decoder) plainMLP(t *step.Tape, l *DecoderLayer, x step.T) step.T {
	up := l.Up.Forward(t, x)
	act := arch.Activation(t, m.A.Activation, up)
	t.Drop(up)
	down := l.Down.Forward(t, act)
	t.Drop(act)
	if !m.Drops {
		return down
	}
	dropped := t.DropoutFunction(down, m.A.ResidualDropout)
	t.Drop(down)
	return dropped
}
