package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
)

// MixtralFamily is transformers' MixtralForCausalLM (modeling_mixtral.py, 4.57): Llama's decoder with a mixture
// of experts in every layer.
var MixtralFamily = arch.Family{ModelType: "mixtral", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM, Build: blocks.BuildSparse,
	Spelled: map[string]string{"num_experts": "num_local_experts"},
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 14336.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 8.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"num_experts_per_tok": 2.0, "num_local_experts": 8.0, "output_router_logits": false,
		"router_jitter_noise": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.SlidingWindow = c.Optional("sliding_window", arch.MaxRows)
		a.Own = mixtralExperts(c.Integer("num_local_experts", arch.MaxExperts), c.Integer("num_experts_per_tok", arch.MaxExperts),
			a.FFN)
		blocks.RefuseRouterOptions(c)
		return a
	}}

func mixtralExperts(count, topK, ffn int64) *arch.Experts {
	return &arch.Experts{Count: count, TopK: topK, FFN: ffn, Normalise: true, WideWeights: true, Path: "block_sparse_moe",
		Expert: func(b *arch.Builder, path string, ffn int64, bias bool) arch.GatedMLP {
			d := b.A.Hidden
			w1, w2, w3 := b.Linear(path+".w1", d, ffn, bias), b.Linear(path+".w2", ffn, d, bias),
				b.Linear(path+".w3", d, ffn, bias)
			return arch.GatedMLP{Gate: w1, Up: w3, Down: w2}
		}}
}
