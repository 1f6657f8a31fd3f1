package objective

import "github.com/vramplan/vramplan/estimator/step"

// Preference is what the trainers of pairs have in common: so many pairs of a chosen and a rejected completion of one
// prompt.
type Preference struct {
	Pairs, Prompt, Completion int64
}

func (p Preference) tokens() int64     { return p.Prompt + p.Completion }
func (p Preference) sequences() int64  { return 2 * p.Pairs }
func (p Preference) shape() step.Shape { return step.Shape{Batch: p.sequences(), Tokens: p.tokens()} }

// batch is ids and masks of prompts, chosen and rejected completions.
func (p Preference) batch(t *step.Tape) []step.T {
	var all []step.T
	for _, tokens := range []int64{p.Prompt, p.Completion, p.Completion} {
		all = append(all, t.Input(p.Pairs*tokens, step.I64), t.Input(p.Pairs*tokens, step.I64))
	}
	return all
}

// Reference is which model tells what the preferences are measured by.
type Reference uint8

// The references: none, another model, the trained one without its adapters, and log-probabilities that were computed
// before training.
const (
	NoReference Reference = iota
	Separate
	AdapterOff
	Precomputed
	// Passed is another model that does not have the type of the trained one: it is the first of the companions.
	Passed
)

// model is what a reference's pass runs through, of which net is the trained model.
func (r Reference) model(t *step.Tape, net step.Network) step.Network {
	if r == Passed {
		return t.Companions[0]
	}
	return net
}

// Unfolds says that every layer is played: the reference's parameters stand behind all of the trained model's.
func (r Reference) Unfolds() bool { return r == Passed }

// DPO is trl's DPOTrainer.
type DPO struct {
	Preference
	Reference Reference
	// NLL adds the likelihood of the chosen completions (rpo_alpha, or the loss type sft).
	NLL bool
	// KeepsCompletion computes the logits of the completions alone (use_logits_to_keep).
	KeepsCompletion bool
	// OneRow makes one row of the sequences of a batch (padding_free), which the attention masks.
	OneRow bool
	// Fused computes the log-probabilities without logits (trl from 1.15 on).
	Fused bool
}

// Unfolds says that every layer is played.
func (o DPO) Unfolds() bool { return o.Reference.Unfolds() }

// Batch is ids and masks of prompts, chosen and rejected completions.
func (o DPO) Batch(t *step.Tape) []step.T {
	var batch []step.T
	if o.Fused { // ids and masks of the rows as they are passed
		n := o.shape().N()
		batch = []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.I64)}
	} else {
		batch = o.batch(t)
	}
	if o.Reference == Precomputed {
		batch = append(batch, row(t, o.Pairs), row(t, o.Pairs))
	}
	return batch
}

// Forward passes both completions of every pair at once, then the same through the reference while the graph is alive.
// Source: trl/trainer/dpo_trainer.py (DPOTrainer.get_batch_loss_metrics), 0.26.
func (o DPO) Forward(t *step.Tape, net step.Network, batch []step.T) step.T {
	logps := o.concatenated(t, net, batch, step.Pass{})
	switch o.Reference {
	case Separate, Passed:
		t.As(step.PassReference, func() {
			p := step.Pass{WithoutGraph: true, Evaluating: true, Beside: true}
			t.Drop(o.concatenated(t, o.Reference.model(t, net), batch, p))
		})
	case AdapterOff:
		t.As(step.PassReference, func() {
			t.Drop(o.concatenated(t, net, batch, step.Pass{WithoutGraph: true, AdaptersOff: true}))
		})
	}
	loss := total(t, logps)
	t.Drop(logps)
	return loss
}

// concatenated is the log-probability of every label. All hidden states are asked for, and nobody reads them.
// Source: trl/trainer/dpo_trainer.py (DPOTrainer.concatenated_forward), 0.26.
func (o DPO) concatenated(t *step.Tape, net step.Network, batch []step.T, p step.Pass) step.T {
	if o.Fused {
		return o.fused(t, net, batch, p)
	}
	rows, pairs := o.sequences(), o.Pairs
	p.Shape, p.HiddenStates = o.shape(), true
	if o.OneRow { // logits[:num_examples, :-1] is all of its row but the last token
		rows, pairs = 1, 1
		p.Shape = step.Shape{Batch: rows, Tokens: p.Shape.N()}
	}
	kept := p.Shape.Tokens
	if o.KeepsCompletion {
		p.LastTokens = o.Completion + 1
		kept = p.LastTokens
	}
	n := p.Shape.N()
	ids, mask, lossMask := t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.I64)
	out := t.Run(net, []step.T{ids, mask, step.NoTensor}, p)
	labels, selected := t.Input(n, step.I64), t.Input(n, step.Bool)
	t.Drop(lossMask)
	run := func() step.T {
		width := out.Logits.Numel() / (rows * kept)
		logps := selectiveLogSoftmax(t, out.Logits, labels, rows)
		if o.NLL {
			nll := chosenLoss(t, out.Logits, pairs, kept-1, width)
			sum := addLoss(t, logps, nll)
			t.Drop(logps, nll)
			logps = sum
		}
		for range 2 { // the chosen, then the rejected
			t.Drop(selectedMean(t, out.Logits, o.Pairs*o.Completion, width))
		}
		return logps
	}
	var logps step.T
	if p.WithoutGraph {
		logps = t.WithoutGraph(run)
	} else {
		logps = run()
	}
	t.DropOutput(out)
	for _, x := range []step.T{selected, labels, mask, ids} {
		t.Drop(x)
	}
	return logps
}

// fused is the log-probability of every token of the completions, without logits and hidden states.
// Source: trl/trainer/dpo_trainer.py (DPOTrainer._compute_loss), 1.16.
func (o DPO) fused(t *step.Tape, net step.Network, batch []step.T, p step.Pass) step.T {
	p.Shape = o.shape()
	n := p.Shape.N()
	labels := t.Input(n, step.I64)
	out := t.Run(net, []step.T{batch[0], batch[1], labels}, labelled(p, o.Completion))
	t.Drop(labels)
	return out.Logits
}

// Evaluating is the same on another number of pairs, of which the reference's log-probabilities are as in training.
// Source: trl/trainer/dpo_trainer.py (DPOTrainer.prediction_step), 0.26 and 1.16.
func (o DPO) Evaluating(microBatch int64) step.Objective {
	o.Pairs = microBatch
	return o
}
