package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// HunYuanFamily is HunYuan's dense decoder: Llama with a norm over each head of queries and keys once they are turned.
// Source: transformers/models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py, configuration_hunyuan_v1_dense.py, 4.57
// and 5.23.
var HunYuanFamily = arch.Family{ModelType: "hunyuan_v1_dense", Keys: arch.CommonKeys, Classes: arch.ScoringLM,
	Defaults: map[string]any{
		"vocab_size": 290943.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm = true
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Project, with.BehindRotary = (*blocks.Decoder).ProjectAlone, (*blocks.Decoder).NormHeads
		with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) {
			DeclareHunYuan(b, l, func(l *blocks.DecoderLayer) { blocks.DeclareMLP(b, l) })
		}
		return blocks.BuildDecoder(b, with)
	}}

// DeclareHunYuan lists the modules of HunYuanDenseV1DecoderLayer and HunYuanMoEV1DecoderLayer, whose MLP mlp declares.
func DeclareHunYuan(b *arch.Builder, l *blocks.DecoderLayer, mlp func(l *blocks.DecoderLayer)) {
	blocks.DeclareProjections(b, l)
	l.QNorm = b.Norm("self_attn.query_layernorm", b.A.HeadDim, false)
	l.KNorm = b.Norm("self_attn.key_layernorm", b.A.HeadDim, false)
	mlp(l)
	l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
}
