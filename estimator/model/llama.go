package model

import "github.com/vramplan/vramplan/estimator/step"

var llamaFamily = family{modelType: "llama", planned: true, keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.MLPBias = c.boolean("mlp_bias")
	}}

var mistralFamily = family{modelType: "mistral", planned: true, keys: commonKeys, classes: classifyingLM,
	build:   buildLlama,
	numbers: noWindow,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"sliding_window": 4096.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.SlidingWindow = c.optional("sliding_window", maxRows)
	}}

var qwen2Family = family{modelType: "qwen2", planned: true, keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"use_sliding_window": false,
		"sliding_window":     4096.0, "max_window_layers": 28.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKVBias = true
		c.windows(a, c.afterFirst())
	}}

var qwen3Family = family{modelType: "qwen3", planned: true, keys: commonKeys, classes: classifyingLM, build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "use_sliding_window": false, "sliding_window": 4096.0, "max_window_layers": 28.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm = true
		c.windows(a, c.afterFirst())
	}}

var smolLM3Family = family{modelType: "smollm3", planned: true, keys: commonKeys, classes: classifyingLM,
	build: buildLlama,
	defaults: map[string]any{
		"vocab_size": 128256.0, "hidden_size": 2048.0, "intermediate_size": 11008.0, "num_hidden_layers": 36.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
		"attention_dropout":      0.0,
		"no_rope_layer_interval": 4.0, "use_sliding_window": false},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.MLPBias = c.boolean("mlp_bias")
		a.NoRotaryEvery = c.optional("no_rope_layer_interval", maxLayers)
		c.windows(a, func(i int64) bool { return a.NoRotaryEvery > 0 && (i+1)%a.NoRotaryEvery == 0 })
	}}

func buildLlama(b *builder) step.Network {
	return b.decoder(likeLlama())
}
