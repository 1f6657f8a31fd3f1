package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// HunYuanMoEFamily is HunYuan's mixture: the attention of its dense decoder, a router that is kept in float32, and an
// MLP that all tokens share, as wide as an expert.
// Source: transformers/models/hunyuan_v1_moe/modeling_hunyuan_v1_moe.py, configuration_hunyuan_v1_moe.py, 4.57 and
// 5.23.
var HunYuanMoEFamily = arch.Family{ModelType: "hunyuan_v1_moe", Keys: arch.CommonKeys, Classes: arch.ScoringLM,
	Defaults: arch.With(decoders.HunYuanFamily.Defaults, map[string]any{"num_experts": 1.0, "moe_topk": 1.0,
		"output_router_logits": false}),
	Spelled: map[string]string{"num_experts_per_tok": "moe_topk"},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = decoders.HunYuanFamily.Read(c, a)
		a.Own = &arch.Experts{Count: ofEach(c, "num_experts", &a), TopK: ofEach(c, "moe_topk", &a), FFN: a.FFN, SharedFFN: a.FFN,
			Path: "mlp", Normalise: true}
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Project, with.BehindRotary = (*blocks.Decoder).ProjectAlone, (*blocks.Decoder).NormHeads
		mixture := func(l *blocks.DecoderLayer) { l.Experts = buildHunYuanMixture(b, arch.ExpertsOf(b.A)) }
		with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) { decoders.DeclareHunYuan(b, l, mixture) }
		return blocks.BuildDecoder(b, with)
	}}

// ofEach reads a number of experts, or a list of one for each layer, which are all the same.
func ofEach(c *arch.Config, key string, a *arch.Architecture) int64 {
	v, _ := c.Value(key)
	list, ok := v.([]any)
	if !ok {
		return c.Integer(key, arch.MaxExperts)
	}
	if len(list) == 0 || int64(len(list)) < a.Layers {
		c.Errs.Add(c.Pointer+"/"+key, "conflict", "%s names %d layers, num_hidden_layers %d", key, len(list), a.Layers)
		return 0
	}
	for _, item := range list[1:] {
		if item != list[0] {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s differs between layers; modelled is one number for all",
				key)
			return 0
		}
	}
	return c.Whole(key, list[0], arch.MaxExperts)
}

// buildHunYuanMixture is HunYuanMoEV1Moe.
type hunYuanMixture struct {
	a       *arch.Architecture
	e       *arch.Experts
	router  arch.Linear
	shared  arch.GatedMLP
	grouped *blocks.GroupedBlock
	loop    *blocks.SparseBlock // instead, before transformers 5
}

func buildHunYuanMixture(b *arch.Builder, e *arch.Experts) *hunYuanMixture {
	m := &hunYuanMixture{a: b.A, e: e, grouped: &blocks.GroupedBlock{A: b.A, E: e}}
	b.Module("mlp.gate")
	m.router = b.Linear("mlp.gate.wg", b.A.Hidden, e.Count, false)
	m.router.Matrix = true
	b.P.List[m.router.W.Index].Dtype = step.F32
	if b.A.Software.Has(arch.GroupsExperts) {
		m.grouped.DeclareExperts(b)
	} else {
		m.loop = &blocks.SparseBlock{A: b.A, E: e, KeepsInput: true}
		m.loop.Experts = blocks.Experts(b, e.Count, true,
			func() arch.GatedMLP { return arch.BuildGatedMLP(b, "mlp.experts", e.FFN, false) })
	}
	m.shared = arch.BuildGatedMLP(b, "mlp.shared_mlp", e.SharedFFN, false)
	return m
}

func (m *hunYuanMixture) Forward(t *step.Tape, x step.T) (y, _ step.T) {
	shared := m.shared.Forward(t, m.a, x)
	if m.loop != nil {
		return m.forwardLoop(t, x, shared), step.NoTensor
	}
	matrix := t.View(t.Hold(x)) // view(-1, hidden_dim)
	logits, weights, chosen := m.route(t, matrix)
	routed := m.grouped.Mix(t, matrix, weights, chosen)
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
	logits := m.router.Forward(t, wide)
	t.Drop(wide)
	matrix := t.View(t.Hold(x))
	weights, chosen := m.loop.Route(t, logits, x.Dtype())
	sum := t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	locals := m.loop.Masks(t)
	sum, variables := m.loop.Mix(t, matrix, weights, sum)
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
	logits = m.router.Forward(t, wide)
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
