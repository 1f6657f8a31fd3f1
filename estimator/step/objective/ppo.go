package objective

import "github.com/vramplan/vramplan/estimator/step"

// PPO is trl's PPOTrainer: a policy and a value model that are trained together, a reference and a reward model. Of the
// companions the first is the value model and the second the reward model.
type PPO struct {
	Rows, Prompt, Completion int64
	// Batches is how many micro-batches are written before an optimizer step, and AtOnce how many completions are
	// written and measured at once.
	Batches, AtOnce int64
	// Vocabulary is that of the policy, which writes with Layers caches of CacheWidth elements a token.
	Vocabulary, Layers, CacheWidth int64
	// Caches says that the policy fills a key/value cache where nobody says otherwise.
	Caches bool
	// AdaptersOff says that the reference is the policy without its adapters.
	AdaptersOff bool
}

// The companions.
const valueModel, rewardModel = 0, 1

// Unfolds says that every layer is played: there are two models with layers.
func (o PPO) Unfolds() bool { return true }

// Passes is how often as many layers as the policy has are run in a step.
func (o PPO) Passes() int64 { return 8 }

func (o PPO) shape(rows int64) step.Shape {
	return step.Shape{Batch: rows, Tokens: o.Prompt + o.Completion}
}

// Batch is the prompts, the prompts with their completions, and what is known of each token of a completion.
func (o PPO) Batch(t *step.Tape) []step.T {
	return []step.T{t.Input(o.Rows*o.Prompt, step.I64), t.Input(o.shape(o.Rows).N(), step.I64),
		t.Input(4*o.Rows*o.Completion, step.F32)}
}

// perToken scores each token of a sequence.
func perToken(t *step.Tape, hidden step.T, w, b step.Weight) step.T {
	return t.Linear(hidden, w, b, step.LabelLogits)
}

// Forward is a pass of the value model and one of the policy, whose logits are divided by the temperature in place. The
// logits of all completions, as the policy wrote them, are a variable of the loop that is never deleted.
// Source: trl/experimental/ppo/ppo_trainer.py (PPOTrainer.train, PolicyAndValueWrapper.forward), 0.26.
func (o PPO) Forward(t *step.Tape, net step.Network, _ []step.T) step.T {
	t.Lasts(o.Rows*o.Batches*o.Completion*o.Vocabulary*4, step.LogitsAndLoss, step.LabelLogits)
	shape := o.shape(o.Rows)
	if t.Recipe.Accumulation > 1 { // prob_dist of the micro-step before, which is reassigned after this one's backward
		former := wide(t, o.Rows*o.Completion*o.Vocabulary, step.F32, step.LabelLogProbabilities)
		t.HoldThroughBackward(former)
		t.Drop(former)
	}
	ids, mask := t.Input(shape.N(), step.I64), t.Input(shape.N(), step.Bool)
	inputs := []step.T{ids, mask, step.NoTensor}
	critic := t.Run(t.Companions[valueModel], inputs, step.Pass{Shape: shape, Caches: o.Caches, Head: perToken})
	policy := t.Run(net, inputs, step.Pass{Shape: shape, Caches: o.Caches, HiddenStates: true})
	values := t.Hold(critic.Logits)
	t.DropOutput(critic)
	logits := o.completions(t, dividedPart(t, policy.Logits, o.completed(policy.Logits, o.Rows)), o.Rows)
	labels := t.Input(o.Rows*o.Completion, step.I64)
	logps := selectiveLogSoftmax(t, logits, labels, o.Rows)
	worth := total(t, values)
	sum := addLoss(t, logps, worth)
	loss := total(t, sum)
	for _, x := range []step.T{values, worth, sum, logps, labels, mask, ids} {
		t.Drop(x)
	}
	t.HoldUntilUpdate(policy)
	return loss
}

// completed is how many logits of so many rows belong to completions.
func (o PPO) completed(logits step.T, rows int64) int64 {
	return logits.Numel() / o.shape(rows).N() * rows * o.Completion
}

// completions are the logits of the completions of so many rows.
func (o PPO) completions(t *step.Tape, logits step.T, rows int64) step.T {
	return logits.Sized(o.completed(logits, rows), logits.Dtype(), slicedEdge(t, logits))
}

