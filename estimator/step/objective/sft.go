package objective

import "github.com/vramplan/vramplan/estimator/step"

// SFT is trl's SFTTrainer on a batch of labelled sequences. Packed is one row of documents behind one another, whose
// positions say where each begins.
type SFT struct {
	Rows, Tokens int64
	Packed       bool
	// Sequences is of how many sequences a packed row is made.
	Sequences int64
	// Fused computes the log-probabilities without logits (chunked_nll).
	Fused bool
	// Liger has a loss that takes the head itself, and counts what it guessed right: there are no logits.
	Liger bool
}

func (o SFT) shape() step.Shape { return step.Shape{Batch: o.Rows, Tokens: o.Tokens} }

// Batch is input_ids, attention_mask or position_ids, and labels.
func (o SFT) Batch(t *step.Tape) []step.T {
	n := o.Rows * o.Tokens
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.I64)}
}

// Forward is the model's own loss, and for the log the entropy and the accuracy of all tokens, for which the logits are
// copied without each sequence's last, while everything is alive. Source: trl/trainer/sft_trainer.py
// (SFTTrainer.compute_loss), 0.26.
func (o SFT) Forward(t *step.Tape, net step.Network, batch []step.T) step.T {
	if o.Fused {
		out := t.Run(net, batch, labelled(step.Pass{Shape: o.shape()}, o.Tokens-1))
		loss := total(t, out.Logits)
		t.DropOutput(out)
		return loss
	}
	out := t.Run(net, batch, step.Pass{Shape: o.shape(), Labelled: true})
	if o.Liger {
		t.DropOutput(out)
		return out.Loss
	}
	t.WithoutGraph(func() step.T {
		n := o.Rows * o.Tokens
		entropy(t, out.Logits, n)
		shorter := o.Rows * (o.Tokens - 1)
		shifted := wide(t, out.Logits.Numel()/o.Tokens*(o.Tokens-1), out.Logits.Dtype(), step.LabelLogits)
		labels := t.Input(shorter, step.I64)
		predictions := t.Input(shorter, step.I64)
		mask := t.Input(shorter, step.Bool)
		for _, x := range []step.T{mask, predictions, labels, shifted} {
			t.Drop(x)
		}
		return step.NoTensor
	})
	t.DropOutput(out)
	return out.Loss
}

// Evaluating is the same on an evaluation's batch, which is packed as training's is (eval_packing). Source:
// trl/trainer/sft_trainer.py (SFTTrainer.compute_loss, prediction_step), 0.26 and 1.16.
func (o SFT) Evaluating(microBatch int64) step.Objective {
	if o.Packed {
		o.Tokens = o.Tokens / o.Sequences * microBatch
	} else {
		o.Rows = microBatch
	}
	o.Sequences = microBatch
	return o
}
