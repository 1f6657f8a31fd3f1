package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Granite's mixtures as transformers had them before 5.23: a router that groups the tokens by expert itself, and two
// tensors for all experts, which are multiplied one after the other.
// Source: transformers/models/granitemoe/modeling_granitemoe.py (GraniteMoeTopKGating, GraniteMoeMoE), 4.57.6, 5.0.0
// and 5.10.0.

// declareParallel lists the modules of GraniteMoeMoE.
func (m *graniteMixture) declareParallel(b *arch.Builder) {
	e, d := m.e, b.A.Hidden
	g := m.grouped
	g.GateUp = b.Parameter("block_sparse_moe.input_linear", e.Count*2*e.FFN, d)
	g.Down = b.Parameter("block_sparse_moe.output_linear", e.Count*d, e.FFN)
	b.Stacked(g.GateUp, e.Count)
	b.Stacked(g.Down, e.Count)
	b.Module("block_sparse_moe.input_linear")
	b.Module("block_sparse_moe.output_linear")
	b.Module("block_sparse_moe.router")
	m.router = b.Linear("block_sparse_moe.router.layer", d, e.Count, false)
	m.router.Matrix = true
}

// forwardParallel is forward of the release. Before 5.0 the layer has a variable for the router's logits.
func (m *graniteMixture) forwardParallel(t *step.Tape, x step.T) (y, held step.T) {
	routed, logits := m.mixParallel(t, x)
	if t.Recipe.Software.Has(interfacesGranite) {
		t.Drop(logits)
		logits = step.NoTensor
	}
	if m.e.SharedFFN == 0 {
		return routed, logits
	}
	shared := blocks.Chunked(t, m.a.Activation, m.sharedIn, m.shared, x)
	y = t.Add(routed, shared, step.LabelExpertOutput)
	t.Drop(shared)
	if m.a.Family == "granitemoehybrid" { // whose layer keeps the variable of the experts' sum
		m.left = append(m.left[:0], routed)
	} else {
		t.Drop(routed)
	}
	return y, logits
}

// Leaves are what the layer has besides, which it takes over.
func (m *graniteMixture) Leaves() []step.T {
	left := m.left
	m.left = nil
	return left
}

// mixParallel is GraniteMoeMoE: the experts' weighted sum, and the router's logits.
func (m *graniteMixture) mixParallel(t *step.Tape, x step.T) (y, logits step.T) {
	d, e := m.a.Hidden, m.e
	matrix := t.View(t.Hold(x)) // reshape(-1, emb_size)
	logits, gates, order, tokens := m.routeParallel(t, matrix)
	input := t.GatherRows(matrix, d, tokens)
	both := t.ParallelProducts(input, m.grouped.GateUp, e.Count, d, step.LabelActivation)
	gate, up := t.Chunk2(both)
	t.Drop(both)
	opened := arch.Activation(t, m.a.Activation, gate)
	product := t.Mul(opened, up, false, step.LabelActivation)
	t.Drop(opened)
	output := t.ParallelProducts(product, m.grouped.Down, e.Count, e.FFN, step.LabelExpertOutput)
	weighted := t.Mul(output, gates, true, step.LabelExpertOutput)
	t.Drop(output)
	zeros := t.Zeros(x.Numel(), weighted.Dtype(), step.LabelExpertOutput)
	y = t.View(t.RowsAdded(zeros, tokens, weighted))
	t.Drop(zeros, weighted, product, gate, up, input, gates, tokens, order, matrix)
	return y, logits
}

// routeParallel is GraniteMoeTopKGating: beside the logits, the weights of what the experts get, one after the other,
// where it stands among what all tokens chose, and of which tokens it is.
func (m *graniteMixture) routeParallel(t *step.Tape, x step.T) (logits, gates, order, tokens step.T) {
	n, e := t.Shape.N(), m.e
	narrow := m.router.Forward(t, x)
	logits = t.Float(narrow, step.LabelRouting)
	t.Drop(narrow)
	top, chosen := t.TopK(logits, e.Count, e.TopK)
	shares := t.Softmax(top, step.LabelRouting)
	weights := t.Cast(shares, x.Dtype(), step.LabelRouting)
	t.Drop(shares)
	zeros := t.RoutingTensor(n*e.Count, weights.Dtype())
	ones := t.RoutingTensor(n*e.Count, weights.Dtype())
	whole := t.RoutingTensor(n*e.Count, step.I64)
	sizes := t.SumOverTokens(n, e.Count)
	t.Drop(whole, sizes) // which become numbers
	sorted, order := t.Sort(chosen.Numel())
	tokens = t.RoutingTensor(chosen.Numel(), step.I64)
	gates = t.GatherRows(t.View(t.Hold(weights)), 1, order)
	t.Drop(weights, weights, sorted, ones, zeros, chosen, top)
	return logits, gates, order, tokens
}

// graniteMask is _update_causal_mask.
func graniteMask(t *step.Tape, _ int64, d step.DType) *step.T { return blocks.TriangularMask(t, d) }

// scaledFloatLogits divides the logits and, still in the model, makes them float32.
func scaledFloatLogits(t *step.Tape, logits step.T) step.T {
	scaled := t.ScaleLogits(logits)
	wide := t.FloatLogits(scaled)
	t.Drop(scaled)
	return wide
}
