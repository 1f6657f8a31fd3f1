package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// MinistralFamily is Ministral: Mistral with a window in some of its layers.
// Source: transformers/models/ministral/modeling_ministral.py, configuration_ministral.py, 4.57 and 5.23.
var MinistralFamily = arch.Family{ModelType: "ministral", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Build:   buildLlama,
	Numbers: blocks.NoWindow,
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": false,
		"attention_dropout": 0.0, "sliding_window": 4096.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.SlidingWindow = c.Integer("sliding_window", arch.MaxRows)
		a = c.LayerTypes(a, func(int64) bool { return true })
		return a
	}}

// Ministral3Family is Ministral 3: Mistral whose queries are scaled by their positions.
// Source: transformers/models/ministral3/modeling_ministral3.py, configuration_ministral3.py, 5.23.
var Ministral3Family = arch.Family{ModelType: "ministral3", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 131072.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 34.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 262144.0, "use_cache": true, "tie_word_embeddings": false,
		"attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.SlidingWindow = c.Optional("sliding_window", arch.MaxRows)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.BehindRotary = func(_ *blocks.Decoder, t *step.Tape, _ *blocks.DecoderLayer, q, k step.T) (step.T,
			step.T) {
			return scaleByPosition(t, q), k
		}
		return blocks.BuildDecoder(b, with)
	}}

// scaleByPosition is query_states · get_llama_4_attn_scale(position_ids): one number for every position, computed in
// float32 from 1 + beta·log(1 + floor(position / original positions)). It takes over q.
func scaleByPosition(t *step.Tape, q step.T) step.T {
	const operations = 6
	scale := t.Table(t.Shape.Tokens, step.F32)
	for range operations - 1 {
		next := t.Table(t.Shape.Tokens, step.F32)
		t.Drop(scale)
		scale = next
	}
	factor := t.Cast(scale, q.Dtype(), step.LabelRotary)
	t.Drop(scale)
	y := t.Mul(q, factor, false, step.LabelRotary)
	t.Drop(factor, q)
	return y
}
