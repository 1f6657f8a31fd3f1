package model

// mixtralFamily is transformers' MixtralForCausalLM (modeling_mixtral.py, 4.57): Llama's decoder with a mixture
// of experts in every layer.
var mixtralFamily = family{modelType: "mixtral", keys: commonKeys, classes: classifyingLM, build: buildSparse,
	spelled: map[string]string{"num_experts": "num_local_experts"},
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"num_experts_per_tok": 2.0, "num_local_experts": 8.0, "output_router_logits": false,
		"router_jitter_noise": 0.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.SlidingWindow = c.optional("sliding_window", maxRows)
		a.own = mixtralExperts(c.integer("num_local_experts", maxExperts), c.integer("num_experts_per_tok", maxExperts),
			a.FFN)
		c.refuseRouterOptions()
	}}

func mixtralExperts(count, topK, ffn int64) *experts {
	return &experts{Count: count, TopK: topK, FFN: ffn, Normalise: true, WideWeights: true, Path: "block_sparse_moe",
		Expert: func(b *builder, path string, ffn int64, bias bool) gatedMLP {
			d := b.a.Hidden
			w1, w2, w3 := b.linear(path+".w1", d, ffn, bias), b.linear(path+".w2", ffn, d, bias),
				b.linear(path+".w3", d, ffn, bias)
			return gatedMLP{gate: w1, up: w3, down: w2}
		}}
}
