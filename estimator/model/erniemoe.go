package model

import "github.com/vramplan/vramplan/estimator/step"

// ernie45MoEFamily is ERNIE 4.5 with mixtures of experts, whose router is kept and computed in float32 and corrects the
// scores by a bias, and with an MLP that all tokens share.
// Source: transformers/models/ernie4_5_moe/modeling_ernie4_5_moe.py, configuration_ernie4_5_moe.py, 4.57 and 5.23.
var ernie45MoEFamily = family{modelType: "ernie4_5_moe", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 103424.0, "hidden_size": 2560.0, "intermediate_size": 12288.0, "num_hidden_layers": 28.0,
		"num_attention_heads": 20.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": true, "use_bias": false,
		"moe_intermediate_size": 1536.0, "moe_k": 6.0, "moe_num_experts": 64.0, "moe_num_shared_experts": 2.0,
		"moe_layer_start_index": 1.0, "moe_layer_end_index": -1.0, "moe_layer_interval": 1.0,
		"output_router_logits": false},
	spelled: map[string]string{"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
	read: func(c *config, a *Architecture) {
		ernie45Family.read(c, a)
		e := &experts{Count: c.integer("moe_num_experts", maxExperts), TopK: c.integer("moe_k", maxExperts),
			FFN: c.integer("moe_intermediate_size", maxRows), Path: "mlp"}
		e.SharedFFN = e.FFN * c.optional("moe_num_shared_experts", maxExperts)
		first, last, every := c.signed("moe_layer_start_index"), c.signed("moe_layer_end_index"),
			max(1, c.integer("moe_layer_interval", maxLayers))
		if last == -1 {
			last = a.Layers - 1
		}
		e.Dense = func(i int64) bool { return (i+1)%every != 0 || i < first || i > last }
		if every > 1 || last < a.Layers-1 {
			a.Irregular = true
		} else {
			a.Lead = max(0, min(first, a.Layers))
		}
		a.own = e
		c.refuseRouterOptions()
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.rotate, with.wideTables, with.headBias = rotateNeighboursWide, true, b.a.MLPBias
		with.declare = declareErnieMoE
		return b.decoder(with)
	}}

// declareErnieMoE lists the modules of Ernie4_5_MoeDecoderLayer.
func declareErnieMoE(b *builder, l *decoderLayer) {
	b.projections(l)
	if e := expertsOf(b.a); e.in(l.index) {
		l.experts = b.ernieMixture(e)
	} else {
		b.mlp(l)
	}
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
}

// ernieMixture is Ernie4_5_MoeSparseMoeBlock.
type ernieMixture struct {
	a       *Architecture
	e       *experts
	router  router
	shared  gatedMLP
	grouped *groupedBlock
	loop    *sparseBlock // instead of both, before transformers 5
}

func (b *builder) ernieMixture(e *experts) *ernieMixture {
	m := &ernieMixture{a: b.a, e: e, grouped: &groupedBlock{a: b.a, e: e}}
	if !b.a.Software.GroupsExperts {
		m.declareLoop(b)
		return m
	}
	correction := step.Weight{Index: b.declare(step.Parameter{Name: "mlp.gate.moe_statics.e_score_correction_bias",
		Numel: e.Count, Rows: 1, Cols: e.Count, Dtype: step.F32, Frozen: true})}
	m.router = b.router("mlp.gate", e.Count, nil)
	b.p.List[m.router.w.Index].Dtype = step.F32
	b.ahead(m.router.w, correction)
	m.grouped.declareExperts(b)
	m.declareShared(b)
	return m
}

func (m *ernieMixture) declareShared(b *builder) {
	if m.e.SharedFFN > 0 {
		m.shared = buildGatedMLP(b, "mlp.shared_experts", m.e.SharedFFN, b.a.MLPBias).onMatrices()
	}
}

