package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// The heads for classes that decoders have: those of modeling_layers.py, GenericForSequenceClassification, whose score
// of the last token is what reward models are trained with, and GenericForTokenClassification; and those that older
// models write themselves, which take the loss of a token's class of logits in their own type.

// DecoderHead declares what stands on a decoder: the head onto its vocabulary, which has a name, or the score of a
// class that gives sequences or tokens their classes, which has a bias where every token gets one.
func DecoderHead(b *arch.Builder, name string, width int64, bias bool) arch.Linear {
	if !b.A.Classes() {
		return b.Head(name, width, bias)
	}
	name = "score"
	if b.A.Class == arch.ClassTokens && b.A.Described.OwnClasses {
		name = "classifier"
	}
	var m arch.Linear
	m.W, m.B = b.Pair(name, b.A.Labels, width, b.A.Class == arch.ClassTokens)
	return m
}

// DecoderOutputs is the head of a decoder whose output is x, and the loss that the model returns. It takes over x.
func DecoderOutputs(t *step.Tape, a *arch.Architecture, head arch.Linear, x, labels step.T,
	cache []step.T) (step.T, []step.T) {
	if a.Classes() {
		return classify(t, a, head, x, labels, cache)
	}
	logits := t.CloseSection(step.HeadSection, head.Logits(t, x))
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(x)
	return loss, append([]step.T{logits, t.Hold(loss)}, cache...)
}

// classify is the head for classes of a decoder whose output is x, and its loss. It takes over x.
// Source: transformers/modeling_layers.py, loss/loss_utils.py and models/gpt2/modeling_gpt2.py, 4.57 and 5.23.
func classify(t *step.Tape, a *arch.Architecture, head arch.Linear, x, labels step.T,
	cache []step.T) (loss step.T, outputs []step.T) {
	if a.Class == arch.ClassTokens {
		input := t.Dropout(x, a.ScoreDropout)
		logits := t.CloseSection(step.HeadSection, t.LinearMatrix(input, head.W, head.B, step.LabelLogits))
		if a.Described.OwnClasses && !a.Described.WidensClasses {
			loss = t.CrossEntropy(logits, labels)
		} else {
			wide := t.FloatLogits(logits)
			loss = t.CrossEntropy(wide, labels)
			t.Drop(wide)
		}
		for _, cached := range cache { // the class returns none
			t.Drop(cached)
		}
		t.Drop(input, x)
		return loss, []step.T{logits, t.Hold(loss)}
	}
	logits := t.CloseSection(step.HeadSection, t.LinearMatrix(x, head.W, head.B, step.LabelLogits))
	tokens, numbers, last := lastTokens(t)
	rows := t.Input(t.Shape.Batch, step.I64)
	pooled := t.PickTokens(logits, a.Labels, rows, last)
	t.Drop(rows)
	loss, outputs = ClassificationLoss(t, a, pooled, labels)
	t.Drop(x, logits, tokens, numbers, last)
	return loss, append(outputs, cache...)
}

// lastTokens finds the rightmost token of every sequence that is no padding: which are none and their places, in 32
// bits, and the greatest product of the two.
func lastTokens(t *step.Tape) (tokens, numbers, last step.T) {
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
