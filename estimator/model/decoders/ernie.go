package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Ernie45Family is ERNIE 4.5 without experts: Llama whose rotary positions turn neighbours, in float32.
// Source: transformers/models/ernie4_5/modeling_ernie4_5.py, configuration_ernie4_5.py, 4.57 and 5.23.
var Ernie45Family = arch.Family{ModelType: "ernie4_5", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 103424.0, "hidden_size": 1024.0, "intermediate_size": 3072.0, "num_hidden_layers": 18.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 2.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": true, "use_bias": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.AttentionDropout, a.UndroppedAttention = 0, true // the module does not ask the configuration
		a.QKVBias = c.Boolean("use_bias")
		a.OutBias, a.MLPBias = a.QKVBias, a.QKVBias
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Rotate, with.WideTables = RotateNeighboursWide, true
		return blocks.BuildDecoder(b, with)
	}}

// RotateNeighboursWide is ERNIE's apply_rotary_pos_emb: it repeats the first half of cosines and sines for neighbours,
// turns in float32 and casts back.
func RotateNeighboursWide(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	cos, sin := t.Table(w.Cos.Numel(), w.Cos.Dtype()), t.Table(w.Sin.Numel(), w.Sin.Dtype())
	qw, kw := t.WideRotary(q, cos, sin), t.WideRotary(k, cos, sin)
	qr, kr = t.Cast(qw, q.Dtype(), step.LabelRotary), t.Cast(kw, k.Dtype(), step.LabelRotary)
	t.Drop(qw, kw, cos, sin)
	return qr, kr
}
