package lever

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Neutral are the levers that leave the result of training as it is, apart
// from the order of rounding.
func Neutral(in estimator.Input, tool string) []Lever {
	t := in.Job.Training
	var ls []Lever
	if t.Attention == "eager" {
		ls = append(ls, trainingLever("attention-sdpa", "attention", "Use the fused attention kernel (SDPA)",
			"attention", "sdpa",
			func(t *estimator.Training) { t.Attention = "sdpa" }))
	}
	ls = append(ls, Checkpointing(in)...)
	ls = append(ls, objectives(t, false)...)
	ls = append(ls, losses(t)...)
	ls = append(ls, optimizerImplementations(t, tool)...)
	ls = append(ls, compilation(t), Expandable(t))
	ls = append(ls, evaluation(t)...)
	return Worded(given(ls), tool)
}

// given leaves out the levers that there are not.
func given(ls []Lever) []Lever {
	var out []Lever
	for _, l := range ls {
		if l.Code != "" {
			out = append(out, l)
		}
	}
	return out
}

// objectives are the levers of the job's own trainer: those that change training, or those that do not.
func objectives(t estimator.Training, changing bool) []Lever {
	var ls []Lever
	for _, o := range estimator.ObjectiveLevers(t) {
		if (o.Effect != "") != changing {
			continue
		}
		field, value := "objective", any(o.Changes)
		if o.Changes == nil {
			field, value = "resolution", o.Resolution
		}
		l := trainingLever(o.Code, o.Group, o.Title, field, value, o.Apply)
		l.Settings, l.Library = []string{o.Setting}, o.Library
		if changing {
			l = l.changing(o.Effect, disturbsSequence)
		}
		ls = append(ls, l)
	}
	return ls
}

// losses offers the losses that keep fewer logits, where the loss is not a trainer's own. SFTTrainer takes Liger's,
// which an estimate refuses of releases whose own loss has no logits.
func losses(t estimator.Training) []Lever {
	kinds := []struct{ kind, title string }{
		{"fused-linear", "Fuse the output layer with the loss (no logits kept)"},
		{"chunked", "Compute the loss in chunks"},
		{"fused", "Write the loss gradient over the logits"},
	}
	switch {
	case t.Loss != nil && t.Loss.Kind != "" && t.Loss.Kind != "standard":
		return nil
	case t.Objective == nil || t.Objective.Kind == "" || t.Objective.Kind == "language-model":
	case t.Objective.Kind == "sft":
		kinds = kinds[:1]
	default:
		return nil
	}
	var ls []Lever
	for _, k := range kinds {
		ls = append(ls, trainingLever("loss-"+k.kind, "loss", k.title, "loss", k.kind,
			func(t *estimator.Training) { t.Loss = &estimator.Loss{Kind: k.kind} }))
	}
	return ls
}

// optimizerImplementations offers the fused and the looped kernel of the same optimizer.
func optimizerImplementations(t estimator.Training, tool string) []Lever {
	o := traits.OptimizerOf(t)
	if !traits.ImplementedBy(t, "foreach") {
		return nil
	}
	if o.Implementation == "" && tool == "nanogpt" {
		// model.py's configure_optimizers takes the fused AdamW wherever CUDA is there.
		o.Implementation = "fused"
	}
	var ls []Lever
	for _, i := range []struct{ implementation, title string }{
		{"fused", "Use the fused optimizer kernel"},
		{"for-loop", "Step one tensor at a time (foreach off)"},
	} {
		if o.Implementation == i.implementation || o.Implementation == "fused" || !traits.ImplementedBy(t, i.implementation) {
			continue
		}
		set := o
		set.Implementation = i.implementation
		ls = append(ls, trainingLever("optimizer-"+i.implementation, "optimizer", i.title, "optimizer", set,
			func(t *estimator.Training) { t.Optimizer = &set }))
	}
	return ls
}

// compilation turns torch.compile on, or off where it is on.
func compilation(t estimator.Training) Lever {
	if t.Compile != nil && (t.Compile.Model || t.Compile.Loss) {
		return trainingLever("compile-off", "compile", "Run the model without torch.compile", "compile", false,
			func(t *estimator.Training) { t.Compile = nil })
	}
	l := trainingLever("compile-on", "compile", "Compile the model (torch.compile)", "compile", true,
		func(t *estimator.Training) { t.Compile = &estimator.Compile{Model: true, Loss: true} })
	l.Effort = compileEffort
	return l
}

// Expandable lets segments of the caching allocator grow, which leaves fewer gaps between tensors.
// Source: PyTorch's notes on CUDA semantics, "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF".
func Expandable(t estimator.Training) Lever {
	if t.Allocator != nil && t.Allocator.ExpandableSegments {
		return Lever{}
	}
	grows := estimator.Allocator{ExpandableSegments: true}
	if t.Allocator != nil {
		grows = *t.Allocator
		grows.ExpandableSegments, grows.MaxSplitSizeMB = true, 0
	}
	return trainingLever("allocator-expandable", "allocator", "Let the allocator's segments grow", "allocator", grows,
		func(t *estimator.Training) { t.Allocator = &grows })
}

// evaluation offers smaller batches in the evaluation pass, and to forget its logits.
func evaluation(t estimator.Training) []Lever {
	if t.Evaluation == nil {
		return nil
	}
	own := *t.Evaluation
	var ls []Lever
	size := own.MicroBatch
	if size == 0 {
		size = t.MicroBatch // the estimator's default
	}
	tried := map[int64]bool{size: true}
	for _, n := range []int64{size / 2, 1} {
		if n < 1 || tried[n] {
			continue
		}
		tried[n] = true
		set := own
		set.MicroBatch = n
		l := trainingLever(fmt.Sprintf("evaluation-%d", n), "evaluation", "Evaluate in smaller batches", "evaluation",
			set,
			func(t *estimator.Training) { t.Evaluation = &set })
		ls = append(ls, l)
	}
	if own.KeepLogits {
		set := own
		set.KeepLogits = false
		ls = append(ls, trainingLever("evaluation-loss-only", "evaluation", "Keep no logits in evaluation",
			"evaluation", set,
			func(t *estimator.Training) { t.Evaluation = &set }))
	}
	return ls
}
