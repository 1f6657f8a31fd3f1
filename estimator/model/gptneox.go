package model

import "github.com/vramplan/vramplan/estimator/step"

var gptNeoXFamily = family{modelType: "gpt_neox", keys: commonKeys, build: buildGPTNeoX,
	defaults: map[string]any{
		"vocab_size": 50432.0, "hidden_size": 6144.0, "intermediate_size": 24576.0, "num_hidden_layers": 44.0,
		"num_attention_heads": 64.0, "hidden_act": "gelu", "rotary_pct": 0.25, "max_position_embeddings": 2048.0,
		"attention_dropout": 0.0, "hidden_dropout": 0.0, "use_cache": true, "tie_word_embeddings": false,
		"use_parallel_residual": true, "attention_bias": true},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.Gated, a.Rotary = false, false
		a.KVHeads = a.Heads
		a.HeadDim = 0
		if a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		a.EmbeddingDropout = c.probability("hidden_dropout")
		a.ResidualDropout = a.EmbeddingDropout
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias, a.MLPBias, a.NormBias = a.QKVBias, true, true
		a.own = &partialRotary{width: c.rotaryFraction("rotary_pct", a, true),
			parallel: c.boolean("use_parallel_residual")}
	}}

// gptNeoX is transformers' GPTNeoXForCausalLM (modeling_gpt_neox.py, 4.57).
type gptNeoX struct {
	a        *Architecture
	embed    step.Weight
	head     linear
	layers   []gptNeoXLayer
	final    norm
	mask     *step.T
	cos, sin step.T
	cache    []step.T
}

type gptNeoXLayer struct {
	inputNorm, postAttentionNorm norm
	qkv, dense, up, down         linear
}

func buildGPTNeoX(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	m := &gptNeoX{a: a, layers: make([]gptNeoXLayer, b.recorded)}
	m.embed = b.embedding("embed_in", a.Vocabulary, d)
	b.inputSection()
	b.stack(func(i int64) {
		l := &m.layers[i]
		l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, true),
			b.norm("post_attention_layernorm", d, true)
		l.qkv = b.linear("attention.query_key_value", d, 3*d, a.QKVBias)
		l.dense = b.linear("attention.dense", d, d, a.OutBias)
		if a.BufferSide > 0 {
			b.buffer("attention.bias", a.BufferSide*a.BufferSide, step.Bool)
		}
		l.up, l.down = b.linear("mlp.dense_h_to_4h", d, a.FFN, true), b.linear("mlp.dense_4h_to_h", a.FFN, d, true)
	})
	m.final = b.norm("final_layer_norm", d, true)
	b.finalNormSection(true)
	b.frequencies("rotary_emb.", a.rotary().width/2)
	m.head = b.head("embed_out", d, false)
	b.headSection(m.head)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *gptNeoX) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *gptNeoX) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	if m.a.rotary().parallel {
		t.SumsAgain()
	}
	t.In(step.PartEmbedding)
	embedded := t.Section(step.InputSection, ids, func(ids step.T) step.T {
		return t.Embedding(ids, m.embed, step.LabelEmbedding)
	})
	positions := positionNumbers(t)
	m.mask = causalMask(t, 0, embedded.Dtype())
	x := t.Dropout(embedded, m.a.EmbeddingDropout)
	m.cos, m.sin = rotaryTables(t, m.a.rotary().width, x.Dtype())

	locals := []step.T{positions, m.cos, m.sin}
	if m.mask != nil {
		locals = append(locals, *m.mask)
	}
	x = runLayers(t, m.a, len(m.layers), x, step.Besides{Captured: locals}, m.layer)

	x = t.OpenSection(step.HeadSection, x)
	t.In(step.PartNorm)
	normed := m.final.layer(t, x)
	t.Drop(x, embedded)
	t.Drop(locals...)
	logits := t.CloseSection(step.HeadSection, m.head.logits(t, normed))
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

// layer is x + attention(ln1(x)) + mlp(ln2(x)), or ln2 and the MLP on the sum with attention's output.
func (m *gptNeoX) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.inputNorm.layer(t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, h)
	t.Drop(h)
	dropped := t.Dropout(attn, m.a.ResidualDropout)
	t.Drop(attn)
	attn = dropped

	t.In(step.PartNorm)
	var y step.T
	if m.a.rotary().parallel {
		mlp := m.mlp(t, l, x)
		both := t.Add(mlp, attn, step.LabelResidual)
		y = t.Add(both, x, step.LabelResidual)
		t.Drop(both, mlp)
	} else {
		sum := t.Add(attn, x, step.LabelResidual)
		t.Drop(attn)
		attn = sum
		mlp := m.mlp(t, l, attn)
		y = t.Add(mlp, attn, step.LabelResidual)
		t.Drop(mlp)
	}
	t.Drop(attn)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention returns its output and, where they are formed, the probabilities.
func (m *gptNeoX) attention(t *step.Tape, l *gptNeoXLayer, x step.T) (step.T, *step.T) {
	qkv := t.Heads(l.qkv.forward(t, x), m.a.Heads > 1)
	q, k, v := t.Split3(qkv)
	qr, kr := m.rotate(t, q, k)
	t.Drop(q, k)
	q = qr
	k, v = appendKV(t, &m.cache, kr, v)
	y, probabilities := attend(t, m.a, m.mask, q, k, v)
	out := l.dense.forward(t, y)
	t.Drop(y, q, k, v, qkv)
	return out, probabilities
}

// rotate is apply_rotary_pos_emb.
func (m *gptNeoX) rotate(t *step.Tape, q, k step.T) (qr, kr step.T) {
	p := m.a.rotary()
	qs, ks := p.split(t, q, m.a.HeadDim), p.split(t, k, m.a.HeadDim)
	qe, ke := t.Rotary(qs.turned, m.cos, m.sin), t.Rotary(ks.turned, m.cos, m.sin)
	qr = t.JoinHeads(qe, qs.rest)
	t.Drop(qe)
	kr = t.JoinHeads(ke, ks.rest)
	t.Drop(ke)
	qs.drop(t)
	ks.drop(t)
	return qr, kr
}

// mlp is post_mlp_dropout(mlp(post_attention_layernorm(x))).
func (m *gptNeoX) mlp(t *step.Tape, l *gptNeoXLayer, x step.T) step.T {
	h := l.postAttentionNorm.layer(t, x)
	t.In(step.PartMLP)
	up := l.up.forward(t, h)
	act := activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.forward(t, act)
	t.Drop(act, h)
	t.In(step.PartNorm)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}

func (m *gptNeoX) plainHead() bool { return true }
