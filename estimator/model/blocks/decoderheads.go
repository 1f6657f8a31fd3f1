package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// The heads for classes that decoders have of modeling_layers.py: GenericForSequenceClassification, whose score of the
// last token is what reward models are trained with, and GenericForTokenClassification.

// score declares the head for classes, which has a bias where every token gets one.
func score(b *arch.Builder) arch.Linear {
	var m arch.Linear
	m.W, m.B = b.Pair("score", b.A.Labels, b.A.Hidden, b.A.Class == arch.ClassTokens)
	return m
}

// classify is what stands on a decoder whose output is x. It takes over x.
// Source: transformers/modeling_layers.py and loss/loss_utils.py, 4.57 and 5.23.
func (m *Decoder) classify(t *step.Tape, x, labels step.T) (loss step.T, outputs []step.T) {
	if m.A.Class == arch.ClassTokens {
		input := t.Dropout(x, m.A.ScoreDropout)
		logits := t.CloseSection(step.HeadSection, t.LinearMatrix(input, m.Head.W, m.Head.B, step.LabelLogits))
		wide := t.FloatLogits(logits)
		loss = t.CrossEntropy(wide, labels)
		t.Drop(wide)
		for _, cached := range m.Cache { // the class returns none
			t.Drop(cached)
		}
		m.Cache = nil
		t.Drop(input, x)
		return loss, []step.T{logits, t.Hold(loss)}
	}
	logits := t.CloseSection(step.HeadSection, t.LinearMatrix(x, m.Head.W, m.Head.B, step.LabelLogits))
	tokens, numbers, last := m.lastTokens(t)
	rows := t.Input(t.Shape.Batch, step.I64)
	pooled := t.PickTokens(logits, m.A.Labels, rows, last)
	t.Drop(rows)
	loss, outputs = ClassificationLoss(t, m.A, pooled, labels)
	t.Drop(x, logits, tokens, numbers, last)
	return loss, outputs
}

// lastTokens finds the rightmost token of every sequence that is no padding: which are none and their places, in 32
// bits, and the greatest product of the two.
func (m *Decoder) lastTokens(t *step.Tape) (tokens, numbers, last step.T) {
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
