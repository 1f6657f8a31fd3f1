package model

import "github.com/vramplan/vramplan/estimator/step"

// graniteMoEFamily is Granite with a mixture of experts in every layer, whose router takes the best scores before it
// takes their softmax.
// Source: transformers/models/granitemoe/modeling_granitemoe.py, configuration_granitemoe.py, 4.57 and 5.23.
var graniteMoEFamily = family{modelType: "granitemoe", keys: commonKeys, build: buildGraniteMoE,
	read:     (*config).graniteMoE,
	spelled:  map[string]string{"num_experts": "num_local_experts"},
	defaults: with(llamaFamily.defaults, graniteExperts)}

// graniteMoESharedFamily is the same with an MLP that all tokens share, unless it is 0 wide.
// Source: transformers/models/granitemoeshared/modeling_granitemoeshared.py, configuration_granitemoeshared.py, 4.57
// and 5.23.
var graniteMoESharedFamily = family{modelType: "granitemoeshared", keys: commonKeys, build: buildGraniteMoE,
	spelled:  map[string]string{"num_experts": "num_local_experts"},
	defaults: with(graniteMoEFamily.defaults, map[string]any{"shared_intermediate_size": 0.0}),
	read: func(c *config, a *Architecture) {
		c.graniteMoE(a)
		if v, _ := c.value("shared_intermediate_size"); v != 0.0 {
			expertsOf(a).SharedFFN = c.integer("shared_intermediate_size", maxRows)
		}
	}}

var graniteExperts = map[string]any{"num_local_experts": 8.0, "num_experts_per_tok": 2.0,
	"output_router_logits": false}

func (c *config) graniteMoE(a *Architecture) {
	c.biased(a)
	a.own = c.graniteExperts(a)
}

// graniteExperts reads the mixture, whose experts are as wide as intermediate_size says.
func (c *config) graniteExperts(a *Architecture) *experts {
	c.refuseRouterOptions()
	return &experts{Count: c.integer("num_local_experts", maxExperts),
		TopK: c.integer("num_experts_per_tok", maxExperts), FFN: c.integer("intermediate_size", maxRows), Path: "mlp",
		Parallel: true}
}

func buildGraniteMoE(b *builder) step.Network {
	with := likeLlama()
	with.scaleEmbedding, with.scaleBranches, with.scaleLogits = scaledBehindMask, true, (*step.Tape).ScaleLogits
	with.declare, with.keepsProbabilities = declareGraniteMoE, true
	if !b.a.Software.InterfacesGranite {
		with.scaleEmbedding, with.makeMask, with.scaleLogits = scaledByModel, graniteMask, scaledFloatLogits
		with.project = (*decoder).projectFirst
	}
	return b.decoder(with)
}

// declareGraniteMoE lists the modules of GraniteMoeDecoderLayer and GraniteMoeSharedDecoderLayer.
func declareGraniteMoE(b *builder, l *decoderLayer) {
	b.projections(l)
	declareMixed(b, l)
}

// declareMixed lists the norms and the mixture, which before transformers 5 came first, and what all tokens share.
func declareMixed(b *builder, l *decoderLayer) {
	var m *graniteMixture
	if !b.a.Software.InterfacesGranite {
		m = b.graniteMixture(expertsOf(b.a))
	}
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
	if m == nil {
		m = b.graniteMixture(expertsOf(b.a))
	}
	m.declareShared(b)
	l.experts = m
}

// graniteMixture is GraniteMoeMoE and, beside it, GraniteMoeSharedMLP.
type graniteMixture struct {
	a                *Architecture
	e                *experts
	router           linear
	grouped          *groupedBlock
	sharedIn, shared linear
	// left is what another variable of the layer refers to behind the block.
	left []step.T
}

func (b *builder) graniteMixture(e *experts) *graniteMixture {
	m := &graniteMixture{a: b.a, e: e, grouped: &groupedBlock{a: b.a, e: e, path: "block_sparse_moe"}}
	d := b.a.Hidden
	if e.parallel(b.a) {
		m.declareParallel(b)
	} else {
		b.module("block_sparse_moe.router")
		m.router = linear{w: b.parameter("block_sparse_moe.router", e.Count, d), b: step.NoWeight, matrix: true}
		m.grouped.declareExperts(b)
	}
	return m
}

// declareShared lists the MLP that all tokens share, if there is one.
func (m *graniteMixture) declareShared(b *builder) {
	if e, d := m.e, b.a.Hidden; e.SharedFFN > 0 {
		m.sharedIn = b.linear("shared_mlp.input_linear", d, 2*e.SharedFFN, false)
		m.shared = b.linear("shared_mlp.output_linear", e.SharedFFN, d, false)
	}
}

// forward also returns what a variable of the layer holds to its end: the experts' sum.
func (m *graniteMixture) forward(t *step.Tape, x step.T) (y, held step.T) {
	if m.e.parallel(m.a) {
		return m.forwardParallel(t, x)
	}
	matrix := t.View(t.Hold(x))
	logits, weights, chosen := m.route(t, matrix)
	routed := m.grouped.mix(t, matrix, weights, chosen)
	t.Drop(logits, weights, chosen, matrix)
	if m.e.SharedFFN == 0 {
		return routed, step.NoTensor
	}
	shared := chunked(t, m.a.Activation, m.sharedIn, m.shared, x)
	y = t.Add(routed, shared, step.LabelExpertOutput)
	t.Drop(shared)
	return y, routed
}

// route is GraniteMoeTopKRouter.
func (m *graniteMixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	narrow := m.router.forward(t, x)
	logits = t.Float(narrow, step.LabelRouting)
	t.Drop(narrow)
	top, chosen := t.TopK(logits, m.e.Count, m.e.TopK)
	shares := t.Softmax(top, step.LabelRouting)
	weights = t.Cast(shares, x.Dtype(), step.LabelRouting)
	t.Drop(shares, top)
	return logits, weights, chosen
}
