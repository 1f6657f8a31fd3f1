package model

import "github.com/vramplan/vramplan/estimator/step"

// lfm2MoEFamily is LFM2 with mixtures of experts behind the first layers.
// Source: transformers/models/lfm2_moe/modeling_lfm2_moe.py, configuration_lfm2_moe.py, 5.23.
var lfm2MoEFamily = family{modelType: "lfm2_moe", keys: commonKeys, build: lfm2Family.build,
	defaults: map[string]any{
		"vocab_size": 65536.0, "hidden_size": 2048.0, "intermediate_size": 7168.0, "moe_intermediate_size": 1792.0,
		"num_hidden_layers": 32.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0,
		"max_position_embeddings": 128000.0, "use_cache": true, "tie_word_embeddings": true, "conv_bias": false,
		"conv_L_cache": 3.0, "num_dense_layers": 2.0, "num_experts_per_tok": 4.0, "num_experts": 32.0,
		"use_expert_bias": true, "norm_topk_prob": true, "output_router_logits": false, "hidden_act": "silu",
		"attention_dropout": 0.0},
	read: func(c *config, a *Architecture) {
		c.tiedEmbedding()
		c.llama(a)
		a.Activation, a.AttentionDropout, a.QKNorm, a.UndroppedAttention = "silu", 0, true, true
		c.convolvedLayers(a)
		o := a.own.(*shortConvolutions)
		dense := int64(0)
		if v, ok := c.value("num_dense_layers"); !ok || v != 0.0 {
			dense = c.integer("num_dense_layers", maxLayers)
		}
		o.corrects = c.boolean("use_expert_bias")
		o.sparse = &experts{Count: c.integer("num_experts", maxExperts),
			TopK: c.integer("num_experts_per_tok", maxExperts), FFN: c.integer("moe_intermediate_size", maxRows),
			Normalise: c.boolean("norm_topk_prob"), Path: "feed_forward", GroupedAlone: true,
			Dense: func(i int64) bool { return i < dense }}
		a.Lead = min(dense, a.Layers)
		c.refuseRouterOptions()
	}}

// lfm2Mixture is Lfm2MoeSparseMoeBlock.
type lfm2Mixture struct{ sigmoidMixture }

func (b *builder) lfm2Mixture(o *shortConvolutions) *lfm2Mixture {
	m := &lfm2Mixture{sigmoidMixture{a: b.a, e: o.sparse, grouped: &groupedBlock{a: b.a, e: o.sparse,
		path: "feed_forward"}}}
	m.grouped.declareExperts(b)
	m.router = b.router("feed_forward.gate", m.e.Count, nil)
	if o.corrects {
		m.correct(b, "feed_forward.expert_bias", step.F32)
	}
	return m
}

func (m *lfm2Mixture) forward(t *step.Tape, x step.T) (y, _ step.T) {
	return m.mixed(t, x, m.route), step.NoTensor
}

// route is Lfm2MoeTopKRouter.
func (m *lfm2Mixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	n := t.Shape.N()
	logits = m.router.linear(t, nil, x, step.LabelRouting)
	scores := t.Sigmoid(logits, step.LabelRouting)
	var locals []step.T
	if m.correction.Size() > 0 {
		corrected := t.RoutingTensor(n*m.e.Count, scores.Dtype().With(m.correction))
		best := t.RoutingTensor(n*m.e.TopK, corrected.Dtype())
		chosen = t.RoutingTensor(n*m.e.TopK, step.I64)
		locals = []step.T{corrected, best}
		weights = t.Chosen(scores, chosen)
	} else {
		weights, chosen = t.TopK(scores, m.e.Count, m.e.TopK)
	}
	t.Drop(scores)
	if m.e.Normalise {
		sum := t.SumRowsKept(weights, m.e.TopK)
		divisor := t.AddScalar(sum, step.LabelRouting)
		t.Drop(sum)
		shares := t.Divide(weights, divisor)
		t.Drop(divisor, weights)
		weights = shares
	}
	scaled := t.MulScalar(weights, step.LabelRouting)
	t.Drop(append(locals, weights)...)
	return logits, scaled, chosen
}
