package model

import "github.com/vramplan/vramplan/estimator/step"

var falconFamily = family{modelType: "falcon",
	keys: fieldNames{heads: "num_attention_heads", hidden: "hidden_size", kv: "num_kv_heads", dim: "hidden_size"},
	defaults: map[string]any{
		"vocab_size": 65024.0, "hidden_size": 4544.0, "num_hidden_layers": 32.0, "num_attention_heads": 71.0,
		"use_cache":      true,
		"hidden_dropout": 0.0, "attention_dropout": 0.0, "alibi": false, "new_decoder_architecture": false,
		"multi_query":   true,
		"parallel_attn": true, "bias": false, "max_position_embeddings": 2048.0, "activation": "gelu",
		"tie_word_embeddings": true},
	read: (*config).falcon,
	spelled: map[string]string{"num_key_value_heads": "num_kv_heads", "intermediate_size": "ffn_hidden_size",
		"attention_bias": "bias", "residual_dropout": "hidden_dropout"},
	numbers: func(p *Preset, c map[string]any) {
		c["new_decoder_architecture"], c["multi_query"] = p.KVHeads > 1, p.KVHeads == 1
		c["num_ln_in_parallel_attn"] = float64(max(p.NormsPerLayer, 1))
	},
	build: buildFalcon,
}

// falconOptions is what only Falcon's configuration says.
type falconOptions struct {
	// parallel runs attention and MLP beside each other; twoNorms gives each a norm of its own.
	parallel, twoNorms bool
	// grouped is the newer decoder: several heads of keys and values, written out for all queries.
	grouped bool
	// alibi biases the scores by distance instead of turning queries and keys.
	alibi bool
}