func (m *ernieMixture) forward(t *step.Tape, x step.T) (y, router step.T) {
	x = t.View(t.Hold(x)) // view(-1, hidden_dim)
	var shared step.T
	if m.e.SharedFFN > 0 {
		shared = m.shared.forward(t, m.a, x)
	}
	if m.loop != nil {
		return m.forwardLoop(t, x, shared)
	}
	logits, weights, chosen, best := m.route(t, x)
	t.Drop(best)
	y = m.grouped.mix(t, x, weights, chosen)
	if m.e.SharedFFN > 0 {
		sum := t.Add(y, shared, step.LabelExpertOutput)
		t.Drop(y, shared)
		y = sum
	}
	t.Drop(logits, weights, chosen, x)
	return y, step.NoTensor
}

// route is Ernie4_5_MoeTopKRouter: a softmax, whose corrected results say which experts, and the share of each chosen.
// best are the scores that chose, a variable of the block.
func (m *ernieMixture) route(t *step.Tape, x step.T) (logits, weights, chosen, best step.T) {
	n := t.Shape.N()
	var share step.T
	open := m.router.adapter.open(t)
	defer open.close(t)
	t.WithoutAutocast(func() {
		wide := t.Float(x, step.LabelRouting)
		if m.loop != nil {
			logits = m.loop.gate.forward(t, wide)
		} else {
			logits = m.router.floatLinear(t, open, wide, step.LabelRouting)
		}
		t.Drop(wide)
		probabilities := t.Softmax(logits, step.LabelRouting)
		corrected := t.RoutingTensor(n*m.e.Count, step.F32)
		best, chosen = t.RoutingTensor(n*m.e.TopK, step.F32), t.RoutingTensor(n*m.e.TopK, step.I64)
		t.Drop(corrected)
		top := t.Chosen(probabilities, chosen)
		t.Drop(probabilities)
		sum := t.SumRowsKept(top, m.e.TopK)
		least := t.ClampAbove(sum) // clamp(min=…) does the same
		t.Drop(sum)
		share = t.Divide(top, least)
		t.Drop(least, top)
	})
	weights = t.Cast(share, x.Dtype(), step.LabelRouting)
	t.Drop(share)
	return logits, weights, chosen, best
}

// declareLoop lists the modules of Ernie4_5_MoeSparseMoeBlock before transformers 5, whose router is a linear layer.
// Source: transformers/models/ernie4_5_moe/modeling_ernie4_5_moe.py, 4.57.
func (m *ernieMixture) declareLoop(b *builder) {
	m.loop = &sparseBlock{a: b.a, e: m.e, keepsInput: true}
	b.declare(step.Parameter{Name: "mlp.moe_statics.e_score_correction_bias", Numel: m.e.Count, Rows: 1,
		Cols:  m.e.Count,
		Dtype: step.F32, Frozen: true})
	m.loop.gate = b.linear("mlp.gate", b.a.Hidden, m.e.Count, false)
	m.loop.gate.matrix = true
	b.p.List[m.loop.gate.w.Index].Dtype = step.F32
	m.loop.experts = b.experts(m.e.Count, true,
		func() gatedMLP { return buildGatedMLP(b, "mlp.experts", m.e.FFN, b.a.MLPBias) })
	m.declareShared(b)
}

// forwardLoop is forward where it runs the experts one after the other. It takes over x, a view, and shared.
func (m *ernieMixture) forwardLoop(t *step.Tape, x, shared step.T) (y, router step.T) {
	logits, weights, chosen, best := m.route(t, x)
	y = t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	locals := m.loop.masks(t)
	y, variables := m.loop.mix(t, x, weights, y)
	if m.e.SharedFFN > 0 {
		sum := t.Add(y, shared, step.LabelExpertOutput)
		t.Drop(y, shared)
		y = sum
	}
	t.Drop(append(locals, variables...)...)
	t.Drop(weights, chosen, best, x)
	return y, logits
}
