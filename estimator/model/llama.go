package model

import "github.com/vramplan/vramplan/estimator/step"

// llama reads the keys that most decoders share.
func (c *config) llama(a *Architecture) {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	if a.KVHeads = c.optional("num_key_value_heads", maxWidth); a.KVHeads == 0 {
		a.KVHeads = a.Heads
	}
	if a.HeadDim = c.optional("head_dim", maxWidth); a.HeadDim == 0 && a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	a.Activation = c.activation("hidden_act", "silu", "swish", "gelu", "gelu_pytorch_tanh", "relu")
	a.AttentionDropout = c.probability("attention_dropout")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	a.Gated, a.Rotary = true, true
}

// llamaPreset completes a catalog entry of a decoder that is written like Llama.
func llamaPreset(_ *Preset, a *Architecture) { a.Activation, a.Gated, a.Rotary = "silu", true, true }

var llamaFamily = family{keys: commonKeys, build: buildLlama, preset: llamaPreset,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias = a.QKVBias
		a.MLPBias = c.boolean("mlp_bias")
	}}

var mistralFamily = family{keys: commonKeys, build: buildLlama, preset: llamaPreset,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu", "max_position_embeddings": 131072.0,
		"use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0, "sliding_window": 4096.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.SlidingWindow = c.optional("sliding_window", maxRows)
	}}

var qwen2Family = family{keys: commonKeys, build: buildLlama, preset: llamaPreset,
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 32768.0,
		"use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0, "use_sliding_window": false},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = true
		c.refuseSlidingWindow()
	}}

var qwen3Family = family{keys: commonKeys, build: buildLlama, preset: llamaPreset,
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "use_sliding_window": false},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKNorm = true
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias = a.QKVBias
		c.refuseSlidingWindow()
	}}

var smolLM3Family = family{keys: commonKeys, build: buildLlama,
	preset: func(p *Preset, a *Architecture) {
		llamaPreset(p, a)
		a.NoRotaryEvery = 4
	},
	defaults: map[string]any{
		"vocab_size": 128256.0, "hidden_size": 2048.0, "intermediate_size": 11008.0, "num_hidden_layers": 36.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 4.0, "hidden_act": "silu", "max_position_embeddings": 32768.0,
		"use_cache": true, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0,
		"no_rope_layer_interval": 4.0, "use_sliding_window": false},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias = a.QKVBias
		a.MLPBias = c.boolean("mlp_bias")
		a.NoRotaryEvery = c.optional("no_rope_layer_interval", maxLayers)
		c.refuseSlidingWindow()
	}}

// llama is transformers' LlamaForCausalLM and the decoders that are written like it: Mistral, Qwen2, Qwen3,
// SmolLM3 (modeling_llama.py and its modular children, 4.57).
type llama struct {
	a           *Architecture
	embed, head step.Weight
	layers      []llamaLayer
	final       norm
	mask        *step.T
	cos, sin    step.T
	cache       []step.T
}

type llamaLayer struct {
	q, k, v, out                 linear
	qNorm, kNorm                 norm
	gate, up, down               linear
	inputNorm, postAttentionNorm norm
}

func buildLlama(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	m := &llama{a: a, layers: make([]llamaLayer, b.recorded)}
	m.embed = b.embedding("embed_tokens", a.Vocabulary, d)
	b.stack(func(i int64) {
		l := &m.layers[i]
		l.q, l.k = b.linear("self_attn.q_proj", d, q, a.QKVBias), b.linear("self_attn.k_proj", d, kv, a.QKVBias)
		l.v, l.out = b.linear("self_attn.v_proj", d, kv, a.QKVBias), b.linear("self_attn.o_proj", q, d, a.OutBias)
		if a.QKNorm {
			l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
		}
		l.gate, l.up = b.linear("mlp.gate_proj", d, a.FFN, a.MLPBias), b.linear("mlp.up_proj", d, a.FFN, a.MLPBias)
		l.down = b.linear("mlp.down_proj", a.FFN, d, a.MLPBias)
		l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, false), b.norm("post_attention_layernorm", d, false)
	})
	m.final = b.norm("norm", d, false)
	b.buffer("rotary_emb.inv_freq", a.HeadDim/2, step.F32)
	m.head = m.embed
	if !a.Tied {
		m.head = b.parameter("lm_head", a.Vocabulary, d)
	}
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *llama) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *llama) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := t.Input(t.Shape.Tokens, step.I64)
	m.mask = causalMask(t, m.a, embedded.Dtype())
	m.cos, m.sin = rotaryTables(t, m.a.HeadDim, embedded.Dtype())

	captured := []step.T{positions, m.cos, m.sin}
	if m.mask != nil {
		captured = append(captured, *m.mask)
	}
	x := runLayers(t, m.a, len(m.layers), t.Hold(embedded), step.Besides{Captured: captured}, m.layer)

	t.In(step.PartNorm)
	normed := m.final.rms(t, x)
	t.Drop(x)
	t.Drop(embedded)
	t.Drop(positions)
	t.Drop(m.cos)
	t.Drop(m.sin)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	logits := t.Head(normed, m.head, step.NoWeight)
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

// layer is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
func (m *llama) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.inputNorm.rms(t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, h, m.a.NoRotaryEvery == 0 || (int64(i)+1)%m.a.NoRotaryEvery != 0)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attn, step.LabelResidual)
	t.Drop(attn)

	h = l.postAttentionNorm.rms(t, middle)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
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
func (m *llama) attention(t *step.Tape, l *llamaLayer, x step.T, rotary bool) (step.T, *step.T) {
	a := m.a
	heads := a.geometry()
	eager := t.Recipe.Attention == step.AttentionEager
	repeated := heads.KV < heads.Query && (eager || m.mask != nil)
	cached := t.Recipe.UseCache

	project := func(p linear, g *norm, copyBack bool) step.T {
		y := t.Heads(p.forward(t, x), copyBack)
		if g == nil || !a.QKNorm {
			return y
		}
		n := g.rms(t, y)
		t.Drop(y)
		return n
	}
	q := project(l.q, &l.qNorm, rotary || t.CopiesQueryGradient(heads, m.mask != nil))
	copied := t.CopiesKVGradient(heads, m.mask != nil, cached)
	k := project(l.k, &l.kNorm, rotary || copied)
	v := project(l.v, nil, copied)

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
	out := l.out.forward(t, y)
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

func (m *llama) mlp(t *step.Tape, l *llamaLayer, x step.T) step.T {
	gate := l.gate.forward(t, x)
	act := activation(t, m.a.Activation, gate)
	t.Drop(gate)
	up := l.up.forward(t, x)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act)
	t.Drop(up)
	down := l.down.forward(t, product)
	t.Drop(product)
	return down
}