func (c *config) falcon(a *Architecture) {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer(c.either("n_embed", "hidden_size"), maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	own := falconOptions{parallel: c.boolean("parallel_attn"), grouped: c.boolean("new_decoder_architecture"),
		alibi: c.boolean("alibi")}
	switch {
	case own.grouped:
		if a.KVHeads = c.optional("num_kv_heads", maxWidth); a.KVHeads == 0 {
			a.KVHeads = a.Heads
		}
		own.twoNorms = own.parallel && c.norms() == 2
	case c.boolean("multi_query"):
		a.KVHeads = 1
	default:
		a.KVHeads = a.Heads
	}
	if a.FFN = c.optional("ffn_hidden_size", maxRows); a.FFN == 0 {
		a.FFN = 4 * a.Hidden
	}
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	a.Activation = c.activation("activation", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "silu")
	a.ResidualDropout, a.AttentionDropout = c.probability("hidden_dropout"), c.probability("attention_dropout")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	a.QKVBias = c.boolean("bias")
	a.OutBias, a.MLPBias, a.NormBias, a.Rotary = a.QKVBias, a.QKVBias, true, true
	a.own, a.NoFlash = own, own.alibi
	c.refuseFalcon(own, a)
}

// norms is num_ln_in_parallel_attn, which is 2 where the newer decoder's file leaves it out.
func (c *config) norms() int64 {
	if n := c.optional("num_ln_in_parallel_attn", maxLayers); n != 0 {
		return n
	}
	return 2
}

func (c *config) refuseFalcon(own falconOptions, a *Architecture) {
	refuse := func(key, what string) {
		c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is not modelled", what)
	}
	switch {
	case own.alibi && a.KVHeads == 1 && a.Heads > 1:
		refuse("alibi", "alibi with a single head of keys and values")
	case own.grouped && !own.parallel:
		refuse("parallel_attn", "the new decoder architecture without parallel attention")
	case own.grouped && a.KVHeads == 1 && a.Heads > 1:
		refuse("num_kv_heads", "the new decoder architecture with a single head of keys and values")
	case own.grouped && c.norms() > 2:
		refuse("num_ln_in_parallel_attn", "more than two norms")
	case !own.grouped && c.optional("num_ln_in_parallel_attn", maxLayers) == 2:
		refuse("num_ln_in_parallel_attn", "two norms without the new decoder architecture")
	}
}

// falcon is transformers' FalconForCausalLM (modeling_falcon.py, 4.57).
type falcon struct {
	a           *Architecture
	own         falconOptions
	embed       step.Weight
	head        linear
	layers      []falconLayer
	final       norm
	mask, alibi *step.T
	cos, sin    step.T
	cache       []step.T
}

type falconLayer struct {
	qkv, dense, up, down linear
	// attentionNorm is ln_attn or input_layernorm, mlpNorm ln_mlp or post_attention_layernorm.
	attentionNorm, mlpNorm norm
}

func buildFalcon(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	m := &falcon{a: a, own: a.own.(falconOptions), layers: make([]falconLayer, b.recorded)}
	linear := func(name string, in, out int64, bias bool) linear {
		l := b.linear(name, in, out, bias)
		l.apart = true
		return l
	}
	m.embed = b.embedding("word_embeddings", a.Vocabulary, d)
	b.stack(func(i int64) {
		l := &m.layers[i]
		l.qkv, l.dense = linear("self_attention.query_key_value", d, d+2*a.KVHeads*a.HeadDim, a.QKVBias),
			linear("self_attention.dense", d, d, a.OutBias)
		l.up, l.down = linear("mlp.dense_h_to_4h", d, a.FFN, a.MLPBias),
			linear("mlp.dense_4h_to_h", a.FFN, d, a.MLPBias)
		switch {
		case !m.own.parallel:
			l.mlpNorm, l.attentionNorm = b.norm("post_attention_layernorm", d, true), b.norm("input_layernorm", d, true)
		case m.own.twoNorms:
			l.attentionNorm, l.mlpNorm = b.norm("ln_attn", d, true), b.norm("ln_mlp", d, true)
		default:
			l.attentionNorm = b.norm("input_layernorm", d, true)
		}
	})
	m.final = b.norm("ln_f", d, true)
	b.frequencies("rotary_emb.", a.HeadDim/2)
	m.head = b.head("lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *falcon) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *falcon) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.SumsAgain()
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	m.alibi = nil
	if m.own.alibi {
		bias := alibi(t, m.a.Heads, true, embedded.Dtype())
		m.alibi = &bias
	}
	positions := positionNumbers(t)
	if m.own.alibi {
		mask := alibiMask(t, m.a.Heads, embedded.Dtype())
		m.mask = &mask
	} else if t.Recipe.Software.MasksByLibrary {
		m.mask = maskOf(t, tokensOfMask{count: t.Shape.Tokens}, embedded.Dtype(), false)
	} else {
		m.mask = triangularMask(t, embedded.Dtype())
	}
	m.cos, m.sin = rotaryTables(t, m.a.HeadDim, embedded.Dtype())
	captured := []step.T{positions, m.cos, m.sin}
	for _, shared := range [...]*step.T{m.mask, m.alibi} {
		if shared != nil {
			captured = append(captured, *shared)
		}
	}
	x, probabilities := runPairs(t, m.a, len(m.layers), t.Hold(embedded), step.Besides{Captured: captured}, m.layer)

	t.In(step.PartNorm)
	normed := m.final.layer(t, x)
	t.Drop(x)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	t.Drop(embedded)
	for _, c := range captured {
		t.Drop(c)
	}
	logits := t.CloseSection(step.HeadSection, m.head.logits(t, normed))
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

func (m *falcon) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	attentionIn := l.attentionNorm.layer(t, x)
	mlpIn := attentionIn
	if m.own.twoNorms {
		mlpIn = l.mlpNorm.layer(t, x)
	} else {
		t.Hold(mlpIn)
	}
	t.In(step.PartAttention)
	attn := m.attention(t, l, attentionIn)
	t.In(step.PartNorm)
	residual := t.Hold(x)
	if !m.own.parallel {
		t.Drop(mlpIn, residual)
		residual = dropoutAdd(t, t.Hold(attn), x, m.a.AttentionDropout)
		mlpIn = l.mlpNorm.layer(t, residual)
	}
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, mlpIn)
	if m.own.parallel {
		mlp = t.AddInPlace(mlp, attn)
	}
	t.In(step.PartNorm)
	y := dropoutAdd(t, mlp, residual, m.a.ResidualDropout)
	t.Drop(attentionIn, mlpIn, attn, residual)
	return y
}

func (m *falcon) attention(t *step.Tape, l *falconLayer, x step.T) step.T {
	qkv := l.qkv.forward(t, x)
	q, k, v := m.split(t, qkv)
	if !m.own.alibi {
		qr, kr := t.Rotary(q, m.cos, m.sin), t.Rotary(k, m.cos, m.sin)
		t.Drop(q, k)
		q, k = qr, kr
	}
	k, v = appendKV(t, &m.cache, k, v)
	if m.mask != nil && t.Recipe.Attention != step.AttentionEager && !t.Recipe.Software.MasksByLibrary {
		q, k, v = t.HeadsContiguous(q), t.HeadsContiguous(k), t.HeadsContiguous(v)
	}
	y, held := m.attend(t, q, k, v, x.Dtype())
	out := l.dense.forward(t, y)
	t.Drop(append(held, y, qkv, q, k, v)...)
	return out
}

// split is _split_heads. The newer decoder writes keys and values out for every query head.
func (m *falcon) split(t *step.Tape, qkv step.T) (q, k, v step.T) {
	width := t.Shape.N() * m.a.Hidden
	one := t.Shape.N() * m.a.KVHeads * m.a.HeadDim
	if m.a.KVHeads == m.a.Heads && !m.own.grouped {
		return t.Slice(qkv, width), t.Slice(qkv, width), t.Slice(qkv, width)
	}
	copies := m.a.KVHeads == m.a.Heads && m.a.Heads > 1 && t.CopiesKVGradient(m.a.geometry(), m.mask != nil,
		t.Recipe.UseCache)
	q, k, v = t.Slice(qkv, width), t.Pick(qkv, one, copies), t.Pick(qkv, one, copies)
	if !m.own.grouped || m.a.KVHeads == m.a.Heads {
		return q, k, v
	}
	keys, values := t.Broadcast(k, width), t.Broadcast(v, width)
	written := [3]step.T{t.Contiguous(q), t.Contiguous(keys), t.Contiguous(values)}
	t.Drop(q, k, v, keys, values)
	return written[0], written[1], written[2]
}

// attend returns the output with tokens first, and what else its variables hold. Written out, the softmax runs in the
// type d of the layer's input.
func (m *falcon) attend(t *step.Tape, q, k, v step.T, d step.DType) (step.T, []step.T) {
	heads := m.a.geometry()
	if m.own.grouped {
		heads.KV = heads.Query
	}
	if t.Recipe.Attention == step.AttentionEager {
		y, p, held := t.FalconEager(step.FalconAttention{Heads: heads, Mask: *m.mask, Alibi: m.alibi,
			Dropout: m.a.AttentionDropout, Softmax: d}, q, k, v)
		t.AlsoReturns(p)
		return y, held
	}
	// FlashAttention itself takes grouped heads
	broadcast := heads.KV < heads.Query && t.Recipe.Attention == step.AttentionSDPA &&
		!t.BroadcastsHeads(heads, m.mask != nil)
	if m.mask != nil && !broadcast {
		return t.MaskedSDPA(q, k, v, *m.mask, heads, m.a.AttentionDropout), nil
	}
	qc, kc, vc := t.AutocastQKV(q, k, v)
	var y step.T
	if broadcast {
		y = t.BroadcastAttention(qc, kc, vc, heads, m.mask)
	} else {
		y = t.SDPA(qc, kc, vc, heads, nil, 0)
	}
	t.Drop(qc, kc, vc)
	if broadcast {
		out := t.Contiguous(y)
		t.Drop(y)
		return out, nil
	}
	return t.TokensFirst(y, heads, false), nil
}

func (m *falcon) mlp(t *step.Tape, l *falconLayer, x step.T) step.T {
	up := l.up.forward(t, x)
	act := activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.forward(t, act)
	t.Drop(act)
	return down
}

func (m *falcon) plainHead() bool { return true }
