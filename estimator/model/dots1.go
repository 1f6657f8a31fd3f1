package model

import "github.com/vramplan/vramplan/estimator/step"

// dots1Family is dots.llm1: Qwen3's attention, with windows where the file says so, and the mixtures of DeepSeek V3
// behind the first layers.
// Source: transformers/models/dots1/modeling_dots1.py, configuration_dots1.py, 4.57 and 5.23.
var dots1Family = family{modelType: "dots1", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 152064.0, "hidden_size": 4608.0, "intermediate_size": 10944.0, "moe_intermediate_size": 1408.0,
		"num_hidden_layers": 62.0, "num_attention_heads": 32.0, "num_key_value_heads": 32.0, "n_group": 1.0,
		"topk_group": 1.0, "first_k_dense_replace": 0.0, "norm_topk_prob": false, "hidden_act": "silu",
		"max_position_embeddings": 2048.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "sliding_window": 4096.0, "max_window_layers": 62.0, "output_router_logits": false},
	spelled: routedSpelled, numbers: routedNumbers,
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm, a.SlidingWindow = true, c.optional("sliding_window", maxRows)
		windowed, after := a.SlidingWindow > 0, c.afterFirst()
		c.layerTypes(a, func(i int64) bool { return windowed && after(i) })
		c.settleWindows(a)
		own := &glmMixture{partialRotary: partialRotary{width: a.HeadDim}, routed: c.readRouted()}
		own.groupsOfTwo(c)
		a.own, a.Lead = own, own.firstDense
		c.refuseRouterOptions()
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare = declareGLMMixture
		return b.decoder(with)
	}}
