package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// SigmoidMixture is a mixture whose router takes sigmoids for scores, and chooses by them and a correction: that of
// MiniMax M2 and of LFM2.
type SigmoidMixture struct {
	A          *arch.Architecture
	E          *arch.Experts
	Router     arch.Router
	Correction step.DType // its type; of no size where nothing is corrected
	Grouped    *blocks.GroupedBlock
}

// Correct declares the correction, a buffer of the block.
func (m *SigmoidMixture) Correct(b *arch.Builder, name string, d step.DType) {
	m.Correction = d
	b.Buffer(name, m.E.Count, d)
}

// Mixed is the sum of what the experts make of x, whose tokens route sends to them.
func (m *SigmoidMixture) Mixed(t *step.Tape, x step.T,
	route func(t *step.Tape, rows step.T) (logits, weights, chosen step.T)) step.T {
	rows := t.View(t.Hold(x))
	logits, weights, chosen := route(t, rows)
	y := m.Grouped.Mix(t, rows, weights, chosen)
	t.Drop(logits, weights, chosen, rows)
	return y
}

// buildMiniMaxMixture is MiniMaxM2SparseMoeBlock.
type miniMaxMixture struct{ SigmoidMixture }

func buildMiniMaxMixture(b *arch.Builder, e *arch.Experts) *miniMaxMixture {
	m := &miniMaxMixture{SigmoidMixture{A: b.A, E: e, Grouped: &blocks.GroupedBlock{A: b.A, E: e}}}
	m.Router = b.Router("mlp.gate", e.Count, nil)
	m.Grouped.DeclareExperts(b)
	m.Correct(b, "mlp.e_score_correction_bias", b.Loaded())
	return m
}

func (m *miniMaxMixture) Forward(t *step.Tape, x step.T) (y, _ step.T) {
	return m.Mixed(t, x, m.route), step.NoTensor
}

// route is MiniMaxM2TopKRouter, which computes in float32 what is behind its product.
func (m *miniMaxMixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	n := t.Shape.N()
	open := m.Router.Adapter.Open(t)
	defer open.Close(t)
	rows := t.View(t.Hold(x)) // reshape, which is a view even of what has that shape
	logits = m.Router.Linear(t, open, rows, step.LabelRouting)
	wide := t.Float(logits, step.LabelRouting)
	scores := t.Sigmoid(wide, step.LabelRouting)
	t.Drop(wide)
	corrected := t.RoutingTensor(n*m.E.Count, step.F32)
	best, chosen := t.RoutingTensor(n*m.E.TopK, step.F32), t.RoutingTensor(n*m.E.TopK, step.I64)
	weights = t.Chosen(scores, chosen)
	sum := t.SumRowsKept(weights, m.E.TopK)
	weights = t.DivideInPlace(weights, sum)
	t.Drop(sum, best, corrected, scores, rows)
	return logits, weights, chosen
}
