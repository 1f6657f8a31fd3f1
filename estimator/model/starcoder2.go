package model

import "github.com/vramplan/vramplan/estimator/step"

// StarCoder2: Llama's attention between LayerNorms, with biases, an MLP without a gate and dropout.
// Source: transformers/models/starcoder2/modeling_starcoder2.py, configuration_starcoder2.py, 4.57.
var starCoder2Family = family{modelType: "starcoder2", keys: commonKeys, classes: classifyingLM,
	defaults: map[string]any{
		"vocab_size": 49152.0, "hidden_size": 3072.0, "intermediate_size": 12288.0, "num_hidden_layers": 30.0,
		"num_attention_heads": 24.0, "num_key_value_heads": 2.0, "hidden_act": "gelu_pytorch_tanh",
		"max_position_embeddings": 4096.0, "use_cache": true, "tie_word_embeddings": true, "attention_dropout": 0.0,
		"residual_dropout": 0.0, "embedding_dropout": 0.0, "use_bias": true},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.Gated = false
		a.ResidualDropout, a.EmbeddingDropout = c.probability("residual_dropout"), c.probability("embedding_dropout")
		a.SlidingWindow = c.optional("sliding_window", maxRows)
		a.QKVBias = c.boolean("use_bias")
		a.OutBias, a.MLPBias, a.NormBias = a.QKVBias, a.QKVBias, true
	},
	spelled: map[string]string{"attention_bias": "use_bias"},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.normalize, with.normBias = declareStarCoder2, norm.layer, true
		with.drops, with.dropsEmbeddings = true, true
		return b.decoder(with)
	}}

// declareStarCoder2 lists the modules of Starcoder2DecoderLayer.
func declareStarCoder2(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	b.projections(l)
	l.up, l.down = b.linear("mlp.c_fc", d, a.FFN, a.MLPBias), b.linear("mlp.c_proj", a.FFN, d, a.MLPBias)
	l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, true), b.norm("post_attention_layernorm", d, true)
}
