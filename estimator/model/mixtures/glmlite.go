package mixtures

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
)

// GLM4MoELiteFamily is GLM 4.7 Flash: the latent attention of DeepSeek V3 with the mixtures of GLM 4.5.
// Source: transformers/models/glm4_moe_lite/modeling_glm4_moe_lite.py, configuration_glm4_moe_lite.py, 5.23.
var GLM4MoELiteFamily = arch.Family{ModelType: "glm4_moe_lite", Keys: arch.CommonKeys, Build: buildDeepSeek,
	Defaults: map[string]any{
		"vocab_size": 154880.0, "hidden_size": 2048.0, "intermediate_size": 10240.0, "moe_intermediate_size": 1536.0,
		"num_hidden_layers": 47.0, "num_attention_heads": 20.0, "num_key_value_heads": 20.0, "n_shared_experts": 1.0,
		"n_routed_experts": 64.0, "kv_lora_rank": 512.0, "q_lora_rank": 768.0, "qk_rope_head_dim": 64.0,
		"v_head_dim": 256.0, "qk_nope_head_dim": 192.0, "n_group": 1.0, "topk_group": 1.0, "num_experts_per_tok": 4.0,
		"norm_topk_prob": true, "hidden_act": "silu", "max_position_embeddings": 202752.0, "use_cache": true,
		"tie_word_embeddings": false, "rope_interleave": true, "attention_bias": false, "attention_dropout": 0.0,
		"output_router_logits": false},
	Spelled: routedSpelled, Numbers: latentNumbers,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		own := readLatent(c)
		own.interleaved, own.wideBias = c.Boolean("rope_interleave"), true
		own.FirstDense = denseLayers(c, &a)
		own.groupsOfTwo(c)
		a = own.settle(a)
		latent(c, own, &a)
		blocks.RefuseRouterOptions(c)
		return a
	}}

// denseLayers reads from mlp_layer_types how many layers before the others have an ordinary MLP: the first alone, where
// nothing is said. The class does not read first_k_dense_replace.
func denseLayers(c *arch.Config, a *arch.Architecture) int64 {
	c.Read["first_k_dense_replace"] = c.Given["first_k_dense_replace"] == 1.0
	v, given := c.Value("mlp_layer_types")
	if !given {
		return min(1, a.Layers)
	}
	list, _ := v.([]any)
	dense := int64(0)
	for dense < int64(len(list)) && list[dense] == "dense" {
		dense++
	}
	if int64(len(list)) != a.Layers || slices.ContainsFunc(list[dense:],
		func(kind any) bool { return kind != "sparse" }) {
		c.Errs.Add(c.Pointer+"/mlp_layer_types", "unsupported", "mlp_layer_types is %s; modelled are %d layers, dense "+
			"ones before sparse ones", arch.Describe(v), a.Layers)
	}
	return dense
}
