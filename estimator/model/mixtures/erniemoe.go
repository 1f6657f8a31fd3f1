package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// Ernie45MoEFamily is ERNIE 4.5 with mixtures of experts, whose router is kept and computed in float32 and corrects the
// scores by a bias, and with an MLP that all tokens share.
// Source: transformers/models/ernie4_5_moe/modeling_ernie4_5_moe.py, configuration_ernie4_5_moe.py, 4.57 and 5.23.
var Ernie45MoEFamily = arch.Family{ModelType: "ernie4_5_moe", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 103424.0, "hidden_size": 2560.0, "intermediate_size": 12288.0, "num_hidden_layers": 28.0,
		"num_attention_heads": 20.0, "num_key_value_heads": 4.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": true, "use_bias": false,
		"moe_intermediate_size": 1536.0, "moe_k": 6.0, "moe_num_experts": 64.0, "moe_num_shared_experts": 2.0,
		"moe_layer_start_index": 1.0, "moe_layer_end_index": -1.0, "moe_layer_interval": 1.0,
		"output_router_logits": false},
	Spelled: map[string]string{"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = decoders.Ernie45Family.Read(c, a)
		e := &arch.Experts{Count: c.Integer("moe_num_experts", arch.MaxExperts), TopK: c.Integer("moe_k", arch.MaxExperts),
			FFN: c.Integer("moe_intermediate_size", arch.MaxRows), Path: "mlp"}
		e.SharedFFN = e.FFN * c.Optional("moe_num_shared_experts", arch.MaxExperts)
		first, last, every := c.Signed("moe_layer_start_index"), c.Signed("moe_layer_end_index"),
			max(1, c.Integer("moe_layer_interval", arch.MaxLayers))
		if last == -1 {
			last = a.Layers - 1
		}
		e.Dense = func(i int64) bool { return (i+1)%every != 0 || i < first || i > last }
		if every > 1 || last < a.Layers-1 {
			a.Irregular = true
		} else {
			a.Lead = max(0, min(first, a.Layers))
		}
		a.Own = e
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Rotate, with.WideTables, with.HeadBias = decoders.RotateNeighboursWide, true, b.A.MLPBias
		with.Declare = declareErnieMoE
		return blocks.BuildDecoder(b, with)
	}}

// declareErnieMoE lists the modules of Ernie4_5_MoeDecoderLayer.
func declareErnieMoE(b *arch.Builder, l *blocks.DecoderLayer) {
	blocks.DeclareProjections(b, l)
	if e := arch.ExpertsOf(b.A); e.In(l.Index) {
		l.Experts = buildErnieMixture(b, e)
	} else {
		blocks.DeclareMLP(b, l)
	}
	l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
}

// buildErnieMixture is Ernie4_5_MoeSparseMoeBlock.
type ernieMixture struct {
	a       *arch.Architecture
	e       *arch.Experts
	router  arch.Router
	shared  arch.GatedMLP
	grouped *blocks.GroupedBlock
	loop    *blocks.SparseBlock // instead of both, before transformers 5
}

func buildErnieMixture(b *arch.Builder, e *arch.Experts) *ernieMixture {
	m := &ernieMixture{a: b.A, e: e, grouped: &blocks.GroupedBlock{A: b.A, E: e}}
	if !b.A.Software.Has(arch.GroupsExperts) {
		m.declareLoop(b)
		return m
	}
	correction := step.Weight{Index: b.Declare(step.Parameter{Name: "mlp.gate.moe_statics.e_score_correction_bias",
		Numel: e.Count, Rows: 1, Cols: e.Count, Dtype: step.F32, Frozen: true})}
	m.router = b.Router("mlp.gate", e.Count, nil)
	b.P.List[m.router.W.Index].Dtype = step.F32
	b.Ahead(m.router.W, correction)
	m.grouped.DeclareExperts(b)
	m.declareShared(b)
	return m
}

func (m *ernieMixture) declareShared(b *arch.Builder) {
	if m.e.SharedFFN > 0 {
		m.shared = arch.BuildGatedMLP(b, "mlp.shared_experts", m.e.SharedFFN, b.A.MLPBias).OnMatrices()
	}
}

func (m *ernieMixture) Forward(t *step.Tape, x step.T) (y, router step.T) {
	x = t.View(t.Hold(x)) // view(-1, hidden_dim)
	var shared step.T
	if m.e.SharedFFN > 0 {
		shared = m.shared.Forward(t, m.a, x)
	}
	if m.loop != nil {
		return m.forwardLoop(t, x, shared)
	}
	logits, weights, chosen, best := m.route(t, x)
	t.Drop(best)
	y = m.grouped.Mix(t, x, weights, chosen)
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
	open := m.router.Adapter.Open(t)
	defer open.Close(t)
	t.WithoutAutocast(func() {
		wide := t.Float(x, step.LabelRouting)
		if m.loop != nil {
			logits = m.loop.Gate.Forward(t, wide)
		} else {
			logits = m.router.FloatLinear(t, open, wide, step.LabelRouting)
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
func (m *ernieMixture) declareLoop(b *arch.Builder) {
	m.loop = &blocks.SparseBlock{A: b.A, E: m.e, KeepsInput: true}
	b.Declare(step.Parameter{Name: "mlp.moe_statics.e_score_correction_bias", Numel: m.e.Count, Rows: 1,
		Cols:  m.e.Count,
		Dtype: step.F32, Frozen: true})
	m.loop.Gate = b.Linear("mlp.gate", b.A.Hidden, m.e.Count, false)
	m.loop.Gate.Matrix = true
	b.P.List[m.loop.Gate.W.Index].Dtype = step.F32
	m.loop.Experts = blocks.Experts(b, m.e.Count, true,
		func() arch.GatedMLP { return arch.BuildGatedMLP(b, "mlp.experts", m.e.FFN, b.A.MLPBias) })
	m.declareShared(b)
}

// forwardLoop is forward where it runs the experts one after the other. It takes over x, a view, and shared.
func (m *ernieMixture) forwardLoop(t *step.Tape, x, shared step.T) (y, router step.T) {
	logits, weights, chosen, best := m.route(t, x)
	y = t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	locals := m.loop.Masks(t)
	y, variables := m.loop.Mix(t, x, weights, y)
	if m.e.SharedFFN > 0 {
		sum := t.Add(y, shared, step.LabelExpertOutput)
		t.Drop(y, shared)
		y = sum
	}
	t.Drop(append(locals, variables...)...)
	t.Drop(weights, chosen, best, x)
	return y, logits
}
