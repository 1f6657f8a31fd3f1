package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// DeepSeekV2Family is transformers' DeepseekV2ForCausalLM (modeling_deepseek_v2.py, configuration_deepseek_v2.py,
// 4.57).
var DeepSeekV2Family = arch.Family{ModelType: "deepseek_v2", Keys: arch.CommonKeys, Classes: arch.ScoringLM, Build: buildDeepSeek,
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "moe_intermediate_size": 1407.0,
		"num_hidden_layers": 32.0, "num_attention_heads": 32.0, "n_shared_experts": 2.0, "n_routed_experts": 64.0,
		"kv_lora_rank": 512.0, "q_lora_rank": 1536.0, "qk_rope_head_dim": 64.0, "v_head_dim": 128.0,
		"qk_nope_head_dim": 128.0,
		"topk_method":      "greedy", "first_k_dense_replace": 0.0, "hidden_act": "silu",
		"max_position_embeddings": 2048.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
		"attention_dropout": 0.0},
	Spelled: routedSpelled, Numbers: latentNumbers,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		own := readLatent(c)
		own.Second, a.MLPBias = true, c.Boolean("mlp_bias")
		switch method, _ := c.Value("topk_method"); method {
		case "greedy":
		case "group_limited_greedy":
			own.groups, own.chosenGroups = c.Integer("n_group", arch.MaxExperts), c.Integer("topk_group", arch.MaxExperts)
			own.checkGroups(c, 1)
		default:
			c.Errs.Add(c.Pointer+"/topk_method", "unsupported",
				"topk_method is %s; modelled are greedy and group_limited_greedy", arch.Describe(method))
		}
		a = own.settle(a)
		latent(c, own, &a)
		return a
	}}

// polarTable is the rotary positions as complex numbers, which stand in for cosines and for sines.
func polarTable(t *step.Tape, dim int64, _ step.DType) (cos, sin step.T) {
	t.Modules(1)
	n := t.Shape.Tokens
	positions := t.Table(n, step.F32)
	angles := t.Table(n*dim/2, step.F32)
	if t.Recipe.Software.Has(blocks.MultipliesAngles) {
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
func (own *Latent) rotateComplex(t *step.Tape, q, k step.T, heads step.Heads, w *blocks.Around) (qr, kr step.T) {
	wideQ, wideK := t.Float(q, step.LabelRotary), t.Float(k, step.LabelRotary)
	turn := func(wide step.T, d step.DType, copyBack bool) step.T {
		z := t.Heads(t.Turn(wide, w.Cos), copyBack)
		y := t.Cast(z, d, step.LabelRotary)
		t.Drop(z)
		return y
	}
	qr = turn(wideQ, q.Dtype(), heads.Query > 1 && !t.CopiesQueryGradient(heads, w.Mask != nil))
	kr = turn(wideK, k.Dtype(), false)
	t.Drop(wideQ, wideK)
	return qr, kr
}
