package mixtures

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Qwen3MoEFamily is Qwen3 with mixtures of experts.
// Source: transformers/models/qwen3_moe/modeling_qwen3_moe.py, configuration_qwen3_moe.py, 4.57.
var Qwen3MoEFamily = arch.Family{ModelType: "qwen3_moe", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM, Build: blocks.BuildSparse,
	Numbers: func(_ *arch.Preset, c map[string]any) { c["norm_topk_prob"] = true }, // as all published files have it
	Defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 2048.0, "intermediate_size": 6144.0, "num_hidden_layers": 24.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": false,
		"use_sliding_window": false,
		"sliding_window":     4096.0,
		"attention_dropout":  0.0, "decoder_sparse_step": 1.0, "moe_intermediate_size": 768.0,
		"num_experts_per_tok": 8.0,
		"num_experts":         128.0, "norm_topk_prob": false, "output_router_logits": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = ReadQwenMoE(c, a)
		if e := arch.ExpertsOf(&a); e != nil {
			e.ExpertsFirst = true
		}
		a.QKNorm = true
		a.QKVBias = c.Boolean("attention_bias")
		a.OutBias = a.QKVBias
		if c.Boolean("use_sliding_window") {
			a.SlidingWindow = c.Optional("sliding_window", arch.MaxRows)
		}
		return a
	}}

// masksIdleWindow is Qwen2-MoE that makes the mask of a window, too, although no layer looks through one.
var masksIdleWindow = release.Declare("masks-idle-window", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "Qwen2-MoE of transformers 5.10 makes the mask of a window of no tokens beside that of its layers, " +
		"which all see everything",
	Source: "models/qwen2_moe/modeling_qwen2_moe.py (Qwen2MoeModel.forward), " +
		"models/qwen2_moe/configuration_qwen2_moe.py (sliding_window), 5.23.0",
	Shown: "traces of Qwen2-MoE",
})

// Qwen2MoEFamily is Qwen2 with mixtures of experts and one that all tokens share.
// Source: transformers/models/qwen2_moe/modeling_qwen2_moe.py, configuration_qwen2_moe.py, 4.57.
var Qwen2MoEFamily = arch.Family{ModelType: "qwen2_moe", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Spelled: map[string]string{"attention_bias": "qkv_bias"},
	Defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 2048.0, "intermediate_size": 5632.0, "num_hidden_layers": 24.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 16.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "use_sliding_window": false,
		"attention_dropout":   0.0,
		"decoder_sparse_step": 1.0, "moe_intermediate_size": 1408.0, "shared_expert_intermediate_size": 5632.0,
		"num_experts_per_tok": 4.0, "num_experts": 60.0, "norm_topk_prob": false, "output_router_logits": false,
		"qkv_bias": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = ReadQwenMoE(c, a)
		a.QKVBias = c.Boolean("qkv_bias")
		c.RefuseSlidingWindow()
		if e := arch.ExpertsOf(&a); e != nil {
			e.SharedFFN, e.RotaryBuffers = c.Integer("shared_expert_intermediate_size", arch.MaxRows), true
		}
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare = blocks.DeclareSparse
		if !b.A.Software.Has(arch.GroupsExperts) { // whose attention is Llama's
			with.Project, with.Repeats, with.MakeMask = (*blocks.Decoder).ProjectFirst, true, olderMask
		}
		with.IdleWindow = b.A.Software.Has(masksIdleWindow)
		return blocks.BuildDecoder(b, with)
	}}

// olderMask is _prepare_4d_causal_attention_mask_with_cache_position, from before masking_utils.py: an additive mask
// where the formula is written out, nothing where attention can be told "causal" instead.
func olderMask(t *step.Tape, window int64, d step.DType) *step.T {
	if t.Recipe.Attention != step.AttentionEager {
		return blocks.CausalMask(t, window, d)
	}
	n, all := t.Shape.Tokens, t.Shape.N()*t.Shape.Tokens
	square := t.Input(n*n, d)
	columns := t.Input(n, step.I64)
	later := t.Input(n*n, step.Bool)
	t.Drop(columns)
	mask := t.Input(all, d)
	t.Drop(square)
	sum := t.Input(all, d)
	padding := t.Input(all, step.Bool)
	t.Drop(sum)
	filled := t.Input(all, d)
	t.Drop(filled, padding, later)
	return &mask
}

// ReadQwenMoE reads what both of them have.
func ReadQwenMoE(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = blocks.ReadLlama(c, a)
	count := "num_experts"
	if c.Given[count] == nil && c.Given["num_local_experts"] != nil {
		count = "num_local_experts" // as transformers 5 writes it
	}
	e := &arch.Experts{Count: c.Integer(count, arch.MaxExperts), TopK: c.Integer("num_experts_per_tok", arch.MaxExperts),
		FFN: c.Integer("moe_intermediate_size", arch.MaxRows), Normalise: c.Boolean("norm_topk_prob"), Path: "mlp",
		Expert: arch.BuildGatedMLP}
	a.Own = e
	every, without := c.Integer("decoder_sparse_step", arch.MaxLayers), c.LayerList("mlp_only_layers")
	if every > 1 || len(without) > 0 {
		e.Dense = func(layer int64) bool { return (layer+1)%max(every, 1) != 0 || slices.Contains(without, layer) }
		a.Irregular = true
	}
	blocks.RefuseRouterOptions(c)
	return a
}
