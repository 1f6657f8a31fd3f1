package model

import "github.com/vramplan/vramplan/estimator/step"

// Gemma: embeddings times √d, norms that count from 1 and a GELU in the gate.
// Source: transformers/models/gemma/modeling_gemma.py, configuration_gemma.py, 4.57.
var gemmaFamily = family{keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 256000.0, "hidden_size": 3072.0, "intermediate_size": 24576.0, "num_hidden_layers": 28.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 16.0, "head_dim": 256.0, "hidden_act": "gelu_pytorch_tanh",
		"max_position_embeddings": 8192.0, "use_cache": true, "tie_word_embeddings": true, "attention_bias": false,
		"attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias = a.QKVBias
	},
	preset: func(p *Preset, a *Architecture) {
		llamaPreset(p, a)
		a.Activation = "gelu_pytorch_tanh"
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.normalize, with.scaleEmbedding = norm.gemma, scaledAsHidden
		return b.decoder(with)
	}}
