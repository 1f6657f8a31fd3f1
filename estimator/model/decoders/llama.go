package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// LlamaFamily is Llama, 1 to 3.3.
var LlamaFamily = arch.Family{ModelType: "llama", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM, Build: buildLlama,
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.MLPBias = c.Boolean("mlp_bias")
		return a
	}}

// MistralFamily is Mistral: Llama with a window.
var MistralFamily = arch.Family{ModelType: "mistral", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Build:   buildLlama,
	Numbers: blocks.NoWindow,
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"sliding_window": 4096.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.SlidingWindow = c.Optional("sliding_window", arch.MaxRows)
		return a
	}}

// Qwen2Family is Qwen2 and 2.5: Llama with a bias on queries, keys and values.
var Qwen2Family = arch.Family{ModelType: "qwen2", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM, Build: buildLlama,
	Defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"use_sliding_window": false,
		"sliding_window":     4096.0, "max_window_layers": 28.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.QKVBias = true
		a = c.Windows(a, c.AfterFirst())
		return a
	}}

// Qwen3Family is Qwen3: Llama with norms over each head of queries and keys.
var Qwen3Family = arch.Family{ModelType: "qwen3", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM, Build: buildLlama,
	Defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 4096.0, "intermediate_size": 22016.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "use_sliding_window": false, "sliding_window": 4096.0, "max_window_layers": 28.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm = true
		a = c.Windows(a, c.AfterFirst())
		return a
	}}

// SmolLM3Family is SmolLM3: Llama without rotary positions in every fourth layer.
var SmolLM3Family = arch.Family{ModelType: "smollm3", Planned: true, Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Build: buildLlama,
	Defaults: map[string]any{
		"vocab_size": 128256.0, "hidden_size": 2048.0, "intermediate_size": 11008.0, "num_hidden_layers": 36.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
		"attention_dropout":      0.0,
		"no_rope_layer_interval": 4.0, "use_sliding_window": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.MLPBias = c.Boolean("mlp_bias")
		a.NoRotaryEvery = c.Optional("no_rope_layer_interval", arch.MaxLayers)
		a = c.Windows(a, func(i int64) bool { return a.NoRotaryEvery > 0 && (i+1)%a.NoRotaryEvery == 0 })
		return a
	}}

func buildLlama(b *arch.Builder) step.Network {
	return blocks.BuildDecoder(b, blocks.LikeLlama())
}
