package hybrids

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/step"
)

// LFM2MoEFamily is LFM2 with mixtures of experts behind the first layers.
// Source: transformers/models/lfm2_moe/modeling_lfm2_moe.py, configuration_lfm2_moe.py, 5.23.
var LFM2MoEFamily = arch.Family{ModelType: "lfm2_moe", Keys: arch.CommonKeys, Build: LFM2Family.Build,
	Defaults: map[string]any{
		"vocab_size": 65536.0, "hidden_size": 2048.0, "intermediate_size": 7168.0, "moe_intermediate_size": 1792.0,
		"num_hidden_layers": 32.0, "num_attention_heads": 32.0, "num_key_value_heads": 8.0,
		"max_position_embeddings": 128000.0, "use_cache": true, "tie_word_embeddings": true, "conv_bias": false,
		"conv_L_cache": 3.0, "num_dense_layers": 2.0, "num_experts_per_tok": 4.0, "num_experts": 32.0,
		"use_expert_bias": true, "norm_topk_prob": true, "output_router_logits": false, "hidden_act": "silu",
		"attention_dropout": 0.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		tiedEmbedding(c)
		a = blocks.ReadLlama(c, a)
		a.Activation, a.AttentionDropout, a.QKNorm, a.UndroppedAttention = "silu", 0, true, true
		a = convolvedLayers(c, a)
		o := a.Own.(*shortConvolutions)
		dense := int64(0)
		if v, ok := c.Value("num_dense_layers"); !ok || v != 0.0 {
			dense = c.Integer("num_dense_layers", arch.MaxLayers)
		}
		o.corrects = c.Boolean("use_expert_bias")
		o.sparse = &arch.Experts{Count: c.Integer("num_experts", arch.MaxExperts),
			TopK: c.Integer("num_experts_per_tok", arch.MaxExperts), FFN: c.Integer("moe_intermediate_size", arch.MaxRows),
			Normalise: c.Boolean("norm_topk_prob"), Path: "feed_forward", GroupedAlone: true,
			Dense: func(i int64) bool { return i < dense }}
		a.Lead = min(dense, a.Layers)
		blocks.RefuseRouterOptions(c)
		return a
	}}

// buildLFM2Mixture is Lfm2MoeSparseMoeBlock.
type lfm2Mixture struct{ mixtures.SigmoidMixture }

func buildLFM2Mixture(b *arch.Builder, o *shortConvolutions) *lfm2Mixture {
	m := &lfm2Mixture{mixtures.SigmoidMixture{A: b.A, E: o.sparse, Grouped: &blocks.GroupedBlock{A: b.A, E: o.sparse,
		Path: "feed_forward"}}}
	m.Grouped.DeclareExperts(b)
	m.Router = b.Router("feed_forward.gate", m.E.Count, nil)
	if o.corrects {
		m.Correct(b, "feed_forward.expert_bias", step.F32)
	}
	return m
}

func (m *lfm2Mixture) Forward(t *step.Tape, x step.T) (y, _ step.T) {
	return m.Mixed(t, x, m.route), step.NoTensor
}

// route is Lfm2MoeTopKRouter.
func (m *lfm2Mixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	n := t.Shape.N()
	logits = m.Router.Linear(t, nil, x, step.LabelRouting)
	scores := t.Sigmoid(logits, step.LabelRouting)
	var locals []step.T
	if m.Correction.Size() > 0 {
		corrected := t.RoutingTensor(n*m.E.Count, scores.Dtype().With(m.Correction))
		best := t.RoutingTensor(n*m.E.TopK, corrected.Dtype())
		chosen = t.RoutingTensor(n*m.E.TopK, step.I64)
		locals = []step.T{corrected, best}
		weights = t.Chosen(scores, chosen)
	} else {
		weights, chosen = t.TopK(scores, m.E.Count, m.E.TopK)
	}
	t.Drop(scores)
	if m.E.Normalise {
		sum := t.SumRowsKept(weights, m.E.TopK)
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
