package model

import "github.com/vramplan/vramplan/estimator/step"

// hunYuanMoEFamily is HunYuan's mixture: the attention of its dense decoder, a router that is kept in float32, and an
// MLP that all tokens share, as wide as an expert.
// Source: transformers/models/hunyuan_v1_moe/modeling_hunyuan_v1_moe.py, configuration_hunyuan_v1_moe.py, 4.57 and
// 5.23.
var hunYuanMoEFamily = family{modelType: "hunyuan_v1_moe", keys: commonKeys, classes: scoringLM,
	defaults: with(hunYuanFamily.defaults, map[string]any{"num_experts": 1.0, "moe_topk": 1.0,
		"output_router_logits": false}),
	spelled: map[string]string{"num_experts_per_tok": "moe_topk"},
	read: func(c *config, a *Architecture) {
		hunYuanFamily.read(c, a)
		a.own = &experts{Count: c.ofEach("num_experts", a), TopK: c.ofEach("moe_topk", a), FFN: a.FFN, SharedFFN: a.FFN,
			Path: "mlp", Normalise: true}
		c.refuseRouterOptions()
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.turnedNorms = true
		mixture := func(l *decoderLayer) { l.experts = b.hunYuanMixture(expertsOf(b.a)) }
		with.declare = func(b *builder, l *decoderLayer) { declareHunYuan(b, l, mixture) }
		return b.decoder(with)
	}}

// ofEach reads a number of experts, or a list of one for each layer, which are all the same.
func (c *config) ofEach(key string, a *Architecture) int64 {
	v, _ := c.value(key)
	list, ok := v.([]any)
	if !ok {
		return c.integer(key, maxExperts)
	}
	if len(list) == 0 || int64(len(list)) < a.Layers {
		c.errs.Add(c.pointer+"/"+key, "conflict", "%s names %d layers, num_hidden_layers %d", key, len(list), a.Layers)
		return 0
	}
	for _, item := range list[1:] {
		if item != list[0] {
			c.errs.Add(c.pointer+"/"+key, "unsupported", "%s differs between layers; modelled is one number for all",
				key)
			return 0
		}
	}
	return c.whole(key, list[0], maxExperts)
}

// hunYuanMixture is HunYuanMoEV1Moe.
type hunYuanMixture struct {
	a       *Architecture
	e       *experts
	router  linear
	shared  gatedMLP
	grouped *groupedBlock
	loop    *sparseBlock // instead, before transformers 5
}

func (b *builder) hunYuanMixture(e *experts) *hunYuanMixture {
	m := &hunYuanMixture{a: b.a, e: e, grouped: &groupedBlock{a: b.a, e: e}}
	b.module("mlp.gate")
	m.router = b.linear("mlp.gate.wg", b.a.Hidden, e.Count, false)
	m.router.matrix = true
	b.p.List[m.router.w.Index].Dtype = step.F32
	if b.a.Software.GroupsExperts {
		m.grouped.declareExperts(b)
	} else {
		m.loop = &sparseBlock{a: b.a, e: e, keepsInput: true}
		m.loop.experts = b.experts(e.Count, true,
			func() gatedMLP { return buildGatedMLP(b, "mlp.experts", e.FFN, false) })
	}
	m.shared = buildGatedMLP(b, "mlp.shared_mlp", e.SharedFFN, false)
	return m
}

func (m *hunYuanMixture) forward(t *step.Tape, x step.T) (y, _ step.T) {
	shared := m.shared.forward(t, m.a, x)
	if m.loop != nil {
		return m.forwardLoop(t, x, shared), step.NoTensor
	}
	matrix := t.View(t.Hold(x)) // view(-1, hidden_dim)
	logits, weights, chosen := m.route(t, matrix)
	routed := m.grouped.mix(t, matrix, weights, chosen)
	y = t.Add(routed, shared, step.LabelExpertOutput)
	t.Drop(routed, shared, logits, weights, chosen, matrix)
	return y, step.NoTensor
}

// forwardLoop is forward where it runs the experts one after the other, behind a router that is a linear layer. It
// takes over shared. Source: transformers/models/hunyuan_v1_moe/modeling_hunyuan_v1_moe.py, 4.57.
func (m *hunYuanMixture) forwardLoop(t *step.Tape, x, shared step.T) step.T {
	rows := t.View(t.Hold(x)) // reshape, which is a view even of what has that shape
	wide := t.Float(rows, step.LabelRouting)
	t.Drop(rows)
	logits := m.router.forward(t, wide)
	t.Drop(wide)
	matrix := t.View(t.Hold(x))
	weights, chosen := m.loop.route(t, logits, x.Dtype())
	sum := t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	locals := m.loop.masks(t)
	sum, variables := m.loop.mix(t, matrix, weights, sum)
	y := t.Add(sum, shared, step.LabelExpertOutput)
	t.Drop(append(locals, variables...)...)
	t.Drop(sum, shared, logits, weights, chosen, matrix)
	return y
}

// route is HunYuanMoEV1Gate.
func (m *hunYuanMixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	rows := t.View(t.Hold(x)) // reshape, which is a view even of what has that shape
	wide := t.Float(rows, step.LabelRouting)
	t.Drop(rows)
	logits = m.router.forward(t, wide)
	probabilities := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	top, chosen := t.TopK(probabilities, m.e.Count, m.e.TopK)
	t.Drop(probabilities)
	sum := t.SumRowsKept(top, m.e.TopK)
	top = t.DivideInPlace(top, sum)
	t.Drop(sum)
	weights = t.Cast(top, logits.Dtype(), step.LabelRouting)
	t.Drop(top, wide)
	return logits, weights, chosen
}
