package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// SeedOSSFamily is Seed-OSS: Llama with a bias on queries, keys and values, and dropout inside attention and MLP.
// Source: transformers/models/seed_oss/modeling_seed_oss.py, configuration_seed_oss.py, 4.57.
var SeedOSSFamily = arch.Family{ModelType: "seed_oss", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 155136.0, "hidden_size": 4096.0, "intermediate_size": 27648.0, "num_hidden_layers": 64.0,
		"num_attention_heads": 80.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 524288.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": true,
		"attention_out_bias": false,
		"attention_dropout":  0.1, "residual_dropout": 0.1, "mlp_bias": false, "head_dim": 128.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.QKVBias, a.OutBias, a.MLPBias = c.Boolean("attention_bias"), c.Boolean("attention_out_bias"),
			c.Boolean("mlp_bias")
		a.ResidualDropout = c.Probability("residual_dropout")
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Drops, with.FeedForward = true, droppedMLP
		return blocks.BuildDecoder(b, with)
	}}

// droppedMLP is dropout(down(act(gate(x))·up(x))).
func droppedMLP(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, x step.T) step.T {
	gated := arch.GatedMLP{Gate: l.Gate, Up: l.Up, Down: l.Down}
	down := gated.Forward(t, m.A, x)
	y := t.Dropout(down, m.A.ResidualDropout)
	t.Drop(down)
	return y
}

// ArceeFamily is Arcee: Llama with an MLP without a gate.
// Source: transformers/models/arcee/modeling_arcee.py, configuration_arcee.py, 4.57.
var ArceeFamily = arch.Family{ModelType: "arcee", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 2560.0, "intermediate_size": 18432.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "relu2", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.Gated, a.MLPBias = false, c.Boolean("mlp_bias")
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) {
			a, d := b.A, b.A.Hidden
			blocks.DeclareProjections(b, l)
			l.Up, l.Down = b.Linear("mlp.up_proj", d, a.FFN, a.MLPBias), b.Linear("mlp.down_proj", a.FFN, d, a.MLPBias)
			l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, false),
				b.Norm("post_attention_layernorm", d, false)
		}
		return blocks.BuildDecoder(b, with)
	}}
