package model

import "github.com/vramplan/vramplan/estimator/step"

// nanoGPT is karpathy/nanoGPT's model.py: learned positions, one matrix for q, k and v,
// nn.GELU, tied head, cross-entropy inside the model and under autocast.
type nanoGPT struct{ decoder }

// Batch is X and Y.
func (m *nanoGPT) Batch(t *step.Tape) []step.T {
	return []step.T{t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)}
}

func (m *nanoGPT) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, targets := batch[0], batch[1]
	t.In(step.PartEmbedding)
	positions := t.Input(t.Shape.Tokens, step.I64)
	tokens := t.Embedding(ids, m.embedding(), step.LabelEmbedding)
	learned := t.Embedding(positions, m.positions(), step.LabelPositions)
	sum := t.AddUnbatched(tokens, learned, step.LabelEmbedding)
	t.Drop(tokens)
	t.Drop(learned)
	x := t.Dropout(sum, m.a.EmbeddingDropout)
	t.Drop(sum)

	x = m.run(t, x, m.block, step.Besides{})

	m.seekEnd()
	t.In(step.PartNorm)
	w, b := m.norm(m.a.Hidden)
	normed := t.LayerNorm(x, w, b)
	t.Drop(x)
	logits := t.Head(normed, m.head(), step.NoWeight)
	loss := t.CrossEntropy(logits, targets)
	t.Drop(normed)
	t.Drop(positions)
	return loss, []step.T{logits}
}

// block is x + attn(ln_1(x)), then x + mlp(ln_2(x)).
func (m *nanoGPT) block(t *step.Tape, i int64, x step.T) step.T {
	m.seek(i)
	t.In(step.PartNorm)
	w, b := m.norm(m.a.Hidden)
	h := t.LayerNorm(x, w, b)
	t.In(step.PartAttention)
	attn := m.attention(t, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attn, step.LabelResidual)
	t.Drop(attn)

	w, b = m.norm(m.a.Hidden)
	h = t.LayerNorm(middle, w, b)
	t.In(step.PartMLP)
	mlp := m.mlp(t, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := t.Add(middle, mlp, step.LabelResidual)
	t.Drop(mlp)
	t.Drop(middle)
	return y
}

func (m *nanoGPT) attention(t *step.Tape, x step.T) step.T {
	w, b := m.linear(m.a.Hidden, 3*m.a.Hidden, m.a.QKVBias)
	qkv := t.Linear(x, w, b, step.LabelLinear)
	q, k, v := t.Split3(qkv)
	t.Drop(qkv)
	var y, probabilities step.T
	eager := t.Recipe.Attention == step.AttentionEager
	if eager {
		k, q, v = t.Heads(k, false), t.Heads(q, true), t.Heads(v, true)
		y, probabilities = t.Eager(step.EagerAttention{Heads: m.a.geometry(), Dropout: m.a.AttentionDropout, Fill: true, CopyKV: true}, q, k, v)
	} else {
		padded := t.PadsHeads(m.a.geometry(), false)
		k, q, v = t.Heads(k, padded), t.Heads(q, padded), t.Heads(v, padded)
		y = t.TokensFirst(t.SDPA(q, k, v, m.a.geometry(), nil, m.a.AttentionDropout), m.a.geometry(), false)
	}
	w, b = m.linear(m.a.Hidden, m.a.Hidden, m.a.OutBias)
	if m.a.BufferSide > 0 {
		m.skip(1)
	}
	out := t.Linear(y, w, b, step.LabelLinear)
	dropped := t.Dropout(out, m.a.ResidualDropout)
	t.Drop(out)
	t.Drop(y)
	t.Drop(q)
	t.Drop(k)
	t.Drop(v)
	if eager {
		t.Drop(probabilities)
	}
	return dropped
}

func (m *nanoGPT) mlp(t *step.Tape, x step.T) step.T {
	w, b := m.linear(m.a.Hidden, m.a.FFN, m.a.MLPBias)
	up := t.Linear(x, w, b, step.LabelLinear)
	act := t.GELU(up)
	t.Drop(up)
	w, b = m.linear(m.a.FFN, m.a.Hidden, m.a.MLPBias)
	down := t.Linear(act, w, b, step.LabelLinear)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}
