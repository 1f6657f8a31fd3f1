package objective

import "github.com/vramplan/vramplan/estimator/step"

// GRPO is trl's GRPOTrainer and, with other weights of the same log-probabilities, its RLOOTrainer: so many completions
// in a micro-batch, out of Batches micro-batches that are written at once.
type GRPO struct {
	Rows, Prompt, Completion int64
	Batches                  int64
	// Generates says that the trained model writes the completions on this GPU, with Layers caches of CacheWidth
	// elements a token.
	Generates          bool
	Layers, CacheWidth int64
	// Reference is by what completions are measured, and Old says that the log-probabilities of the model that wrote
	// them are computed.
	Reference Reference
	Old       bool
	// Whole says that the model's class computes the logits of all tokens (it takes no logits_to_keep).
	Whole bool
	// Fused computes the log-probabilities without logits (trl from 1.15 on).
	Fused bool
}

func (o GRPO) shape() step.Shape { return step.Shape{Batch: o.Rows, Tokens: o.Prompt + o.Completion} }

// Batch is ids and masks of prompts and completions, and the advantages.
func (o GRPO) Batch(t *step.Tape) []step.T {
	return []step.T{t.Input(o.Rows*o.Prompt, step.I64), t.Input(o.Rows*o.Prompt, step.I64),
		t.Input(o.Rows*o.Completion, step.I64),
		t.Input(o.Rows*o.Completion, step.I64), row(t, o.Rows)}
}

// Forward is one pass of a micro-batch of completions.
// Source: trl/trainer/grpo_trainer.py (GRPOTrainer._compute_loss), 0.26 and 1.16.
func (o GRPO) Forward(t *step.Tape, net step.Network, _ []step.T) step.T {
	logps := o.logps(t, net, step.Pass{}, true)
	loss := total(t, logps)
	t.Drop(logps)
	return loss
}

// logps are the log-probabilities of the completions of a micro-batch.
// Source: trl/trainer/grpo_trainer.py (GRPOTrainer._get_per_token_logps_and_entropies), 0.26.
func (o GRPO) logps(t *step.Tape, net step.Network, p step.Pass, entropies bool) step.T {
	p.Shape = o.shape()
	n := p.Shape.N()
	ids, mask := t.Input(n, step.I64), t.Input(n, step.I64)
	defer t.Drop(mask)
	defer t.Drop(ids)
	if o.Fused {
		labels := t.Input(n, step.I64)
		out := t.Run(net, []step.T{ids, mask, labels}, labelled(p, o.Completion))
		t.Drop(labels)
		return out.Logits
	}
	if !o.Whole {
		p.LastTokens = o.Completion + 1
	}
	out := t.Run(net, []step.T{ids, mask, step.NoTensor}, p)
	finish := func() step.T {
		kept := min(o.Completion+1, p.Shape.Tokens)
		if o.Whole {
			kept = p.Shape.Tokens
		}
		each := out.Logits.Numel() / kept
		numel := each * o.Completion
		part := out.Logits.Sized(each*(kept-1), out.Logits.Dtype(), slicedEdge(t, out.Logits)) // [:, :-1]
		if o.Whole {
			part = part.Sized(numel, part.Dtype(), slicedEdge(t, part)) // [:, -completion:]
		}
		scaled := wide(t, numel, out.Logits.Dtype(), step.LabelLogits) // by the temperature
		r := t.Replay([]step.T{part}, nil)
		r.AllocWide(0, numel*out.Logits.Dtype().Size(), step.LabelLogitsGradient)
		r.Send(0, 0, false, false)
		scaled = scaled.Attached(r.End(1))
		t.DropOutput(out)
		labels := t.Input(o.Rows*o.Completion, step.I64)
		logps := selectiveLogSoftmax(t, scaled, labels, o.Rows)
		if entropies {
			t.WithoutGraph(func() step.T {
				entropy(t, scaled, o.Rows*o.Completion)
				return step.NoTensor
			})
		}
		t.Drop(labels, scaled)
		return logps
	}
	if p.WithoutGraph {
		return t.WithoutGraph(finish)
	}
	return finish()
}

