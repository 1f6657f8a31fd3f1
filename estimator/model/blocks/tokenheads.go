package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// TokenHead is what gives every token of an encoder logits: those of its class or, for question answering, of the
// answer's beginning and end.
type TokenHead struct {
	Out     arch.Linear
	dropout float64
	Answers bool
}

// BuildTokenHead declares the head of a class for tokens or questions.
func BuildTokenHead(b *arch.Builder, dropout float64) TokenHead {
	if b.A.Class == arch.ClassQuestions {
		return TokenHead{Out: b.Linear("qa_outputs", b.A.Hidden, 2, true), dropout: dropout, Answers: true}
	}
	return TokenHead{Out: b.Linear("classifier", b.A.Hidden, b.A.Labels, true), dropout: dropout}
}

// Loss is the cross-entropy of every token's class, or the mean of those of an answer's two ends; labels are what of
// the batch they are compared with.
func (h TokenHead) Loss(t *step.Tape, x step.T, labels []step.T) (step.T, []step.T) {
	t.In(step.PartMLP)
	input := t.Dropout(x, h.dropout)
	defer t.Drop(input)
	logits := h.Out.Forward(t, input)
	if !h.Answers {
		loss := t.CrossEntropy(logits, labels[0])
		return loss, []step.T{logits, t.Hold(loss)}
	}
	defer t.Drop(logits)
	var ends, targets, losses [2]step.T
	ends[0], ends[1] = t.SplitColumns(logits)
	for i := range ends {
		targets[i] = t.Input(t.Shape.Batch, step.I64) // within the sequence
		defer t.Drop(targets[i])
	}
	for i := range ends {
		losses[i] = t.CrossEntropy(ends[i], targets[i])
		defer t.Drop(losses[i])
	}
	sum := t.Add(losses[0], losses[1], step.LabelLoss)
	loss := t.MulScalar(sum, step.LabelLoss)
	t.Drop(sum)
	return loss, []step.T{ends[0], ends[1], t.Hold(loss)}
}
