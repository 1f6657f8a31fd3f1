package model

import "github.com/vramplan/vramplan/estimator/step"

// deepSeekV2Family is transformers' DeepseekV2ForCausalLM (modeling_deepseek_v2.py, configuration_deepseek_v2.py,
// 4.57).
var deepSeekV2Family = family{keys: commonKeys, classes: scoringLM, build: buildDeepSeek,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "moe_intermediate_size": 1407.0,
		"num_hidden_layers": 32.0, "num_attention_heads": 32.0, "n_shared_experts": 2.0, "n_routed_experts": 64.0,
		"kv_lora_rank": 512.0, "q_lora_rank": 1536.0, "qk_rope_head_dim": 64.0, "v_head_dim": 128.0,
		"qk_nope_head_dim": 128.0,
		"topk_method":      "greedy", "first_k_dense_replace": 0.0, "hidden_act": "silu",
		"max_position_embeddings": 2048.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
		"attention_dropout": 0.0},
	spelled: latentSpelled, numbers: latentNumbers,
	read: func(c *config, a *Architecture) {
		c.llama(a)
		own := c.readLatent(a)
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
	t.Drop(polar)
	t.Drop(angles)
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
	t.Drop(wideQ)
	t.Drop(wideK)
	return qr, kr
}

// routeBySoftmax is DeepseekV2MoEGate.
func (own *latent) routeBySoftmax(t *step.Tape, s *deepSeekLayer, x step.T) (chosen, weights step.T) {
	e := own.experts
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	wide := t.Float(x, step.LabelRouting)
	logits := t.FloatMatrixLinear(wide, s.router, step.LabelRouting)
	t.Drop(wide)
	scores := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	allowed := t.Hold(scores)
	var locals []step.T
	if own.groups > 0 {
		t.Drop(allowed)
		allowed, locals = own.bestGroups(t, scores)
	}
	top, chosen := t.TopK(allowed, e.Count, e.TopK)
	weights = t.MulScalar(top, step.LabelRouting)
	for _, local := range append(locals, top, allowed, scores, logits) {
		t.Drop(local)
	}
	return chosen, weights
}

// bestGroups fills the scores outside the best groups with zeros. It also returns what variables hold.
func (own *latent) bestGroups(t *step.Tape, scores step.T) (step.T, []step.T) {
	n, e := t.Shape.N(), own.experts
	in := func(numel int64, d step.DType) step.T { return t.RoutingTensor(numel, d) }
	groups, best := in(n*own.groups, step.F32), in(n*own.groups, step.I64)
	values, group := in(n*own.chosenGroups, step.F32), in(n*own.chosenGroups, step.I64)
	t.Drop(values)
	mask := in(n*own.groups, step.F32)
	spread := own.spread(t, mask)
	keep := in(n*e.Count, step.Bool)
	drop := in(n*e.Count, step.Bool)
	t.Drop(keep)
	allowed := t.MaskedFill(scores, drop)
	t.Drop(drop)
	return allowed, []step.T{groups, best, group, mask, spread}
}

// mixSorted is DeepseekV2MoE.moe: tokens are sorted by experts, and the experts' outputs put back.
func (own *latent) mixSorted(m *decoder, t *step.Tape, s *deepSeekLayer, x, chosen, weights step.T) step.T {
	e, d := own.experts, m.a.Hidden
	x = t.View(t.Hold(x))
	defer t.Drop(x)
	counts := t.RoutingTensor(t.Shape.N()*e.Count, step.I64)
	perExpert := t.SumOverTokens(t.Shape.N(), e.Count)
	order := t.ArgSort(chosen.Numel())
	tokens := t.RoutingTensor(chosen.Numel(), step.I64)
	sorted := t.Rows(x, d, tokens)
	t.Drop(tokens)
	outputs := make([]step.T, len(s.experts))
	var start, end step.T
	rows, count := chosen.Numel(), int64(len(s.experts))
	for i := range count {
		t.Drop(t.RoutingTensor(1, step.Bool))
		next := t.RoutingTensor(1, step.I64)
		if i > 0 {
			t.Drop(end)
		}
		end = next
		input := t.SliceRows(sorted, ((i+1)*rows/count-i*rows/count)*d)
		outputs[i] = s.experts[i].forward(t, m.a, input)
		t.Drop(input)
		if i > 0 {
			t.Drop(start)
		}
		start = t.Hold(end)
	}
	all := t.Stack(outputs)
	placed := t.PutRows(all, order)
	wide := t.Cast(placed, weights.Dtype(), step.LabelExpertOutput)
	wide = t.MulInPlace(wide, weights, placed.Dtype() == weights.Dtype())
	sum := t.SumRowsKept(wide, e.TopK)
	t.Drop(wide)
	y := t.Cast(sum, placed.Dtype(), step.LabelExpertOutput)
	for _, local := range append(outputs, counts, perExpert, order, sorted, start, end, all, placed, sum) {
		t.Drop(local)
	}
	return y
}
