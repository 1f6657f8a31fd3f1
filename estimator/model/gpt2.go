package model

import "github.com/vramplan/vramplan/estimator/step"

// gpt2 is transformers' GPT2LMHeadModel (modeling_gpt2.py, 4.57).
type gpt2 struct {
	decoder
	mask  *step.T
	cache []step.T
}

// Batch is input_ids, attention_mask and labels.
func (m *gpt2) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *gpt2) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	tokens := t.Embedding(ids, m.embedding(), step.LabelEmbedding)
	positions := t.Input(t.Shape.Tokens, step.I64)
	learned := t.Embedding(positions, m.positions(), step.LabelPositions)
	sum := t.Add(tokens, learned, step.LabelEmbedding)
	m.mask = causalMask(t, m.a, tokens.Dtype())
	x := t.Dropout(sum, m.a.EmbeddingDropout)
	t.Drop(sum)

	var besides step.Besides
	if m.mask != nil {
		besides.Arguments = []step.T{*m.mask}
	}
	x = m.run(t, x, m.block, besides)

	m.seekEnd()
	t.In(step.PartNorm)
	w, b := m.norm(m.a.Hidden)
	normed := t.LayerNorm(x, w, b)
	t.Drop(x)
	t.Drop(tokens)
	t.Drop(learned)
	t.Drop(positions)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	logits := t.Head(normed, m.head(), step.NoWeight)
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

func (m *gpt2) block(t *step.Tape, i int64, x step.T) step.T {
	m.seek(i)
	t.In(step.PartNorm)
	w, b := m.norm(m.a.Hidden)
	h := t.LayerNorm(x, w, b)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, h)
	t.In(step.PartNorm)
	middle := t.Add(attn, x, step.LabelResidual)
	t.Drop(h)

	w, b = m.norm(m.a.Hidden)
	h = t.LayerNorm(middle, w, b)
	t.In(step.PartMLP)
	mlp := m.mlp(t, h)
	t.In(step.PartNorm)
	y := t.Add(middle, mlp, step.LabelResidual)
	t.Drop(h)
	t.Drop(middle)
	t.Drop(attn)
	t.Drop(mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention returns its output and, where they are formed, the probabilities.
func (m *gpt2) attention(t *step.Tape, x step.T) (step.T, *step.T) {
	w, b := m.conv1D(m.a.Hidden, 3*m.a.Hidden)
	qkv := t.Conv1D(x, w, b, step.LabelLinear)
	q, k, v := t.Split3(qkv)
	t.Drop(qkv)
	eager := t.Recipe.Attention == step.AttentionEager
	cached := t.Recipe.UseCache
	copied := t.CopiesKVGradient(m.a.geometry(), m.mask != nil, cached)
	padded := t.PadsHeads(m.a.geometry(), m.mask != nil)
	k, v, q = t.Heads(k, copied && !eager), t.Heads(v, copied), t.Heads(q, eager || padded)
	if cached {
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k)
		t.Drop(v)
		k, v = kc, vc
		m.cache = append(m.cache, t.Hold(kc), t.Hold(vc))
	}
	var y step.T
	var probabilities *step.T
	if eager {
		var p step.T
		y, p = t.Eager(step.EagerAttention{Heads: m.a.geometry(), Dropout: m.a.AttentionDropout, Where: true, Mask: m.mask, Downcast: true, CopyKV: !cached}, q, k, v)
		probabilities = &p
	} else {
		y = t.TokensFirst(t.SDPA(q, k, v, m.a.geometry(), m.mask, m.a.AttentionDropout), m.a.geometry(), m.mask != nil)
	}
	w, b = m.conv1D(m.a.Hidden, m.a.Hidden)
	m.skip(2) // the causal mask and its filler, both buffers
	out := t.Conv1D(y, w, b, step.LabelLinear)
	t.Drop(y)
	dropped := t.Dropout(out, m.a.ResidualDropout)
	t.Drop(out)
	t.Drop(q)
	t.Drop(k)
	t.Drop(v)
	return dropped, probabilities
}

func (m *gpt2) mlp(t *step.Tape, x step.T) step.T {
	w, b := m.conv1D(m.a.Hidden, m.a.FFN)
	up := t.Conv1D(x, w, b, step.LabelLinear)
	act := activation(t, m.a.Activation, up)
	t.Drop(up)
	w, b = m.conv1D(m.a.FFN, m.a.Hidden)
	down := t.Conv1D(act, w, b, step.LabelLinear)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}

// activation is ACT2FN[name](x).
func activation(t *step.Tape, name string, x step.T) step.T {
	switch name {
	case "gelu_new":
		return t.NewGELU(x)
	case "relu":
		return t.ReLU(x)
	case "silu":
		return t.SiLU(x)
	}
	return t.GELU(x)
}
