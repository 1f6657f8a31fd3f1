package model

import "github.com/vramplan/vramplan/estimator/step"

// InternLM2 is not in transformers: its code comes with its weights. It is Llama with one matrix for queries, keys and
// values, and is marked as run through the nearest block.
var internLM2Family = family{modelType: "internlm2", keys: commonKeys, build: buildInternLM2,
	defaults: map[string]any{
		"vocab_size": 103168.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "bias": true},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = c.boolean("bias")
		a.OutBias, a.Generic = a.QKVBias, true
	},
	spelled: map[string]string{"attention_bias": "bias"}}

func buildInternLM2(b *builder) step.Network {
	with := likeLlama()
	with.declare, with.project = declareInternLM2, (*decoder).projectFused
	return b.decoder(with)
}

// declareInternLM2 lists the modules of InternLM2DecoderLayer.
func declareInternLM2(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.qkv, l.out = b.linear("attention.wqkv", d, q+2*kv, a.QKVBias), b.linear("attention.wo", q, d, a.OutBias)
	l.gate, l.up = b.linear("feed_forward.w1", d, a.FFN, false), b.linear("feed_forward.w3", d, a.FFN, false)
	l.down = b.linear("feed_forward.w2", a.FFN, d, false)
	l.inputNorm, l.postAttentionNorm = b.norm("attention_norm", d, false), b.norm("ffn_norm", d, false)
}

// projectFused is wqkv, from which queries are copied while keys and values are views.
func (m *decoder) projectFused(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c, h := m.copies(t, w), m.a.geometry()
	qkv := l.qkv.forward(t, x)
	tokens := t.Shape.N()
	queries := t.Slice(qkv, tokens*h.Width())
	q = t.Heads(t.Contiguous(queries), c.query)
	t.Drop(queries)
	k = t.Heads(t.Slice(qkv, tokens*h.KVWidth()), c.key)
	v = t.Heads(t.Slice(qkv, tokens*h.KVWidth()), c.value)
	t.Drop(qkv)
	return q, k, v
}
