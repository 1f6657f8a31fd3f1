package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Dots1Family is dots.llm1: Qwen3's attention, with windows where the file says so, and the mixtures of DeepSeek V3
// behind the first layers.
// Source: transformers/models/dots1/modeling_dots1.py, configuration_dots1.py, 4.57 and 5.23.
var Dots1Family = arch.Family{ModelType: "dots1", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 152064.0, "hidden_size": 4608.0, "intermediate_size": 10944.0, "moe_intermediate_size": 1408.0,
		"num_hidden_layers": 62.0, "num_attention_heads": 32.0, "num_key_value_heads": 32.0, "n_group": 1.0,
		"topk_group": 1.0, "first_k_dense_replace": 0.0, "norm_topk_prob": false, "hidden_act": "silu",
		"max_position_embeddings": 2048.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "sliding_window": 4096.0, "max_window_layers": 62.0, "output_router_logits": false},
	Spelled: routedSpelled, Numbers: routedNumbers,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm, a.SlidingWindow = true, c.Optional("sliding_window", arch.MaxRows)
		windowed, after := a.SlidingWindow > 0, c.AfterFirst()
		a = c.LayerTypes(a, func(i int64) bool { return windowed && after(i) })
		a = c.SettleWindows(a)
		own := &glmMixture{PartialRotary: blocks.PartialRotary{Width: a.HeadDim}, routed: readRouted(c)}
		own.groupsOfTwo(c)
		a.Own, a.Lead = own, own.FirstDense
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare = declareGLMMixture
		return blocks.BuildDecoder(b, with)
	}}
