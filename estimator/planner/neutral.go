package planner

import (
	"context"
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// neutralLevers are the levers that leave the result of training as it is, apart
// from the order of rounding.
func neutralLevers(in estimator.Input, tool string) []lever {
	t := in.Job.Training
	var ls []lever
	if t.Attention == "eager" {
		ls = append(ls, trainingLever("attention-sdpa", "attention", "Use the fused attention kernel (SDPA)",
			"attention", "sdpa",
			func(t *estimator.Training) { t.Attention = "sdpa" }))
	}
	ls = append(ls, checkpointing(in)...)
	ls = append(ls, objectives(t, false)...)
	ls = append(ls, losses(t)...)
	ls = append(ls, optimizerImplementations(t, tool)...)
	ls = append(ls, compilation(t), expandable(t))
	ls = append(ls, evaluation(t)...)
	return worded(given(ls), tool)
}

// given leaves out the levers that there are not.
func given(ls []lever) []lever {
	var out []lever
	for _, l := range ls {
		if l.code != "" {
			out = append(out, l)
		}
	}
	return out
}

// objectives are the levers of the job's own trainer: those that change training, or those that do not.
func objectives(t estimator.Training, changing bool) []lever {
	var ls []lever
	for _, o := range estimator.ObjectiveLevers(t) {
		if (o.Effect != "") != changing {
			continue
		}
		field, value := "objective", any(o.Changes)
		if o.Changes == nil {
			field, value = "resolution", o.Resolution
		}
		l := trainingLever(o.Code, o.Group, o.Title, field, value, o.Apply)
		l.settings, l.library = []string{o.Setting}, o.Library
		if changing {
			l = l.changing(o.Effect, disturbsSequence)
		}
		ls = append(ls, l)
	}
	return ls
}

// losses offers the losses that keep fewer logits, where the loss is not a trainer's own. SFTTrainer takes Liger's,
// which an estimate refuses of releases whose own loss has no logits.
func losses(t estimator.Training) []lever {
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
	var ls []lever
	for _, k := range kinds {
		ls = append(ls, trainingLever("loss-"+k.kind, "loss", k.title, "loss", k.kind,
			func(t *estimator.Training) { t.Loss = &estimator.Loss{Kind: k.kind} }))
	}
	return ls
}

// optimizerImplementations offers the fused and the looped kernel of the same optimizer.
func optimizerImplementations(t estimator.Training, tool string) []lever {
	o := traits.OptimizerOf(t)
	if !traits.ImplementedBy(t, "foreach") {
		return nil
	}
	if o.Implementation == "" && tool == "nanogpt" {
		// model.py's configure_optimizers takes the fused AdamW wherever CUDA is there.
		o.Implementation = "fused"
	}
	var ls []lever
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
func compilation(t estimator.Training) lever {
	if t.Compile != nil && (t.Compile.Model || t.Compile.Loss) {
		return trainingLever("compile-off", "compile", "Run the model without torch.compile", "compile", false,
			func(t *estimator.Training) { t.Compile = nil })
	}
	l := trainingLever("compile-on", "compile", "Compile the model (torch.compile)", "compile", true,
		func(t *estimator.Training) { t.Compile = &estimator.Compile{Model: true, Loss: true} })
	l.effort = compileEffort
	return l
}

// expandable lets segments of the caching allocator grow, which leaves fewer gaps between tensors.
// Source: PyTorch's notes on CUDA semantics, "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF".
func expandable(t estimator.Training) lever {
	if t.Allocator != nil && t.Allocator.ExpandableSegments {
		return lever{}
	}
	return trainingLever("allocator-expandable", "allocator", "Let the allocator's segments grow", "allocator",
		estimator.Allocator{ExpandableSegments: true},
		func(t *estimator.Training) { t.Allocator = &estimator.Allocator{ExpandableSegments: true} })
}

// evaluation offers smaller batches in the evaluation pass, and to forget its logits.
func evaluation(t estimator.Training) []lever {
	if t.Evaluation == nil {
		return nil
	}
	own := *t.Evaluation
	var ls []lever
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

// unusedWorthNaming is the share of what is allocated beyond which an estimate speaks of what the allocator reserves
// besides, and sends its reader to a plan.
const unusedWorthNaming = 0.1

// explainExpandable says what segments that grow would reserve, where an estimate of the job promises that a plan does.
func (s *search) explainExpandable(ctx context.Context) error {
	peak := s.reference.result.Peak
	l := expandable(s.costs.base.Job.Training)
	unused := float64(peak.ReservedBytes-peak.AllocatedBytes) > unusedWorthNaming*float64(peak.AllocatedBytes)
	if l.code == "" || s.reference.atLeast() || !unused || !s.affords(1, "expandable_segments") {
		return nil
	}
	j, err := s.judge(ctx, s.reference.with.with(worded([]lever{l}, s.tool)[0]), s.reference.choice())
	if err != nil || j.result == nil || j.atLeast() {
		return err
	}
	grown := j.result.Peak
	does := "reserves no less"
	if grown.ReservedBytes < peak.ReservedBytes {
		does = "reserves less"
	}
	s.notes.add("expandable-segments", "With expandable_segments:True the allocator %s at %d × %d: %s in place of %s, on the "+
		"card %s in place of %s.", does, s.reference.micro, s.reference.accum, estimator.Bytes(grown.ReservedBytes),
		estimator.Bytes(peak.ReservedBytes), estimator.Bytes(grown.DeviceBytes), estimator.Bytes(peak.DeviceBytes))
	return nil
}
