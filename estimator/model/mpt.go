package model

import "github.com/vramplan/vramplan/estimator/step"

var mptFamily = family{modelType: "mpt",
	keys: fieldNames{heads: "n_heads", hidden: "d_model", kv: "n_heads", dim: "d_model"},
	defaults: map[string]any{
		"d_model": 2048.0, "n_heads": 16.0, "n_layers": 24.0, "max_seq_len": 2048.0, "vocab_size": 50368.0,
		"use_cache":           false,
		"tie_word_embeddings": true},
	read: (*config).mpt,
	spelled: map[string]string{"num_hidden_layers": "n_layers", "hidden_size": "d_model",
		"num_attention_heads":     "n_heads",
		"max_position_embeddings": "max_seq_len"},
	build: buildMPT,
}

// mptOptions is what only MPT's configuration says.
type mptOptions struct {
	// clips bounds queries, keys and values.
	clips bool
}

// mpt reads MPT's keys. Its alibi is built whatever attn_config says of it, and the MLP is four times as wide as the
// layers.
func (c *config) mpt(a *Architecture) {
	a.Layers = c.integer(c.either("num_hidden_layers", "n_layers"), maxLayers)
	a.Hidden = c.integer(c.either("hidden_size", "d_model"), maxWidth)
	a.Heads = c.integer(c.either("num_attention_heads", "n_heads"), maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = 4 * a.Hidden
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions, a.LearnedPositions = c.integer("max_seq_len", maxRows), true
	a.WholeLogits = true
	a.UseCache, a.Tied, a.EagerOnly = c.boolean("use_cache"), c.boolean("tie_word_embeddings"), true
	attention := c.part("attn_config", map[string]any{"attn_pdrop": 0.0})
	a.AttentionDropout = attention.probability("attn_pdrop")
	a.ResidualDropout = a.AttentionDropout
	clips := attention.positive("clip_qkv")
	if clip, _ := attention.value("clip_qkv"); clip != nil && clip != 0.0 && !clips {
		c.errs.Add(attention.pointer+"/clip_qkv", "wrong_type", "clip_qkv is a positive number or null, not %s",
			describe(clip))
	}
	a.own = mptOptions{clips: clips}
}

// mpt is transformers' MptForCausalLM (modeling_mpt.py, 4.57).
type mpt struct {
	a           *Architecture
	own         mptOptions
	embed       step.Weight
	head        linear
	layers      []mptBlock
	final       norm
	alibi, mask step.T
	cache       []step.T
}

type mptBlock struct {
	norm1, norm2       norm
	qkv, out, up, down linear
}

func buildMPT(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	m := &mpt{a: a, own: a.own.(mptOptions), layers: make([]mptBlock, b.recorded)}
	m.embed = b.embedding("wte", a.Vocabulary, d)
	b.stack(func(i int64) {
		l := &m.layers[i]
		l.norm1 = b.norm("norm_1", d, false)
		l.qkv, l.out = b.linear("attn.Wqkv", d, 3*d, false), b.linear("attn.out_proj", d, d, false)
		l.norm2 = b.norm("norm_2", d, false)
		l.up, l.down = b.linear("ffn.up_proj", d, a.FFN, false), b.linear("ffn.down_proj", a.FFN, d, false)
	})
	m.final = b.norm("norm_f", d, false)
	m.head = b.head("lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *mpt) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *mpt) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	m.alibi = mptAlibi(t, m.a.Heads, m.a.MaxPositions)
	m.mask = mptMask(t, embedded.Dtype())
	x, probabilities := runPairs(t, m.a, len(m.layers), t.Hold(embedded),
		step.Besides{Captured: []step.T{m.alibi, m.mask}}, m.block)

	t.In(step.PartNorm)
	normed := m.final.layer(t, x)
	t.Drop(x, *probabilities, embedded, m.alibi, m.mask)
	logits := t.CloseSection(step.HeadSection, m.head.logits(t, normed))
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

func (m *mpt) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.norm1.layer(t, x)
	t.In(step.PartAttention)
	attn := m.attention(t, l, h)
	t.In(step.PartNorm)
	dropped := t.Dropout(attn, m.a.ResidualDropout)
	middle := t.Add(dropped, x, step.LabelResidual)
	t.Drop(dropped)
	normed := l.norm2.layer(t, middle)
	t.Drop(h)

	t.In(step.PartMLP)
	up := l.up.forward(t, normed)
	act := t.GELU(up)
	t.Drop(up)
	down := l.down.forward(t, act)
	dropped = t.Dropout(down, m.a.ResidualDropout)
	t.In(step.PartNorm)
	y := t.Add(dropped, middle, step.LabelResidual)
	t.Drop(dropped, down, act, normed, middle, attn)
	return y
}

func (m *mpt) attention(t *step.Tape, l *mptBlock, x step.T) step.T {
	qkv := l.qkv.forward(t, x)
	if m.own.clips {
		clipped := t.ClampBetween(qkv)
		t.Drop(qkv)
		qkv = clipped
	}
	q, k, v := t.Split3(qkv)
	q, v = t.Heads(q, m.a.Heads > 1), t.Heads(v, m.a.Heads > 1)
	k, v = appendKV(t, &m.cache, k, v)
	n := t.Shape.N() * m.a.Heads * t.Shape.Tokens
	product := t.HeadsProduct(q, k, m.a.geometry(), n, step.LabelAttentionScores)
	scaled := t.MulScalar(product, step.LabelAttentionScores)
	t.Drop(product)
	biased := t.AddAlibi(scaled, m.alibi)
	t.Drop(scaled)
	scores := t.MaskedFill(biased, m.mask)
	t.Drop(biased)
	p := t.FloatProbabilities(scores, v.Dtype())
	probabilities := t.Dropout(p, m.a.AttentionDropout)
	t.Drop(p)
	context := t.ValuesProduct(probabilities, v, m.a.geometry())
	if m.a.Heads > 1 {
		context = t.MergeHeads(context)
	}
	out := l.out.forward(t, context)
	t.Drop(context, scores, q, k, v, qkv)
	t.AlsoReturns(probabilities)
	return out
}

// mptAlibi is build_mpt_alibi_tensor for the longest sequence.
func mptAlibi(t *step.Tape, heads, longest int64) step.T {
	power := int64(1) // the next power of two
	for power < heads {
		power *= 2
	}
	distances := t.Input(longest, step.F32)
	whole := t.Input(power, step.I64)
	float := t.Input(power, step.F32)
	t.Drop(whole)
	base := t.Input(power, step.F32)
	t.Drop(float)
	raised := t.Input(power, step.F32)
	t.Drop(t.Input(1, step.I64)) // the 2 that is raised
	inverse := t.Input(power, step.F32)
	slopes := t.Input(power, step.F32)
	t.Drop(inverse, raised)
	if power != heads {
		joined := t.Input(power, step.F32)
		t.Drop(slopes)
		slopes = joined
	}
	y := t.Input(heads*longest, step.F32)
	t.Drop(distances, base, slopes)
	return y
}

// mptMask is _prepare_4d_causal_attention_mask of the all-ones mask, in d, as booleans.
// Source: transformers/modeling_attn_mask_utils.py (AttentionMaskConverter.to_4d), 4.57.
func mptMask(t *step.Tape, d step.DType) step.T {
	n, b := t.Shape.Tokens, t.Shape.Batch
	if t.Recipe.Software.MasksByLibrary {
		additive := *causalMask(t, 0, d) // attention is always written out, and has one then
		mask := t.Input(b*n*n, step.Bool)
		t.Drop(additive)
		return mask
	}
	triangle := t.Input(n*n, step.F32)
	columns := t.Input(n, step.I64)
	next := t.Input(n, step.I64)
	below := t.Input(n*n, step.Bool)
	t.Drop(next, below)
	if d != step.F32 {
		cast := t.Input(n*n, d)
		t.Drop(triangle)
		triangle = cast
	}
	t.Drop(columns)
	given := t.Input(b*n*n, d)
	inverted := t.Input(b*n*n, d)
	absent := t.Input(b*n*n, step.Bool)
	expanded := t.Input(b*n*n, d)
	t.Drop(absent, given, inverted)
	masked := t.Input(b*n*n, step.Bool)
	joined := t.Input(b*n*n, d)
	t.Drop(masked, expanded, triangle)
	mask := t.Input(b*n*n, step.Bool)
	t.Drop(joined)
	return mask
}
