package lever

import (
	"maps"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Checkpointing offers to recompute, or not to where the job does. Where the framework's own checkpoints are reentrant
// and would end the run, now or with the adapters that a plan may add, it offers those that are not.
func Checkpointing(in estimator.Input) []Lever {
	set := func(mode, title string) Lever {
		return trainingLever("checkpointing-"+mode, "checkpointing", title, "gradient_checkpointing", mode,
			func(t *estimator.Training) { t.GradientCheckpointing = &estimator.Checkpointing{Mode: mode} })
	}
	if traits.CheckpointingMode(in.Job.Training) != "none" {
		return []Lever{set("none", "Keep activations instead of recomputing them")}
	}
	full := set("full", "Recompute every block (full gradient checkpointing)")
	if reentrantFails(in) {
		full = notReentrant(full, estimator.Checkpointing{})
	}
	return []Lever{full, set("selective", "Recompute attention only (selective checkpointing)")}
}

// reentrantFails says whether reentrant checkpoints end the run of the job with adapters: its own, or those offered.
func reentrantFails(in estimator.Input) bool {
	if in.Job.Training.LoRA == nil && !traits.FromScratch(in) {
		in.Job.Training.LoRA = &estimator.LoRA{Rank: adapterRank, TargetModules: estimator.Targets{"all-linear"}}
	}
	return estimator.ReentrantFails(in)
}

// notReentrant is a lever that asks for full checkpoints that are not reentrant, besides what it does; they are else as
// given.
func notReentrant(l Lever, given estimator.Checkpointing) Lever {
	no, others := false, l.Apply
	given.Mode, given.Reentrant = "full", &no
	l.Changes = maps.Clone(l.Changes)
	l.Changes["gradient_checkpointing"] = given
	l.Apply = func(in *estimator.Input) {
		others(in)
		in.Job.Training.GradientCheckpointing = &given
	}
	return l
}

// ThatRun are the job's checkpoints, or its full ones as they have to be where reentrant ones would end its run.
func ThatRun(in estimator.Input) *estimator.Checkpointing {
	own := in.Job.Training.GradientCheckpointing
	if traits.CheckpointingMode(in.Job.Training) != "full" || !estimator.ReentrantFails(in) {
		return own
	}
	no, full := false, *own
	full.Mode, full.Reentrant = "full", &no
	return &full
}

// reentrantOff is how a tool is asked for checkpoints that are not reentrant.
func reentrantOff(tool string) string {
	switch tool {
	case "hf-trainer", "trl", "unsloth":
		return `gradient_checkpointing_kwargs={"use_reentrant": False}`
	case "ms-swift":
		return `--gradient_checkpointing_kwargs '{"use_reentrant": false}'`
	case "axolotl":
		return "gradient_checkpointing_kwargs: {use_reentrant: false}"
	case "llama-factory":
		return "use_reentrant_gc: false"
	}
	return "use_reentrant=False of torch.utils.checkpoint.checkpoint"
}