// Between is what comes before the micro-steps of an optimizer step: completions are written, and measured micro-batch
// by micro-batch. Source: trl/trainer/grpo_trainer.py (GRPOTrainer._generate_and_score_completions), 0.26.
func (o GRPO) Between(t *step.Tape, net step.Network) {
	if o.Generates {
		t.Generating(func() { o.generate(t, net) })
	}
	t.As(step.PassReference, func() {
		for range o.Batches {
			if o.Old {
				t.Drop(o.logps(t, net, step.Pass{WithoutGraph: true}, false))
			}
			switch o.Reference {
			case Separate:
				t.Drop(o.logps(t, net, step.Pass{WithoutGraph: true, Evaluating: true, Beside: true}, false))
			case AdapterOff:
				t.Drop(o.logps(t, net, step.Pass{WithoutGraph: true, AdaptersOff: true}, false))
			}
		}
	})
}

// Forwards is of how many passes without backward Between consists.
func (o GRPO) Forwards() int64 {
	each, writing := int64(0), int64(0)
	if o.Old {
		each++
	}
	if o.Reference != NoReference {
		each++
	}
	if o.Generates {
		writing = 2
	}
	return writing + each*o.Batches
}

// generate is the prompts' pass, which fills the cache, and the last token's, when the cache is largest: each layer's
// keys and values are copied with the new token behind them. The tokens between hold less. Sources:
// transformers/generation/utils.py (_sample), cache_utils.py (DynamicLayer.update), 4.57.
func (o GRPO) generate(t *step.Tape, net step.Network) {
	rows := o.Rows * o.Batches
	ids, mask := t.Input(rows*o.Prompt, step.I64), t.Input(rows*o.Prompt, step.I64)
	prompt := step.Pass{Shape: step.Shape{Batch: rows, Tokens: o.Prompt}, WithoutGraph: true, Evaluating: true,
		Caches: true, LastTokens: 1}
	out := t.Run(net, []step.T{ids, mask, step.NoTensor}, prompt)
	chosenToken(t, out.Logits)
	t.DropOutput(out)
	cache := make([]step.T, 0, 2*o.Layers)
	tokens := o.Prompt + o.Completion - 1
	for range 2 * o.Layers {
		cache = append(cache, t.Made(rows*tokens*o.CacheWidth, t.Recipe.Compute, step.LabelCache, false))
	}
	copied := t.Made(rows*tokens*o.CacheWidth, t.Recipe.Compute, step.LabelCache, false)
	token := step.Pass{Shape: step.Shape{Batch: rows, Tokens: 1}, WithoutGraph: true, Evaluating: true}
	last := t.Input(rows, step.I64)
	out = t.Run(net, []step.T{last, mask, step.NoTensor}, token)
	chosenToken(t, out.Logits)
	t.DropOutput(out)
	for _, x := range append(cache, copied, last, mask, ids) {
		t.Drop(x)
	}
}

// chosenToken is the choice of a token: the logits once more, their softmax, and what multinomial divides it by.
func chosenToken(t *step.Tape, logits step.T) {
	t.WithoutGraph(func() step.T {
		var all []step.T
		for range 3 {
			all = append(all, wide(t, logits.Numel(), step.F32, step.LabelLogits))
		}
		for _, x := range all {
			t.Drop(x)
		}
		return step.NoTensor
	})
}

// Evaluating writes one batch of completions, measures it and computes its loss.
// Source: trl/trainer/grpo_trainer.py (GRPOTrainer.prediction_step), 0.26 and 1.16.
func (o GRPO) Evaluating(microBatch int64) step.Objective {
	o.Rows, o.Batches = microBatch, 1
	return o
}
