package model

// lfm2MoEFamily is LFM2 with mixtures of experts behind the first layers.
// Source: transformers/models/lfm2_moe/modeling_lfm2_moe.py, configuration_lfm2_moe.py, 5.23.
var lfm2MoEFamily = family{modelType: "lfm2_moe", keys: commonKeys, build: lfm2Family.build,
	defaults: map[string]any{
		"vocab_size": 65536.0, "hidden_size": 2048.0, "intermediate_size": 7168.0, "moe_intermediate_size": 1792.0,
		"num_hidden_layers": 32.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0,
		"max_position_embeddings": 128000.0, "use_cache": true, "tie_word_embeddings": true, "conv_bias": false,
		"conv_L_cache": 3.0, "num_dense_layers": 2.0, "num_experts_per_tok": 4.0, "num_experts": 32.0,
		"use_expert_bias": true, "norm_topk_prob": true, "output_router_logits": false, "hidden_act": "silu",
		"attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.tiedEmbedding()
		c.llama(a)
		a.Activation, a.AttentionDropout, a.QKNorm, a.UndroppedAttention = "silu", 0, true, true
		c.convolvedLayers(a)
		o := a.own.(*shortConvolutions)
		dense := int64(0)
		if v, ok := c.value("num_dense_layers"); !ok || v != 0.0 {
			dense = c.integer("num_dense_layers", maxLayers)
		}
		o.corrects = c.boolean("use_expert_bias")
		o.sparse = &experts{Count: c.integer("num_experts", maxExperts),
			TopK: c.integer("num_experts_per_tok", maxExperts), FFN: c.integer("moe_intermediate_size", maxRows),
			Normalise: c.boolean("norm_topk_prob"), Path: "feed_forward", GroupedAlone: true,
			Dense: func(i int64) bool { return i < dense }}
		a.Lead = min(dense, a.Layers)
		c.refuseRouterOptions()
	}}
