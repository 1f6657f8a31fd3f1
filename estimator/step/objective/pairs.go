package objective

import "github.com/vramplan/vramplan/estimator/step"

// Pairs are trl's trainers of preferences without a reference: ORPO, CPO and SimPO.
type Pairs struct {
	Preference
	// NLL adds the likelihood of the chosen completions: ORPO, and CPO but for cpo_alpha 0.
	NLL bool
	// Kernel computes the log-probabilities in one kernel (trl from 1.15 on).
	Kernel bool
}

// Batch is ids, masks and labels of chosen and rejected completions with their prompts, and of the prompts.
func (o Pairs) Batch(t *step.Tape) []step.T {
	var all []step.T
	for range 6 {
		all = append(all, t.Input(o.Pairs*o.tokens(), step.I64))
	}
	for range 2 {
		all = append(all, t.Input(o.Pairs*o.Prompt, step.I64))
	}
	return all
}

// Forward passes both completions of every pair at once, and computes both losses of the same logits.
// Sources: trl/experimental/orpo/orpo_trainer.py, cpo/cpo_trainer.py (concatenated_forward, get_batch_logps), 0.26.
func (o Pairs) Forward(t *step.Tape, net step.Network, _ []step.T) step.T {
	shape := o.shape()
	n := shape.N()
	ids, mask, targets := t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.I64)
	out := t.Run(net, []step.T{ids, mask, step.NoTensor}, step.Pass{Shape: shape})
	width := out.Logits.Numel() / n
	nll := step.NoTensor
	labels := t.Input(n, step.I64)
	if o.NLL {
		nll = chosenLoss(t, out.Logits, o.Pairs, o.tokens()-1, width)
	}
	logps := shiftedLogps(t, out.Logits, shape, o.Kernel)
	loss := total(t, logps)
	if o.NLL {
		sum := addLoss(t, loss, nll)
		t.Drop(loss, nll)
		loss = sum
	}
	t.DropOutput(out)
	for _, x := range []step.T{logps, labels, targets, mask, ids} {
		t.Drop(x)
	}
	return loss
}

// shiftedLogps are the log-probabilities that the logits of each token but the last give to the next one.
func shiftedLogps(t *step.Tape, logits step.T, shape step.Shape, kernel bool) step.T {
	shorter := shape.Batch * (shape.Tokens - 1)
	labels := t.Input(shorter, step.I64)
	part := logits.Sized(logits.Numel()/shape.Tokens*(shape.Tokens-1), logits.Dtype(), slicedEdge(t, logits))
	defer t.Drop(labels)
	if kernel {
		return kernelLogps(t, part, labels)
	}
	return selectiveLogSoftmax(t, part, labels, shape.Batch)
}

// slicedEdge is where the gradient of a slice of x goes: into zeros of the size of x.
func slicedEdge(t *step.Tape, x step.T) step.T {
	slice := t.Replay([]step.T{x}, nil)
	slice.AllocWide(0, x.Numel()*x.Dtype().Size(), step.LabelLogitsGradient)
	slice.Send(0, 0, false, false)
	return slice.End(1)
}

// Evaluating is the same on another number of pairs.
// Sources: trl/experimental/orpo/orpo_trainer.py, cpo/cpo_trainer.py (prediction_step), 0.26 and 1.16.
func (o Pairs) Evaluating(microBatch int64) step.Objective {
	o.Pairs = microBatch
	return o
}
