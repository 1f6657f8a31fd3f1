package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// InternLM2Family is InternLM2, which is not in transformers: its code comes with its weights. It is Llama with one
// matrix for queries, keys and values, and is marked as run through the nearest block.
var InternLM2Family = arch.Family{ModelType: "internlm2", Keys: arch.CommonKeys, Build: buildInternLM2,
	Defaults: map[string]any{
		"vocab_size": 103168.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "bias": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.QKVBias = c.Boolean("bias")
		a.OutBias, a.Generic = a.QKVBias, true
		return a
	},
	Spelled: map[string]string{"attention_bias": "bias"}}

func buildInternLM2(b *arch.Builder) step.Network {
	with := blocks.LikeLlama()
	with.Declare, with.Project = declareInternLM2, projectFused
	return blocks.BuildDecoder(b, with)
}

// declareInternLM2 lists the modules of InternLM2DecoderLayer.
func declareInternLM2(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.QKV, l.Out = b.Linear("attention.wqkv", d, q+2*kv, a.QKVBias), b.Linear("attention.wo", q, d, a.OutBias)
	l.Gate, l.Up = b.Linear("feed_forward.w1", d, a.FFN, false), b.Linear("feed_forward.w3", d, a.FFN, false)
	l.Down = b.Linear("feed_forward.w2", a.FFN, d, false)
	l.InputNorm, l.PostAttentionNorm = b.Norm("attention_norm", d, false), b.Norm("ffn_norm", d, false)
}

// projectFused is wqkv, from which queries are copied while keys and values are views.
func projectFused(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (q, k,
	v step.T) {
	c, h := m.Copies(t, w), m.A.Geometry()
	qkv := l.QKV.Forward(t, x)
	tokens := t.Shape.N()
	queries := t.Slice(qkv, tokens*h.Width())
	q = t.Heads(t.Contiguous(queries), c.Query)
	t.Drop(queries)
	k = t.Heads(t.Slice(qkv, tokens*h.KVWidth()), c.Key)
	v = t.Heads(t.Slice(qkv, tokens*h.KVWidth()), c.Value)
	t.Drop(qkv)
	return q, k, v
}
