package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// FalconFamily is Falcon.
var FalconFamily = arch.Family{ModelType: "falcon", Classes: arch.ClassifyingLM, OwnClasses: true,
	Keys: arch.FieldNames{Heads: "num_attention_heads", Hidden: "hidden_size", KV: "num_kv_heads", Dim: "hidden_size"},
	Defaults: map[string]any{
		"vocab_size": 65024.0, "hidden_size": 4544.0, "num_hidden_layers": 32.0, "num_attention_heads": 71.0,
		"use_cache":      true,
		"hidden_dropout": 0.0, "attention_dropout": 0.0, "alibi": false, "new_decoder_architecture": false,
		"multi_query":   true,
		"parallel_attn": true, "bias": false, "max_position_embeddings": 2048.0, "activation": "gelu",
		"output_attentions":   false,
		"tie_word_embeddings": true},
	Read: readFalcon,
	Spelled: map[string]string{"num_key_value_heads": "num_kv_heads", "intermediate_size": "ffn_hidden_size",
		"attention_bias": "bias", "residual_dropout": "hidden_dropout"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		c["new_decoder_architecture"], c["multi_query"] = p.KVHeads > 1, p.KVHeads == 1
		c["num_ln_in_parallel_attn"] = float64(max(p.NormsPerLayer, 1))
	},
	Build: buildFalcon,
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

func readFalcon(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer("num_hidden_layers", arch.MaxLayers)
	a.Hidden = c.Integer(either(c, "n_embed", "hidden_size"), arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	own := falconOptions{parallel: c.Boolean("parallel_attn"), grouped: c.Boolean("new_decoder_architecture"),
		alibi: c.Boolean("alibi")}
	switch {
	case own.grouped:
		if a.KVHeads = c.Optional("num_kv_heads", arch.MaxWidth); a.KVHeads == 0 {
			a.KVHeads = a.Heads
		}
		own.twoNorms = own.parallel && norms(c) == 2
	case c.Boolean("multi_query"):
		a.KVHeads = 1
	default:
		a.KVHeads = a.Heads
	}
	if a.FFN = c.Optional("ffn_hidden_size", arch.MaxRows); a.FFN == 0 {
		a.FFN = 4 * a.Hidden
	}
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	a.Activation = c.Activation("activation", "gelu", "gelu_pytorch_tanh", "gelu_new", "relu", "silu")
	a.ResidualDropout, a.AttentionDropout = c.Probability("hidden_dropout"), c.Probability("attention_dropout")
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	a.QKVBias = c.Boolean("bias")
	a.EagerOnly = c.Boolean("output_attentions") // FalconAttention writes out what it is to return
	a.OutBias, a.MLPBias, a.NormBias, a.Rotary = a.QKVBias, a.QKVBias, true, true
	a.Own, a.NoFlash = own, own.alibi
	refuseFalcon(c, own, &a)
	return a
}

// norms is num_ln_in_parallel_attn, which is 2 where the newer decoder's file leaves it out.
func norms(c *arch.Config) int64 {
	if n := c.Optional("num_ln_in_parallel_attn", arch.MaxLayers); n != 0 {
		return n
	}
	return 2
}

func refuseFalcon(c *arch.Config, own falconOptions, a *arch.Architecture) {
	refuse := func(key, what string) {
		c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is not modelled", what)
	}
	switch {
	case own.alibi && a.KVHeads == 1 && a.Heads > 1:
		refuse("alibi", "alibi with a single head of keys and values")
	case own.grouped && !own.parallel:
		refuse("parallel_attn", "the new decoder architecture without parallel attention")
	case own.grouped && a.KVHeads == 1 && a.Heads > 1:
		refuse("num_kv_heads", "the new decoder architecture with a single head of keys and values")
	case own.grouped && norms(c) > 2:
		refuse("num_ln_in_parallel_attn", "more than two norms")
	case !own.grouped && c.Optional("num_ln_in_parallel_attn", arch.MaxLayers) == 2:
		refuse("num_ln_in_parallel_attn", "two norms without the new decoder architecture")
	}
}

// falcon is transformers' FalconForCausalLM (modeling_falcon.py, 4.57).
type falcon struct {
	a           *arch.Architecture
	own         falconOptions
	embed       step.Weight
	head        arch.Linear
	layers      []falconLayer
	final       arch.Norm
	mask, alibi *step.T
	cos, sin    step.T
	cache       []step.T
}

type falconLayer struct {
	qkv, dense, up, down arch.Linear
	// attentionNorm is ln_attn or input_layernorm, mlpNorm ln_mlp or post_attention_layernorm.
	attentionNorm, mlpNorm arch.Norm
}

func buildFalcon(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &falcon{a: a, own: a.Own.(falconOptions), layers: make([]falconLayer, b.Recorded)}
	linear := func(name string, in, out int64, bias bool) arch.Linear {
		l := b.Linear(name, in, out, bias)
		l.Apart = true
		return l
	}
	m.embed = b.Embedding("word_embeddings", a.Vocabulary, d)
	b.StackAt("transformer.h", func(i int64) {
		l := &m.layers[i]
		l.qkv, l.dense = linear("self_attention.query_key_value", d, d+2*a.KVHeads*a.HeadDim, a.QKVBias),
			linear("self_attention.dense", d, d, a.OutBias)
		l.up, l.down = linear("mlp.dense_h_to_4h", d, a.FFN, a.MLPBias),
			linear("mlp.dense_4h_to_h", a.FFN, d, a.MLPBias)
		switch {
		case !m.own.parallel:
			l.mlpNorm, l.attentionNorm = b.Norm("post_attention_layernorm", d, true), b.Norm("input_layernorm", d, true)
		case m.own.twoNorms:
			l.attentionNorm, l.mlpNorm = b.Norm("ln_attn", d, true), b.Norm("ln_mlp", d, true)
		default:
			l.attentionNorm = b.Norm("input_layernorm", d, true)
		}
	})
	m.final = b.Norm("ln_f", d, true)
	b.Frequencies("rotary_emb.", a.HeadDim/2)
	m.head = blocks.DecoderHead(b, "lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *falcon) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *falcon) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.SumsAgain()
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	m.alibi = nil
	if m.own.alibi {
		bias := blocks.Alibi(t, m.a.Heads, true, embedded.Dtype())
		m.alibi = &bias
	}
	positions := blocks.PositionNumbers(t)
	if m.own.alibi {
		mask := blocks.AlibiMask(t, m.a.Heads, embedded.Dtype())
		m.mask = &mask
	} else if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		m.mask = blocks.MaskOf(t, blocks.TokensOfMask{Count: t.Shape.Tokens}, embedded.Dtype(), false)
	} else {
		m.mask = blocks.TriangularMask(t, embedded.Dtype())
	}
	m.cos, m.sin = blocks.RotaryTables(t, m.a.HeadDim, embedded.Dtype())
	captured := []step.T{positions, m.cos, m.sin}
	for _, shared := range [...]*step.T{m.mask, m.alibi} {
		if shared != nil {
			captured = append(captured, *shared)
		}
	}
	x, probabilities := blocks.RunPairs(t, m.a, len(m.layers), t.Hold(embedded), step.Besides{Captured: captured},
		m.layer)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	t.Drop(embedded)
	for _, c := range captured {
		t.Drop(c)
	}
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

func (m *falcon) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	attentionIn := l.attentionNorm.Layer(t, x)
	mlpIn := attentionIn
	if m.own.twoNorms {
		mlpIn = l.mlpNorm.Layer(t, x)
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
		mlpIn = l.mlpNorm.Layer(t, residual)
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
	qkv := l.qkv.Forward(t, x)
	q, k, v := m.split(t, qkv)
	if !m.own.alibi {
		qr, kr := t.Rotary(q, m.cos, m.sin), t.Rotary(k, m.cos, m.sin)
		t.Drop(q, k)
		q, k = qr, kr
	}
	k, v = blocks.AppendKV(t, &m.cache, k, v)
	if m.mask != nil && t.Recipe.Attention != step.AttentionEager && !t.Recipe.Software.Has(blocks.MasksByLibrary) {
		q, k, v = t.HeadsContiguous(q), t.HeadsContiguous(k), t.HeadsContiguous(v)
	}
	y, held := m.attend(t, q, k, v, x.Dtype())
	out := l.dense.Forward(t, y)
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
	copies := m.a.KVHeads == m.a.Heads && m.a.Heads > 1 && t.CopiesKVGradient(m.a.Geometry(), m.mask != nil,
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
	heads := m.a.Geometry()
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
	up := l.up.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	t.Drop(act)
	return down
}

func (m *falcon) PlainHead() bool { return !m.a.Classes() }
