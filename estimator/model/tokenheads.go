package model

import "github.com/vramplan/vramplan/estimator/step"

// tokenHead is what gives every token of an encoder logits: those of its class or, for question answering, of the
// answer's beginning and end.
type tokenHead struct {
	out     linear
	dropout float64
	answers bool
}

// tokenHead declares the head of a class for tokens or questions.
func (b *builder) tokenHead(dropout float64) tokenHead {
	if b.a.Class == classQuestions {
		return tokenHead{out: b.linear("qa_outputs", b.a.Hidden, 2, true), dropout: dropout, answers: true}
	}
	return tokenHead{out: b.linear("classifier", b.a.Hidden, b.a.Labels, true), dropout: dropout}
}

// loss is the cross-entropy of every token's class, or the mean of those of an answer's two ends; labels are what of
// the batch they are compared with.
func (h tokenHead) loss(t *step.Tape, x step.T, labels []step.T) (step.T, []step.T) {
	t.In(step.PartMLP)
	input := t.Dropout(x, h.dropout)
	defer t.Drop(input)
	logits := h.out.forward(t, input)
	if !h.answers {
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
