package model

import "github.com/vramplan/vramplan/estimator/step"

// deepSeekV2Family is transformers' DeepseekV2ForCausalLM (modeling_deepseek_v2.py, configuration_deepseek_v2.py,
// 4.57).
var deepSeekV2Family = family{modelType: "deepseek_v2", keys: commonKeys, classes: scoringLM, build: buildDeepSeek,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "moe_intermediate_size": 1407.0,
		"num_hidden_layers": 32.0, "num_attention_heads": 32.0, "n_shared_experts": 2.0, "n_routed_experts": 64.0,
		"kv_lora_rank": 512.0, "q_lora_rank": 1536.0, "qk_rope_head_dim": 64.0, "v_head_dim": 128.0,
		"qk_nope_head_dim": 128.0,
		"topk_method":      "greedy", "first_k_dense_replace": 0.0, "hidden_act": "silu",
		"max_position_embeddings": 2048.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
		"attention_dropout": 0.0},
	spelled: routedSpelled, numbers: latentNumbers,
	read: func(c *config, a *Architecture) {
		c.llama(a)
		own := c.readLatent()
		own.second, a.MLPBias = true, c.boolean("mlp_bias")
		switch method, _ := c.value("topk_method"); method {
		case "greedy":
		case "group_limited_greedy":
			own.groups, own.chosenGroups = c.integer("n_group", maxExperts), c.integer("topk_group", maxExperts)
			own.checkGroups(c, 1)
		default:
			c.errs.Add(c.pointer+"/topk_method", "unsupported",
				"topk_method is %s; modelled are greedy and group_limited_greedy", describe(method))
		}
		own.settle(a)
		c.latent(own, a)
	}}

// polarTable is the rotary positions as complex numbers, which stand in for cosines and for sines.
func polarTable(t *step.Tape, dim int64, _ step.DType) (cos, sin step.T) {
	t.Modules(1)
	n := t.Shape.Tokens
	positions := t.Table(n, step.F32)
	angles := t.Table(n*dim/2, step.F32)
	if t.Recipe.Software.MultipliesAngles {
		t.Drop(positions)
	} else {
		t.Workspace()
		defer t.Drop(positions)
	}
	ones := t.Table(n*dim/2, step.F32)
	polar := t.Table(n*dim, step.F32)
	t.Drop(ones)
	scaled := t.Table(n*dim, step.F32)
	t.Drop(polar, angles)
	return scaled, t.Hold(scaled)
}

// rotateComplex is apply_rotary_emb of V2.
func (own *latent) rotateComplex(t *step.Tape, q, k step.T, heads step.Heads, w *around) (qr, kr step.T) {
	wideQ, wideK := t.Float(q, step.LabelRotary), t.Float(k, step.LabelRotary)
	turn := func(wide step.T, d step.DType, copyBack bool) step.T {
		z := t.Heads(t.Turn(wide, w.cos), copyBack)
		y := t.Cast(z, d, step.LabelRotary)
		t.Drop(z)
		return y
	}
	qr = turn(wideQ, q.Dtype(), heads.Query > 1 && !t.CopiesQueryGradient(heads, w.mask != nil))
	kr = turn(wideK, k.Dtype(), false)
	t.Drop(wideQ, wideK)
	return qr, kr
}
