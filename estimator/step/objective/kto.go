package objective

import "github.com/vramplan/vramplan/estimator/step"

// KTO is trl's KTOTrainer: so many completions, each chosen or rejected by itself.
type KTO struct {
	Rows, Prompt, Completion int64
	Reference                Reference
	// Caches says that the trained model fills a key/value cache, CachesEvaluated that it does in an evaluation,
	// ReferenceCaches that the reference does.
	Caches, CachesEvaluated, ReferenceCaches bool
	// Unmatched has no mismatched completions (apo_zero_unpaired).
	Unmatched bool
	// Fused computes the log-probabilities without logits (trl from 1.15 on).
	Fused bool
}

// Unfolds says that every layer is played.
func (o KTO) Unfolds() bool { return o.Reference.Unfolds() }

func (o KTO) shape() step.Shape {
	return step.Shape{Batch: o.Rows, Tokens: o.Prompt + o.Completion}
}

// Batch is ids, masks and labels of the completions and of mismatched ones, and ids and masks of the prompts.
func (o KTO) Batch(t *step.Tape) []step.T {
	var all []step.T
	if o.Fused { // ids and masks, and those of mismatched completions
		for range 6 {
			all = append(all, t.Input(o.shape().N(), step.I64))
		}
		return all
	}
	for range 6 {
		all = append(all, t.Input(o.shape().N(), step.I64))
	}
	for range 2 {
		all = append(all, t.Input(o.Rows*o.Prompt, step.I64))
	}
	return all
}

// Forward is a pass of mismatched completions without a graph, one of the completions, and both through the reference
// while the graph is alive. The logits of what was chosen and of what was rejected are copied, for a log, and live to
// the end. Source: trl/experimental/kto/kto_trainer.py (forward, get_batch_loss_metrics), 0.26.
func (o KTO) Forward(t *step.Tape, net step.Network, batch []step.T) step.T {
	logps, logits := o.passes(t, net, batch, step.Pass{Shape: o.shape(), Caches: o.Caches})
	var copies []step.T
	before := func(p step.Pass) {
		t.As(step.PassReference, func() {
			p.Shape, p.WithoutGraph = o.shape(), true
			reference, more := o.passes(t, net, batch, p)
			t.Drop(reference)
			copies = append(copies, more...)
		})
	}
	switch o.Reference {
	case Separate, Passed:
		net = o.Reference.model(t, net)
		before(step.Pass{Evaluating: true, Beside: true, Caches: o.ReferenceCaches})
	case AdapterOff:
		before(step.Pass{AdaptersOff: true, Caches: o.Caches})
	}
	loss := total(t, logps)
	t.Drop(logps)
	for _, x := range append(logits, copies...) {
		t.Drop(x)
	}
	return loss
}

// passes are that of the mismatched completions and that of the completions through one model: the log-probabilities,
// and what is kept of the logits.
func (o KTO) passes(t *step.Tape, net step.Network, batch []step.T, p step.Pass) (logps step.T, copies []step.T) {
	if o.Fused {
		return o.fused(t, net, batch, p), nil
	}
	inputs := []step.T{batch[0], batch[1], step.NoTensor}
	o.mismatched(t, func() {
		mismatched := p
		mismatched.WithoutGraph = true
		out := t.Run(net, inputs, mismatched)
		logits := t.Hold(out.Logits)
		t.DropOutput(out)
		t.Drop(t.WithoutGraph(func() step.T { return shiftedLogps(t, logits, o.shape(), false) }))
		t.Drop(logits)
	})
	out := t.Run(net, inputs, p)
	finish := func() step.T {
		logps := shiftedLogps(t, out.Logits, o.shape(), false)
		row := out.Logits.Numel() / o.Rows
		for _, rows := range []int64{o.Rows / 2, o.Rows - o.Rows/2} {
			copies = append(copies, wide(t, rows*row, out.Logits.Dtype(), step.LabelLogits))
		}
		return logps
	}
	if p.WithoutGraph {
		logps = t.WithoutGraph(finish)
	} else {
		logps = finish()
	}
	t.DropOutput(out)
	return logps, copies
}

// mismatched runs the pass of the completions of other prompts, where the loss has one.
func (o KTO) mismatched(t *step.Tape, pass func()) {
	if !o.Unmatched {
		t.As(step.PassReference, pass)
	}
}

// fused are the same passes without logits.
// Source: trl/trainer/kto_trainer.py (KTOTrainer._compute_loss, _compute_kl_logps), 1.16.
func (o KTO) fused(t *step.Tape, net step.Network, batch []step.T, p step.Pass) step.T {
	p.Caches = false
	pass := func(p step.Pass) step.T {
		labels := t.Input(o.shape().N(), step.I64)
		out := t.Run(net, []step.T{batch[0], batch[1], labels}, labelled(p, o.Completion))
		t.Drop(labels)
		return out.Logits
	}
	o.mismatched(t, func() {
		other := p
		other.WithoutGraph = true
		t.Drop(pass(other))
	})
	return pass(p)
}

// Evaluating is the same on another number of completions. Checkpointing, which is training's alone, no longer keeps
// the model from filling a cache. Source: trl/experimental/kto/kto_trainer.py (KTOTrainer.prediction_step), 0.26.
func (o KTO) Evaluating(microBatch int64) step.Objective {
	o.Rows, o.Caches = microBatch, o.CachesEvaluated
	return o
}
