package model

import "github.com/vramplan/vramplan/estimator/step"

// Seed-OSS: Llama with a bias on queries, keys and values, and dropout inside attention and MLP.
// Source: transformers/models/seed_oss/modeling_seed_oss.py, configuration_seed_oss.py, 4.57.
var seedOSSFamily = family{modelType: "seed_oss", keys: commonKeys, classes: classifyingLM,
	defaults: map[string]any{
		"vocab_size": 155136.0, "hidden_size": 4096.0, "intermediate_size": 27648.0, "num_hidden_layers": 64.0,
		"num_attention_heads": 80.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 524288.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": true,
		"attention_out_bias": false,
		"attention_dropout":  0.1, "residual_dropout": 0.1, "mlp_bias": false, "head_dim": 128.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias, a.OutBias, a.MLPBias = c.boolean("attention_bias"), c.boolean("attention_out_bias"),
			c.boolean("mlp_bias")
		a.ResidualDropout = c.probability("residual_dropout")
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.drops, with.feedForward = true, (*decoder).droppedMLP
		return b.decoder(with)
	}}

// droppedMLP is dropout(down(act(gate(x))·up(x))).
func (m *decoder) droppedMLP(t *step.Tape, l *decoderLayer, x step.T) step.T {
	gated := gatedMLP{l.gate, l.up, l.down}
	down := gated.forward(t, m.a, x)
	y := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return y
}

// Arcee: Llama with an MLP without a gate.
// Source: transformers/models/arcee/modeling_arcee.py, configuration_arcee.py, 4.57.
var arceeFamily = family{modelType: "arcee", keys: commonKeys, classes: classifyingLM,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 2560.0, "intermediate_size": 18432.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "relu2", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.Gated, a.MLPBias = false, c.boolean("mlp_bias")
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare = func(b *builder, l *decoderLayer) {
			a, d := b.a, b.a.Hidden
			b.projections(l)
			l.up, l.down = b.linear("mlp.up_proj", d, a.FFN, a.MLPBias), b.linear("mlp.down_proj", a.FFN, d, a.MLPBias)
			l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, false),
				b.norm("post_attention_layernorm", d, false)
		}
		return b.decoder(with)
	}}
