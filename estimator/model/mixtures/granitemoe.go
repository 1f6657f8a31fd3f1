package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GraniteMoEFamily is Granite with a mixture of experts in every layer, whose router takes the best scores before it
// takes their softmax.
// Source: transformers/models/granitemoe/modeling_granitemoe.py, configuration_granitemoe.py, 4.57 and 5.23.
var GraniteMoEFamily = arch.Family{ModelType: "granitemoe", Keys: arch.CommonKeys, Build: buildGraniteMoE,
	Read:     readGraniteMoE,
	Spelled:  map[string]string{"num_experts": "num_local_experts"},
	Defaults: arch.With(decoders.LlamaFamily.Defaults, graniteExperts)}

// GraniteMoESharedFamily is the same with an MLP that all tokens share, unless it is 0 wide.
// Source: transformers/models/granitemoeshared/modeling_granitemoeshared.py, configuration_granitemoeshared.py, 4.57
// and 5.23.
var GraniteMoESharedFamily = arch.Family{ModelType: "granitemoeshared", Keys: arch.CommonKeys, Build: buildGraniteMoE,
	Spelled:  map[string]string{"num_experts": "num_local_experts"},
	Defaults: arch.With(GraniteMoEFamily.Defaults, map[string]any{"shared_intermediate_size": 0.0}),
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = readGraniteMoE(c, a)
		if v, _ := c.Value("shared_intermediate_size"); v != 0.0 {
			arch.ExpertsOf(&a).SharedFFN = c.Integer("shared_intermediate_size", arch.MaxRows)
		}
		return a
	}}

var graniteExperts = map[string]any{"num_local_experts": 8.0, "num_experts_per_tok": 2.0,
	"output_router_logits": false}

func readGraniteMoE(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = blocks.ReadBiased(c, a)
	a.Own = readGraniteExperts(c, &a)
	return a
}

// readGraniteExperts reads the mixture, whose experts are as wide as intermediate_size says.
func readGraniteExperts(c *arch.Config, a *arch.Architecture) *arch.Experts {
	blocks.RefuseRouterOptions(c)
	return &arch.Experts{Count: c.Integer("num_local_experts", arch.MaxExperts),
		TopK: c.Integer("num_experts_per_tok", arch.MaxExperts), FFN: c.Integer("intermediate_size", arch.MaxRows), Path: "mlp",
		Parallel: true}
}

// interfacesGranite is the same of Granite's mixtures, and InterfacesGranite is masks of theirs that the library
// makes.
var interfacesGranite = release.Declare("interfaces-granite", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "GraniteMoE and GraniteMoEShared of transformers 5 make their masks as all decoders do, scale the " +
		"embeddings behind them, leave it to the loss to make logits float32, and let go of the routers' logits",
	Source: "models/granitemoe/modeling_granitemoe.py (GraniteMoeModel, GraniteMoeForCausalLM), " +
		"models/granitemoeshared/modeling_granitemoeshared.py, 4.57.6, 5.0.0 and 5.23.0",
	Shown: "traces of both with 4.57 and 5.23",
})

func buildGraniteMoE(b *arch.Builder) step.Network {
	with := blocks.LikeLlama()
	with.ScaleEmbedding, with.ScaleBranches, with.ScaleLogits = blocks.ScaledBehindMask, true, (*step.Tape).ScaleLogits
	with.Declare = declareGraniteMoE
	if !b.A.Software.Has(interfacesGranite) {
		with.ScaleEmbedding, with.MakeMask, with.ScaleLogits = blocks.ScaledByModel, graniteMask, scaledFloatLogits
		with.Project = (*blocks.Decoder).ProjectFirst
	}
	return blocks.BuildDecoder(b, with)
}

// declareGraniteMoE lists the modules of GraniteMoeDecoderLayer and GraniteMoeSharedDecoderLayer.
func declareGraniteMoE(b *arch.Builder, l *blocks.DecoderLayer) {
	blocks.DeclareProjections(b, l)
	declareMixed(b, l)
}

// declareMixed lists the norms and the mixture, which before transformers 5 came first, and what all tokens share.
func declareMixed(b *arch.Builder, l *blocks.DecoderLayer) {
	var m *graniteMixture
	if !b.A.Software.Has(interfacesGranite) {
		m = buildGraniteMixture(b, arch.ExpertsOf(b.A))
	}
	l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
	if m == nil {
		m = buildGraniteMixture(b, arch.ExpertsOf(b.A))
	}
	m.declareShared(b)
	l.Experts = m
}

// buildGraniteMixture is GraniteMoeMoE and, beside it, GraniteMoeSharedMLP.
type graniteMixture struct {
	a                *arch.Architecture
	e                *arch.Experts
	router           arch.Linear
	grouped          *blocks.GroupedBlock
	sharedIn, shared arch.Linear
	// left is what another variable of the layer refers to behind the block.
	left []step.T
}

func buildGraniteMixture(b *arch.Builder, e *arch.Experts) *graniteMixture {
	m := &graniteMixture{a: b.A, e: e, grouped: &blocks.GroupedBlock{A: b.A, E: e, Path: "block_sparse_moe"}}
	d := b.A.Hidden
	if e.OneByOne(b.A) {
		m.declareParallel(b)
	} else {
		b.Module("block_sparse_moe.router")
		m.router = arch.Linear{W: b.Parameter("block_sparse_moe.router", e.Count, d), B: step.NoWeight, Matrix: true}
		m.grouped.DeclareExperts(b)
	}
	return m
}

// declareShared lists the MLP that all tokens share, if there is one.
func (m *graniteMixture) declareShared(b *arch.Builder) {
	if e, d := m.e, b.A.Hidden; e.SharedFFN > 0 {
		m.sharedIn = b.Linear("shared_mlp.input_linear", d, 2*e.SharedFFN, false)
		m.shared = b.Linear("shared_mlp.output_linear", e.SharedFFN, d, false)
	}
}

// Forward also returns what a variable of the layer holds to its end: the experts' sum.
func (m *graniteMixture) Forward(t *step.Tape, x step.T) (y, held step.T) {
	if m.e.OneByOne(m.a) {
		return m.forwardParallel(t, x)
	}
	matrix := t.View(t.Hold(x))
	logits, weights, chosen := m.route(t, matrix)
	routed := m.grouped.Mix(t, matrix, weights, chosen)
	t.Drop(logits, weights, chosen, matrix)
	if m.e.SharedFFN == 0 {
		return routed, step.NoTensor
	}
	shared := blocks.Chunked(t, m.a.Activation, m.sharedIn, m.shared, x)
	y = t.Add(routed, shared, step.LabelExpertOutput)
	t.Drop(shared)
	return y, routed
}

// route is GraniteMoeTopKRouter.
func (m *graniteMixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	narrow := m.router.Forward(t, x)
	logits = t.Float(narrow, step.LabelRouting)
	t.Drop(narrow)
	top, chosen := t.TopK(logits, m.e.Count, m.e.TopK)
	shares := t.Softmax(top, step.LabelRouting)
	weights = t.Cast(shares, x.Dtype(), step.LabelRouting)
	t.Drop(shares, top)
	return logits, weights, chosen
}

// KeepsProbabilities says that the layer's variable for them lives to its end.
func (m *graniteMixture) KeepsProbabilities() bool { return true }