// dividedPart is logits, of a slice of which, n elements, is divided in place: its backward copies the whole gradient
// and then the slice. Source: torch/csrc/autograd/functions/tensor.cpp (CopySlices), torch 2.9.
func dividedPart(t *step.Tape, logits step.T, n int64) step.T {
	size := logits.Dtype().Size()
	r := t.Replay([]step.T{logits}, nil)
	r.AllocWide(0, logits.Numel()*size, step.LabelLogitsGradient)
	r.AllocWide(1, n*size, step.LabelLogitsGradient)
	r.AllocWide(2, n*size, step.LabelLogitsGradient)
	r.Free(1)
	r.Free(2)
	r.Send(0, 0, false, false)
	return logits.Attached(r.End(1))
}

// Between writes the completions of an optimizer step, and measures them with all four models, so many at once. None of
// the models runs as accelerate wraps it. Source: trl/experimental/ppo/ppo_trainer.py (PPOTrainer.train),
// trl/trainer/utils.py (batch_generation, generate, get_reward), 0.26.
func (o PPO) Between(t *step.Tape, net step.Network) {
	t.ReleaseCached()
	all := o.Rows * o.Batches
	t.As(step.PassGeneration, func() {
		var written []step.T
		for first := int64(0); first < all; first += o.AtOnce {
			written = append(written, o.write(t, net, min(o.AtOnce, all-first)))
		}
		together := wide(t, all*o.Completion*o.Vocabulary, step.F32, step.LabelLogits)
		for _, x := range append(written, together) {
			t.Drop(x)
		}
	})
	t.As(step.PassReference, func() {
		for first := int64(0); first < all; first += o.AtOnce {
			o.measure(t, net, min(o.AtOnce, all-first))
		}
	})
	t.ReleaseCached()
}

// write is a generation of so many completions, and their logits in one tensor.
func (o PPO) write(t *step.Tape, net step.Network, rows int64) step.T {
	ids, mask := t.Input(rows*o.Prompt, step.I64), t.Input(rows*o.Prompt, step.I64)
	pass := step.Pass{Shape: step.Shape{Batch: rows, Tokens: o.Prompt}, WithoutGraph: true, Evaluating: true,
		Caches:     true,
		LastTokens: 1, Unwrapped: true}
	out := t.Run(net, []step.T{ids, mask, step.NoTensor}, pass)
	chosenToken(t, out.Logits)
	t.DropOutput(out)
	var held []step.T
	const mostTensors = 256 // of the scores of one token each, which follow each other
	each := step.CeilDiv(o.Completion, mostTensors)
	for left := o.Completion; left > 0; left -= each {
		held = append(held, wide(t, min(each, left)*rows*o.Vocabulary, step.F32, step.LabelLogits))
	}
	tokens := o.Prompt + o.Completion - 1
	for range 2*o.Layers + 1 { // one more is copied with the new token behind it
		held = append(held, t.Made(rows*tokens*o.CacheWidth, t.Recipe.Stored, step.LabelCache, false))
	}
	pass.Shape.Tokens, pass.Caches, pass.LastTokens = 1, false, 0
	last := t.Input(rows, step.I64)
	out = t.Run(net, []step.T{last, mask, step.NoTensor}, pass)
	chosenToken(t, out.Logits)
	t.DropOutput(out)
	stacked := wide(t, rows*o.Completion*o.Vocabulary, step.F32, step.LabelLogits)
	for _, x := range append(held, last, mask, ids) {
		t.Drop(x)
	}
	return stacked
}

// measure passes so many completions through the reference, the value model and the reward model.
func (o PPO) measure(t *step.Tape, net step.Network, rows int64) {
	shape := o.shape(rows)
	ids, mask, labels := t.Input(shape.N(), step.I64), t.Input(shape.N(), step.Bool),
		t.Input(rows*o.Completion, step.I64)
	inputs := []step.T{ids, mask, step.NoTensor}
	pass := step.Pass{Shape: shape, WithoutGraph: true, Evaluating: true, HiddenStates: true, Caches: o.Caches,
		Unwrapped: true}
	reference := pass
	reference.AdaptersOff = o.AdaptersOff
	out := t.Run(net, inputs, reference)
	t.Drop(t.WithoutGraph(func() step.T {
		return selectiveLogSoftmax(t, o.completions(t, out.Logits, rows), labels, rows)
	}))
	t.DropOutput(out)
	t.ReleaseCached()
	pass.Caches, pass.Head = false, perToken
	for _, i := range []int{valueModel, rewardModel} {
		t.DropOutput(t.Run(t.Companions[i], inputs, pass))
	}
	for _, x := range []step.T{labels, mask, ids} {
		t.Drop(x)
	}
}
