package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// expertBiases are those of GptOssExperts in later releases, one row for each expert.
type expertBiases struct{ gateUp, down step.Weight }

// groupedMLP is GptOssMLP whose experts run as grouped products.
// Source: transformers/models/gpt_oss/modeling_gpt_oss.py (GptOssMLP, GptOssTopKRouter), integrations/moe.py
// (grouped_mm_experts_forward), 5.23.
type groupedMLP struct {
	joined *joinedExperts
	block  blocks.GroupedBlock
}

// grouped is the same modules, run as grouped products.
func (m *joinedExperts) grouped(a *arch.Architecture) *groupedMLP {
	g := &groupedMLP{m, blocks.GroupedBlock{A: a, E: m.e, GateUp: m.gateUp, Down: m.down}}
	biases := expertBiases{m.gateUpBias, m.downBias}
	g.block.Project = func(t *step.Tape, input, sorted, ends step.T) (output, held step.T) {
		return biases.project(t, &g.block, input, sorted, ends)
	}
	return g
}

// Forward returns the experts' weighted sum and the router's scores.
func (m *groupedMLP) Forward(t *step.Tape, x step.T) (y, scores step.T) {
	e := m.joined.e
	x = t.View(t.Hold(x))
	logits := m.joined.router.Forward(t, x)
	top, chosen := t.TopK(logits, e.Count, e.TopK)
	scores = t.Softmax(top, step.LabelRouting)
	t.Drop(top)
	y = m.block.Mix(t, x, scores, chosen)
	t.Drop(x, chosen, logits)
	return y, scores
}

// project are both projections of the experts with their biases, which are gathered for every token first and added in
// place. It also returns the second ones, which a variable holds to the end.
func (b *expertBiases) project(t *step.Tape, m *blocks.GroupedBlock, input, sorted, ends step.T) (output,
	second step.T) {
	width := 2 * m.E.FFN
	bias := t.GatherRows(t.Parameter(b.gateUp), width, sorted)
	product := t.TransposedExpertsProduct(input, m.GateUp, m.E.Count, ends, step.LabelActivation)
	active := activateClamped(t, t.AddInto(product, bias))
	second = t.GatherRows(t.Parameter(b.down), m.A.Hidden, sorted)
	t.Drop(bias)
	product = t.TransposedExpertsProduct(active, m.Down, m.E.Count, ends, step.LabelExpertOutput)
	t.Drop(active)
	return t.AddInto(product, second), second
}

// activateClamped is (up + 1) · gate · sigmoid(α · gate), both clamped. It takes over both.
func activateClamped(t *step.Tape, both step.T) step.T {
	evens, odds := t.Interleaved(both)
	gate := t.ClampAbove(evens)
	t.Drop(evens)
	up := t.ClampBetween(odds)
	t.Drop(odds)
	scaled := t.MulScalar(gate, step.LabelElementwise)
	sigmoid := t.Sigmoid(scaled, step.LabelElementwise)
	t.Drop(scaled)
	glu := t.Mul(gate, sigmoid, false, step.LabelActivation)
	t.Drop(sigmoid)
	one := t.AddScalar(up, step.LabelElementwise)
	y := t.Mul(one, glu, false, step.LabelActivation)
	t.Drop(one, glu, gate, up, both)
	return y
}
