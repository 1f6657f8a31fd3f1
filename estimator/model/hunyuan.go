package model

import "github.com/vramplan/vramplan/estimator/step"

// hunYuanFamily is HunYuan's dense decoder: Llama with a norm over each head of queries and keys once they are turned.
// Source: transformers/models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py, configuration_hunyuan_v1_dense.py, 4.57
// and 5.23.
var hunYuanFamily = family{modelType: "hunyuan_v1_dense", keys: commonKeys, classes: scoringLM,
	defaults: map[string]any{
		"vocab_size": 290943.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm = true
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.turnedNorms = true
		with.declare = func(b *builder, l *decoderLayer) { declareHunYuan(b, l, func(l *decoderLayer) { b.mlp(l) }) }
		return b.decoder(with)
	}}

// declareHunYuan lists the modules of HunYuanDenseV1DecoderLayer and HunYuanMoEV1DecoderLayer, whose MLP mlp declares.
func declareHunYuan(b *builder, l *decoderLayer, mlp func(l *decoderLayer)) {
	b.projections(l)
	l.qNorm = b.norm("self_attn.query_layernorm", b.a.HeadDim, false)
	l.kNorm = b.norm("self_attn.key_layernorm", b.a.HeadDim, false)
	mlp(l)
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
}
