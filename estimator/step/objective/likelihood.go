package objective

import "github.com/vramplan/vramplan/estimator/step"

// chosenLoss is the cross-entropy of the chosen half of the logits without each sequence's last, so many sequences of
// so many tokens: logits[:n, :-1] laid out anew by flatten, log_softmax, which keeps its result, and nll_loss. Sources:
// trl/trainer/dpo_trainer.py (concatenated_forward, nll_loss), 0.26; aten/src/ATen/native/LossNLL.cpp, torch 2.9.
func chosenLoss(t *step.Tape, logits step.T, sequences, tokens, width int64) step.T {
	n := sequences * tokens
	d := logits.Dtype()
	all, part := logits.Numel()*d.Size(), n*width*d.Size()
	slice := t.Replay([]step.T{logits}, nil) // logits[:n], whose gradient is one of all rows, zeros for the others
	slice.AllocWide(0, all, step.LabelLogitsGradient)
	slice.Send(0, 0, false, false)
	edge := slice.End(1)
	shorter := t.Replay([]step.T{logits.Attached(edge)}, nil) // [:, :-1]
	shorter.AllocWide(0, part/tokens*(tokens+1), step.LabelLogitsGradient)
	shorter.Send(0, 0, false, false)
	if sequences == 1 { // one row without its last token lies densely
		return crossEntropy(t, logits.Sized(n*width, d, shorter.End(1)), n)
	}
	flat := wide(t, n*width, d, step.LabelLogits).Attached(shorter.End(1))
	loss := crossEntropy(t, flat, n)
	t.Drop(flat)
	return loss
}

// crossEntropy is F.cross_entropy of the logits of so many tokens, in their type.
func crossEntropy(t *step.Tape, logits step.T, tokens int64) step.T {
	bytes := logits.Numel() * logits.Dtype().Size()
	labels := t.Input(tokens, step.I64)
	logps := wide(t, logits.Numel(), logits.Dtype(), step.LabelLogProbabilities)
	soft := t.Replay([]step.T{logits}, []step.T{logps})
	soft.AllocWide(0, bytes, step.LabelLogitsGradient)
	soft.Send(0, 0, false, false)
	logps = logps.Attached(soft.End(1))
	loss, weight := row(t, 1), row(t, 1)
	nll := t.Replay([]step.T{logps}, []step.T{logps, labels, weight})
	nll.AllocWide(0, bytes, step.LabelLogitsGradient)
	nll.Send(0, 0, false, false)
	loss = loss.Attached(nll.End(1))
	for _, x := range []step.T{weight, logps, labels} {
		t.Drop(x)
	}
	return loss
}

// addLoss adds a loss to what the rest of the loss is computed of.
func addLoss(t *step.Tape, x, loss step.T) step.T {
	y := row(t, x.Numel())
	r := t.Replay([]step.T{x, loss}, nil)
	r.Pass(0, 0, false)
	r.Alloc(0, 4, step.LabelLoss)
	r.Send(0, 1, false, false)
	return y.Attached(r.End(1))
}
