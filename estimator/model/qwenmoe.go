package model

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// qwen3MoEFamily is Qwen3 with mixtures of experts.
// Source: transformers/models/qwen3_moe/modeling_qwen3_moe.py, configuration_qwen3_moe.py, 4.57.
var qwen3MoEFamily = family{modelType: "qwen3_moe", keys: commonKeys, classes: classifyingLM, build: buildSparse,
	numbers: func(_ *Preset, c map[string]any) { c["norm_topk_prob"] = true }, // as all published files have it
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 2048.0, "intermediate_size": 6144.0, "num_hidden_layers": 24.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": false,
		"use_sliding_window": false,
		"sliding_window":     4096.0,
		"attention_dropout":  0.0, "decoder_sparse_step": 1.0, "moe_intermediate_size": 768.0,
		"num_experts_per_tok": 8.0,
		"num_experts":         128.0, "norm_topk_prob": false, "output_router_logits": false},
	read: func(c *config, a *Architecture) {
		c.qwenMoE(a)
		if e := expertsOf(a); e != nil {
			e.ExpertsFirst = true
		}
		a.QKNorm = true
		a.QKVBias = c.boolean("attention_bias")
		a.OutBias = a.QKVBias
		if c.boolean("use_sliding_window") {
			a.SlidingWindow = c.optional("sliding_window", maxRows)
		}
	}}

// qwen2MoEFamily is Qwen2 with mixtures of experts and one that all tokens share.
// Source: transformers/models/qwen2_moe/modeling_qwen2_moe.py, configuration_qwen2_moe.py, 4.57.
var qwen2MoEFamily = family{modelType: "qwen2_moe", keys: commonKeys, classes: classifyingLM,
	spelled: map[string]string{"attention_bias": "qkv_bias"},
	defaults: map[string]any{
		"vocab_size": 151936.0, "hidden_size": 2048.0, "intermediate_size": 5632.0, "num_hidden_layers": 24.0,
		"num_attention_heads": 16.0, "num_key_value_heads": 16.0, "hidden_act": "silu",
		"max_position_embeddings": 32768.0,
		"use_cache":               true, "tie_word_embeddings": false, "use_sliding_window": false,
		"attention_dropout":   0.0,
		"decoder_sparse_step": 1.0, "moe_intermediate_size": 1408.0, "shared_expert_intermediate_size": 5632.0,
		"num_experts_per_tok": 4.0, "num_experts": 60.0, "norm_topk_prob": false, "output_router_logits": false,
		"qkv_bias": true},
	read: func(c *config, a *Architecture) {
		c.qwenMoE(a)
		a.QKVBias = c.boolean("qkv_bias")
		c.refuseSlidingWindow()
		if e := expertsOf(a); e != nil {
			e.SharedFFN, e.RotaryBuffers = c.integer("shared_expert_intermediate_size", maxRows), true
		}
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare = declareSparse
		if !b.a.Software.GroupsExperts { // whose attention is Llama's
			with.project, with.repeats, with.makeMask = (*decoder).projectFirst, true, olderMask
		}
		with.idleWindow = b.a.Software.MasksIdleWindow
		return b.decoder(with)
	}}

// olderMask is _prepare_4d_causal_attention_mask_with_cache_position, from before masking_utils.py: an additive mask
// where the formula is written out, nothing where attention can be told "causal" instead.
func olderMask(t *step.Tape, window int64, d step.DType) *step.T {
	if t.Recipe.Attention != step.AttentionEager {
		return causalMask(t, window, d)
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

// qwenMoE reads what both of them have.
func (c *config) qwenMoE(a *Architecture) {
	c.llama(a)
	count := "num_experts"
	if c.given[count] == nil && c.given["num_local_experts"] != nil {
		count = "num_local_experts" // as transformers 5 writes it
	}
	e := &experts{Count: c.integer(count, maxExperts), TopK: c.integer("num_experts_per_tok", maxExperts),
		FFN: c.integer("moe_intermediate_size", maxRows), Normalise: c.boolean("norm_topk_prob"), Path: "mlp",
		Expert: buildGatedMLP}
	a.own = e
	every, without := c.integer("decoder_sparse_step", maxLayers), c.layerList("mlp_only_layers")
	if every > 1 || len(without) > 0 {
		e.Dense = func(layer int64) bool { return (layer+1)%max(every, 1) != 0 || slices.Contains(without, layer) }
		a.Irregular = true
	}
	c.refuseRouterOptions()
}
