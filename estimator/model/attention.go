package model

import "github.com/vramplan/vramplan/estimator/step"

// copies says whether the gradients of queries, and those of keys and values, have to be copied on their way back
// to the projection, because they arrive with the heads outermost; of a single head there is but one order.
type copies struct {
	query, key, value bool
	// inside says that it is the projection itself that copies the gradient of the keys.
	inside bool
}

func (m *decoder) copies(t *step.Tape, w *around) copies {
	if w.rotary && t.Recipe.Kernels.Rotary { // which copies the gradients of queries and keys itself
		return copies{value: m.arriving(t, w, false).value}
	}
	return m.arriving(t, w, w.rotary)
}

// arriving is what would be copied of the gradients behind attention, rotated or not.
func (m *decoder) arriving(t *step.Tape, w *around, rotary bool) copies {
	h, masked := m.a.geometry(), w.mask != nil
	several, severalKV := h.Query > 1, h.KV > 1
	cached := t.Recipe.UseCache && !m.storesStates
	kv := t.CopiesKVGradient(h, masked, cached) || (m.repeats || t.Recipe.RepeatsKV) && h.KV < h.Query
	c := copies{
		query: several && (rotary || t.CopiesQueryGradient(h, masked)),
		key:   severalKV && (rotary || kv),
		value: severalKV && kv,
	}
	if t.WritesOut(h, masked) && !w.rotary && h.KV == h.Query {
		// Straight out of the product with the queries the gradient comes with the elements of a token outermost. All
		// heads make one matrix of it, but sequences do not.
		c.key, c.inside = t.Shape.Batch > 1, true
	}
	return c
}

// projectEach is q_proj, k_proj and v_proj; where queries and keys have a norm over each head, it follows at once.
func (m *decoder) projectEach(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	project := func(p linear, g *norm, copyBack bool) step.T {
		y := t.Heads(p.forward(t, x), copyBack)
		if g == nil || !m.a.QKNorm || m.turnedNorms {
			return y
		}
		n := m.normalize(*g, t, y)
		t.Drop(y)
		return n
	}
	q = project(l.q, &l.qNorm, c.query)
	k = project(l.k, &l.kNorm, c.key)
	v = project(l.v, nil, c.value)
	return q, k, v
}

// projectThenNorm is q_proj, k_proj and v_proj, and then the norms of queries and keys.
func (m *decoder) projectThenNorm(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	q = t.Heads(l.q.forward(t, x), c.query)
	k = t.Heads(l.k.forward(t, x), c.key)
	v = t.Heads(l.v.forward(t, x), c.value)
	qn := m.normalize(l.qNorm, t, q)
	t.Drop(q)
	kn := m.normalize(l.kNorm, t, k)
	t.Drop(k)
	return qn, kn, v
}

// rotate is apply_rotary_pos_emb.
func rotate(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
	return t.Rotary(q, w.cos, w.sin), t.Rotary(k, w.cos, w.sin)
}

// turn is the family's way to rotate, or the fused kernel.
func (m *decoder) turn(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
	if !t.Recipe.Kernels.Rotary {
		return m.rotate(t, q, k, w)
	}
	c := m.arriving(t, w, false)
	return t.FusedRope(q, k, w.cos, w.sin, c.query, c.key)
}

// attention is self_attn. It returns its output and, where they are formed, the probabilities.
func (m *decoder) attention(t *step.Tape, l *decoderLayer, w *around, x step.T) (step.T, *step.T) {
	q, k, v := m.project(m, t, l, w, x)
	if w.rotary {
		qr, kr := m.turn(t, q, k, w)
		t.Drop(q, k)
		q, k = qr, kr
	}
	if m.turnedNorms {
		qn := m.normalize(l.qNorm, t, q)
		t.Drop(q)
		kn := m.normalize(l.kNorm, t, k)
		t.Drop(k)
		q, k = qn, kn
	}
	if m.scaleQueries != nil {
		q = m.scaleQueries(t, q)
	}
	switch {
	case t.Recipe.UseCache && m.storesStates:
		m.cache = append(m.cache, t.Hold(k), t.Hold(v))
	case t.Recipe.UseCache:
		window := step.NoTensor
		if t.Recipe.Software.CachesWindow && m.a.windowed(l.index) {
			window = t.Input(1, step.I64)
		}
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k, v)
		k, v = kc, vc
		m.cache = append(m.cache, t.Hold(kc), t.Hold(vc))
		if window != step.NoTensor {
			m.cache = append(m.cache, window)
		}
	}
	heads := m.a.geometry()
	if m.repeats {
		for _, x := range [...]*step.T{&k, &v} {
			repeated := t.RepeatKV(*x, heads)
			t.Drop(*x)
			*x = repeated
		}
		heads.KV = heads.Query
	}
	y, probabilities := m.layerScores(t, w, l, heads, q, k, v)
	out := l.out.forward(t, y)
	if m.repeats && probabilities != nil {
		t.Drop(*probabilities)
		probabilities = nil
	}
	t.Drop(y)
	if m.drops {
		dropped := t.Dropout(out, m.a.ResidualDropout)
		t.Drop(out)
		out = dropped
	}
	t.Drop(q, k, v)
	return out, probabilities
}

// layerScores is the attention of layer l itself.
func (m *decoder) layerScores(t *step.Tape, w *around, l *decoderLayer, heads step.Heads,
	q, k, v step.T) (step.T, *step.T) {
	if m.score != nil {
		return m.score(m, t, l, w, heads, q, k, v)
	}
	return m.scores(t, w, heads, q, k, v)
}

// scores is sdpa_attention_forward or eager_attention_forward.
func (m *decoder) scores(t *step.Tape, w *around, heads step.Heads, q, k, v step.T) (step.T, *step.T) {
	eager := t.Recipe.Attention == step.AttentionEager
	if t.RepeatsGrouped(heads, w.mask != nil) {
		k, v = t.RepeatKV(k, heads), t.RepeatKV(v, heads)
		heads.KV = heads.Query
		defer t.Drop(k)
		defer t.Drop(v)
	}
	if eager {
		y, p := t.Eager(step.EagerAttention{Heads: heads, Dropout: m.a.AttentionDropout, Mask: w.mask, Upcast: true,
			SoftCap: m.softCap, MaskInPlace: m.addsMask}, q, k, v)
		return y, &p
	}
	y := t.SDPA(q, k, v, heads, w.mask, m.a.AttentionDropout)
	return t.TokensFirst(y, heads, w.mask != nil), nil
}

// mlp is the gated MLP, or one without a gate where the family has none.
func (m *decoder) mlp(t *step.Tape, l *decoderLayer, x step.T) step.T {
	if m.feedForward != nil {
		return m.feedForward(m, t, l, x)
	}
	if !m.a.Gated {
		return m.plainMLP(t, l, x)
	}
	gated := gatedMLP{l.gate, l.up, l.down}
	return gated.forward(t, m.a, x)
}

// projectFirst is q_proj, k_proj and v_proj, and only then their views by heads.
func (m *decoder) projectFirst(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	q, k, v = l.q.forward(t, x), l.k.keys(t, x, c.key && c.inside), l.v.forward(t, x)
	return t.Heads(q, c.query), t.Heads(k, c.key && !c.inside), t.Heads(v, c.value)
}

// plainMLP is down(act(up(x))), with dropout behind it where the family drops.
func (m *decoder) plainMLP(t *step.Tape, l *decoderLayer, x step.T) step.T {
	up := l.up.forward(t, x)
	act := activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.forward(t, act)
	t.Drop(act)
	if !m.drops {
		return down
	}
	dropped := t.DropoutFunction(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}
