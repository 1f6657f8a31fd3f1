package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// ddp is a job that so many GPUs hold whole.
type ddp struct {
	world int64
	// views says that gradients are views of the buckets.
	views bool
	parallel.DDP
}

func (d ddp) strategy() step.Strategy { return d.DDP }

// how leaves every component's words as they are on one GPU.
func (ddp) how(string, string, *run) (string, bool) { return "", false }

// doubts widen nothing.
func (ddp) doubts() []doubt.Doubt { return nil }

// microStep is m.
func (ddp) microStep(m int64) int64 { return m }

// notes say what the job was taken to be.
func (d ddp) notes() []Note {
	notes := []Note{{Code: "data-parallel", Text: fmt.Sprintf("each of %d GPUs holds the whole job, and "+
		"DistributedDataParallel a copy of its gradients to sum them in; the buckets were replayed from PyTorch's "+
		"source, NCCL's own memory was not", d.world)}}
	if d.views {
		notes = append(notes, Note{Code: "bucket-views", Text: "gradient_as_bucket_view makes gradients views of the " +
			"buckets once both are there; the replay counts both, which is no more than is there before, but more at " +
			"the optimizer step"})
	}
	return notes
}

// readyTwice says whether a run ends in an error of DistributedDataParallel: reentrant checkpoints run the hooks of a
// parameter within the backward of their layer, where find_unused_parameters has counted it as ready already. The
// Trainer asks for the latter where the model has adapters. Runs of the Trainer of transformers 4.57 and 5.23 with
// adapters, of 4.57 without, and of trl 0.26 end so.
// Sources: torch/csrc/distributed/c10d/reducer.cpp (Reducer::mark_variable_ready), 2.9; transformers/trainer.py
// (Trainer._wrap_model), 4.57.
func (r *resolved) readyTwice() bool {
	d, copied := r.parallel.(ddp)
	return copied && d.FindUnused && r.recompute.reentrant && r.recompute.every > 0
}

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
	if r, err := resolve(&in); err == nil {
		return r.readyTwice()
	}
	no := false
	full.Reentrant = &no
	r, err := resolve(&in) // trainers of trl are refused as long as it fails
	if err != nil {
		return false
	}
	d, copied := r.parallel.(ddp)
	return copied && d.FindUnused
}
