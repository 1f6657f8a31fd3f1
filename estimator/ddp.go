package estimator

import (
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// ReentrantFails says whether the job would end in its first backward if it recomputed every block with the checkpoints
// that it says or, where it says nothing of them, with its framework's, and would not with use_reentrant=False: several
// GPUs with a copy of the model each, adapters, and checkpoints that are reentrant.
func ReentrantFails(in Input) bool {
	t := &in.Job.Training
	if t.Distributed == nil || t.Distributed.WorldSize <= 1 {
		return false
	}
	full := Checkpointing{}
	if t.GradientCheckpointing != nil {
		full = *t.GradientCheckpointing
	}
	if full.Mode = "full"; full.Reentrant != nil && !*full.Reentrant {
		return false
	}
	t.GradientCheckpointing = &full
	if r, err := resolve.Resolve(&in); err == nil {
		return r.ReadyTwice()
	}
	no := false
	full.Reentrant = &no
	r, err := resolve.Resolve(&in) // trainers of trl are refused as long as it fails
	if err != nil {
		return false
	}
	d, copied := r.Strategy().(parallel.DDP)
	return copied && d.FindUnused
}
