package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// StarCoder2Family is StarCoder2: Llama's attention between LayerNorms, with biases, an MLP without a gate and dropout.
// Source: transformers/models/starcoder2/modeling_starcoder2.py, configuration_starcoder2.py, 4.57.
var StarCoder2Family = arch.Family{ModelType: "starcoder2", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 49152.0, "hidden_size": 3072.0, "intermediate_size": 12288.0, "num_hidden_layers": 30.0,
		"num_attention_heads": 24.0, "num_key_value_heads": 2.0, "hidden_act": "gelu_pytorch_tanh",
		"max_position_embeddings": 4096.0, "use_cache": true, "tie_word_embeddings": true, "attention_dropout": 0.0,
		"residual_dropout": 0.0, "embedding_dropout": 0.0, "use_bias": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Gated = false
		a.ResidualDropout, a.EmbeddingDropout = c.Probability("residual_dropout"), c.Probability("embedding_dropout")
		a.SlidingWindow = c.Optional("sliding_window", arch.MaxRows)
		a.QKVBias = c.Boolean("use_bias")
		a.OutBias, a.MLPBias, a.NormBias = a.QKVBias, a.QKVBias, true
		return a
	},
	Spelled: map[string]string{"attention_bias": "use_bias"},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Normalize, with.NormBias = declareStarCoder2, arch.Norm.Layer, true
		with.Drops, with.ScaleEmbedding = true, blocks.DroppedAsHidden
		return blocks.BuildDecoder(b, with)
	}}

// declareStarCoder2 lists the modules of Starcoder2DecoderLayer.
func declareStarCoder2(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	blocks.DeclareProjections(b, l)
	l.Up, l.Down = b.Linear("mlp.c_fc", d, a.FFN, a.MLPBias), b.Linear("mlp.c_proj", a.FFN, d, a.MLPBias)
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, true), b.Norm("post_attention_layernorm", d, true)
}
