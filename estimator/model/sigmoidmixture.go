package model

import "github.com/vramplan/vramplan/estimator/step"

// sigmoidMixture is a mixture whose router takes sigmoids for scores, and chooses by them and a correction: that of
// MiniMax M2 and of LFM2.
type sigmoidMixture struct {
	a          *Architecture
	e          *experts
	router     router
	correction step.DType // its type; of no size where nothing is corrected
	grouped    *groupedBlock
}

// correct declares the correction, a buffer of the block.
func (m *sigmoidMixture) correct(b *builder, name string, d step.DType) {
	m.correction = d
	b.buffer(name, m.e.Count, d)
}

// mixed is the sum of what the experts make of x, whose tokens route sends to them.
func (m *sigmoidMixture) mixed(t *step.Tape, x step.T,
	route func(t *step.Tape, rows step.T) (logits, weights, chosen step.T)) step.T {
	rows := t.View(t.Hold(x))
	logits, weights, chosen := route(t, rows)
	y := m.grouped.mix(t, rows, weights, chosen)
	t.Drop(logits, weights, chosen, rows)
	return y
}

// miniMaxMixture is MiniMaxM2SparseMoeBlock.
type miniMaxMixture struct{ sigmoidMixture }

func (b *builder) miniMaxMixture(e *experts) *miniMaxMixture {
	m := &miniMaxMixture{sigmoidMixture{a: b.a, e: e, grouped: &groupedBlock{a: b.a, e: e}}}
	m.router = b.router("mlp.gate", e.Count, nil)
	m.grouped.declareExperts(b)
	m.correct(b, "mlp.e_score_correction_bias", b.loaded())
	return m
}

func (m *miniMaxMixture) forward(t *step.Tape, x step.T) (y, _ step.T) {
	return m.mixed(t, x, m.route), step.NoTensor
}

// route is MiniMaxM2TopKRouter, which computes in float32 what is behind its product.
func (m *miniMaxMixture) route(t *step.Tape, x step.T) (logits, weights, chosen step.T) {
	n := t.Shape.N()
	open := m.router.adapter.open(t)
	defer open.close(t)
	rows := t.View(t.Hold(x)) // reshape, which is a view even of what has that shape
	logits = m.router.linear(t, open, rows, step.LabelRouting)
	wide := t.Float(logits, step.LabelRouting)
	scores := t.Sigmoid(wide, step.LabelRouting)
	t.Drop(wide)
	corrected := t.RoutingTensor(n*m.e.Count, step.F32)
	best, chosen := t.RoutingTensor(n*m.e.TopK, step.F32), t.RoutingTensor(n*m.e.TopK, step.I64)
	weights = t.Chosen(scores, chosen)
	sum := t.SumRowsKept(weights, m.e.TopK)
	weights = t.DivideInPlace(weights, sum)
	t.Drop(sum, best, corrected, scores, rows)
	return logits, weights, chosen
}
