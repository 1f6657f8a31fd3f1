package model

import "github.com/vramplan/vramplan/estimator/step"

// llama is transformers' LlamaForCausalLM and the decoders that are written like it: Mistral, Qwen2, Qwen3,
// SmolLM3 (modeling_llama.py and its modular children, 4.57).
type llama struct {
	decoder
	mask     *step.T
	cos, sin step.T
	cache    []step.T
}

// Batch is input_ids, attention_mask and labels.
func (m *llama) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *llama) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embedding(), step.LabelEmbedding)
	positions := t.Input(t.Shape.Tokens, step.I64)
	m.mask = causalMask(t, m.a, embedded.Dtype())
	m.cos, m.sin = rotaryTables(t, m.a.HeadDim, embedded.Dtype())

	captured := []step.T{positions, m.cos, m.sin}
	if m.mask != nil {
		captured = append(captured, *m.mask)
	}
	x := m.run(t, t.Hold(embedded), m.layer, step.Besides{Captured: captured})

	m.seekEnd()
	t.In(step.PartNorm)
	w, _ := m.norm(m.a.Hidden)
	normed := t.RMSNorm(x, w)
	t.Drop(x)
	t.Drop(embedded)
	t.Drop(positions)
	t.Drop(m.cos)
	t.Drop(m.sin)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	logits := t.Head(normed, m.head(), step.NoWeight)
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

// layer is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
func (m *llama) layer(t *step.Tape, i int64, x step.T) step.T {
	// Module order: attention and MLP come before the two norms.
	norms := int32(2)
	m.seek(i + 1)
	m.skip(-norms)
	w1, _ := m.norm(m.a.Hidden)
	w2, _ := m.norm(m.a.Hidden)
	m.seek(i)

	t.In(step.PartNorm)
	h := t.RMSNorm(x, w1)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, h, m.a.NoRotaryEvery == 0 || (i+1)%m.a.NoRotaryEvery != 0)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attn, step.LabelResidual)
	t.Drop(attn)

	h = t.RMSNorm(middle, w2)
	t.In(step.PartMLP)
	mlp := m.mlp(t, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := t.Add(middle, mlp, step.LabelResidual)
	t.Drop(mlp)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention returns its output and, where they are formed, the probabilities.
func (m *llama) attention(t *step.Tape, x step.T, rotary bool) (step.T, *step.T) {
	a := m.a
	heads := a.geometry()
	eager := t.Recipe.Attention == step.AttentionEager
	repeated := heads.KV < heads.Query && (eager || m.mask != nil)
	cached := t.Recipe.UseCache

	qw, qb := m.linear(a.Hidden, heads.Width(), a.QKVBias)
	kw, kb := m.linear(a.Hidden, heads.KVWidth(), a.QKVBias)
	vw, vb := m.linear(a.Hidden, heads.KVWidth(), a.QKVBias)
	ow, ob := m.linear(heads.Width(), a.Hidden, a.OutBias)

	project := func(w, b step.Weight, norm, copyBack bool) step.T {
		y := t.Linear(x, w, b, step.LabelLinear)
		if !norm {
			return t.Heads(y, copyBack)
		}
		g, _ := m.norm(a.HeadDim)
		y = t.Heads(y, copyBack)
		n := t.RMSNorm(y, g)
		t.Drop(y)
		return n
	}
	q := project(qw, qb, a.QKNorm, rotary || t.CopiesQueryGradient(heads, m.mask != nil))
	copied := t.CopiesKVGradient(heads, m.mask != nil, cached)
	k := project(kw, kb, a.QKNorm, rotary || copied)
	v := project(vw, vb, false, copied)

	if rotary {
		qr, kr := t.Rotary(q, m.cos, m.sin), t.Rotary(k, m.cos, m.sin)
		t.Drop(q)
		t.Drop(k)
		q, k = qr, kr
	}
	if cached {
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k)
		t.Drop(v)
		k, v = kc, vc
		m.cache = append(m.cache, t.Hold(kc), t.Hold(vc))
	}
	y, probabilities := m.scores(t, q, k, v, heads, eager, repeated)
	out := t.Linear(y, ow, ob, step.LabelLinear)
	t.Drop(y)
	t.Drop(q)
	t.Drop(k)
	t.Drop(v)
	return out, probabilities
}

// scores is sdpa_attention_forward or eager_attention_forward.
func (m *llama) scores(t *step.Tape, q, k, v step.T, heads step.Heads, eager, repeated bool) (step.T, *step.T) {
	if repeated {
		k, v = t.RepeatKV(k, heads), t.RepeatKV(v, heads)
		heads.KV = heads.Query
		defer t.Drop(k)
		defer t.Drop(v)
	}
	if eager {
		y, p := t.Eager(step.EagerAttention{Heads: heads, Dropout: m.a.AttentionDropout, Mask: m.mask, Upcast: true}, q, k, v)
		return y, &p
	}
	qc, kc, vc := t.AutocastQKV(q, k, v)
	y := t.SDPA(qc, kc, vc, heads, m.mask, m.a.AttentionDropout)
	t.Drop(qc)
	t.Drop(kc)
	t.Drop(vc)
	return t.TokensFirst(y, heads, m.mask != nil), nil
}

func (m *llama) mlp(t *step.Tape, x step.T) step.T {
	a := m.a
	gw, gb := m.linear(a.Hidden, a.FFN, a.MLPBias)
	uw, ub := m.linear(a.Hidden, a.FFN, a.MLPBias)
	dw, db := m.linear(a.FFN, a.Hidden, a.MLPBias)
	gate := t.Linear(x, gw, gb, step.LabelLinear)
	act := activation(t, a.Activation, gate)
	t.Drop(gate)
	up := t.Linear(x, uw, ub, step.LabelLinear)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act)
	t.Drop(up)
	down := t.Linear(product, dw, db, step.LabelLinear)
	t.Drop(product)
	return down
}
