package model

import "github.com/vramplan/vramplan/estimator/step"

// The heads for classes that decoders have of modeling_layers.py: GenericForSequenceClassification, whose score of the
// last token is what reward models are trained with, and GenericForTokenClassification.

// score declares the head for classes, which has a bias where every token gets one.
func (b *builder) score() linear {
	var m linear
	m.w, m.b = b.pair("score", b.a.Labels, b.a.Hidden, b.a.Class == classTokens)
	return m
}

// classify is what stands on a decoder whose output is x. It takes over x.
// Source: transformers/modeling_layers.py and loss/loss_utils.py, 4.57 and 5.23.
func (m *decoder) classify(t *step.Tape, x, labels step.T) (loss step.T, outputs []step.T) {
	if m.a.Class == classTokens {
		input := t.Dropout(x, m.a.ScoreDropout)
		logits := t.CloseSection(step.HeadSection, t.LinearMatrix(input, m.head.w, m.head.b, step.LabelLogits))
		wide := t.FloatLogits(logits)
		loss = t.CrossEntropy(wide, labels)
		t.Drop(wide)
		for _, cached := range m.cache { // the class returns none
			t.Drop(cached)
		}
		m.cache = nil
		t.Drop(input, x)
		return loss, []step.T{logits, t.Hold(loss)}
	}
	logits := t.CloseSection(step.HeadSection, t.LinearMatrix(x, m.head.w, m.head.b, step.LabelLogits))
	tokens, numbers, last := m.lastTokens(t)
	rows := t.Input(t.Shape.Batch, step.I64)
	pooled := t.PickTokens(logits, m.a.Labels, rows, last)
	t.Drop(rows)
	loss, outputs = classificationLoss(t, m.a, pooled, labels)
	t.Drop(x, logits, tokens, numbers, last)
	return loss, outputs
}

// lastTokens finds the rightmost token of every sequence that is no padding: which are none and their places, in 32
// bits, and the greatest product of the two.
func (m *decoder) lastTokens(t *step.Tape) (tokens, numbers, last step.T) {
	n := t.Shape.N()
	differ := t.Input(n, step.Bool)
	tokens = t.Input(n, step.F32) // of four bytes, as the 32-bit integers are
	t.Drop(differ)
	numbers = t.Input(t.Shape.Tokens, step.F32)
	product := t.Input(n, step.F32)
	last = t.Input(t.Shape.Batch, step.I64)
	t.Drop(product)
	return tokens, numbers, last
}
