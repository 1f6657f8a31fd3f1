package objectives

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// grpo is trl's GRPOTrainer, without a reference unless beta is given.
func (r Pursuer) grpo(t *job.Training, errs *invalid.List) step.Objective {
	for _, name := range t.Objective.LossType {
		if !slices.Contains(groupLosses, name) {
			errs.Add(fields.ObjectivePointer+"/loss_type", "unsupported", "the loss type %.40q is not modelled for grpo; %v are",
				name, groupLosses)
		}
	}
	return r.completions(t, errs)
}

// groupLosses are those of GRPOTrainer, all of them of a few numbers for each token of a completion.
// Source: trl/trainer/grpo_trainer.py (GRPOTrainer._compute_loss), 0.26 and 1.16.
var groupLosses = []string{"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"}

// rloo is trl's RLOOTrainer, which has a reference unless beta is 0.
func (r Pursuer) rloo(t *job.Training, errs *invalid.List) step.Objective {
	o := r.completions(t, errs)
	o.Old = true
	return o
}

var takesLogitsToKeep = resolved.Of(func(r *resolved.Job) bool {
	return r.Objective != nil && r.Arch.WholeLogits
}, release.Declare("keeps-logits", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What:   "GPT-J, CodeGen, GPTBigCode, OPT, BLOOM, MPT and GPT-Neo take logits_to_keep in transformers 5.23",
	Source: "models/opt/modeling_opt.py (OPTForCausalLM.forward) and the other six's, 4.57.6 and 5.23.0",
	Shown:  "traces of OPT in GRPOTrainer",
}))

// completions is a trainer that writes its completions.
func (r Pursuer) completions(t *job.Training, errs *invalid.List) objective.GRPO {
	o := t.Objective
	accumulation := max(t.GradientAccumulation, 1)
	batches, generations := o.StepsPerGeneration, o.NumGenerations
	gpus := int64(1) // whose completions count together: grpo_config.py (generation_batch_size)
	if d := t.Distributed; d != nil {
		gpus = max(d.WorldSize, 1)
	}
	if rows := t.MicroBatch * batches; generations > 0 && rows%generations*gpus%generations != 0 {
		errs.Add(fields.ObjectivePointer+"/num_generations", "conflict",
			"num_generations is %d, and does not divide the %d completions (micro_batch × steps_per_generation) that "+
				"each GPU writes at once, times %d GPUs", generations, rows, gpus)
	}
	if batches%accumulation != 0 {
		errs.Add(fields.ObjectivePointer+"/steps_per_generation", "unsupported",
			"completions that are written between the micro-steps of an optimizer step, here every %d of %d, are not "+
				"modelled yet; leave the field out", batches, accumulation)
	}
	const most = 1 << 12
	if batches > most || t.MicroBatch*batches > most {
		errs.Add(fields.ObjectivePointer+"/steps_per_generation", "out_of_range",
			"%d completions are written at once; up to %d are accepted", t.MicroBatch*batches, most)
		batches = 1
	}
	vllmFits(o, errs)
	r.Vllm = job.VLLMOf(o)
	serves := o.Rollout == "vllm-server" || o.Rollout == job.VLLMColocated
	g := objective.GRPO{Rows: t.MicroBatch, Prompt: o.PromptTokens, Completion: o.CompletionTokens, Batches: batches,
		Generates: !serves, Layers: r.Arch.Layers, CacheWidth: r.Arch.KVHeads * r.Arch.HeadDim,
		Whole: r.Arch.WholeLogits && !r.Holds(takesLogitsToKeep),
		Fused: r.fusesPreferences(errs),
		Old:   serves || accumulation%(batches*o.NumIterations) != 0}
	if *o.Beta != 0 {
		g.Reference = objective.AdapterOff
		if t.LoRA == nil {
			g.Reference = objective.Separate
			r.Beside = append(r.Beside, resolved.Companion{Name: resolved.ReferenceName, Arch: r.Arch,
				Dtype: r.besideType(r.loadedType())})
		}
	}
	return g
}

// vllmFits refuses fields of a vLLM where there is none on the card.
func vllmFits(o *job.Objective, errs *invalid.List) {
	if o.Rollout == job.VLLMColocated {
		return
	}
	for _, f := range []struct {
		name  string
		given bool
	}{{"vllm_gpu_memory_utilization", o.VLLMGPUMemoryUtilization != 0}, {"vllm_sleep", o.VLLMSleep}} {
		if f.given {
			errs.Add(fields.ObjectivePointer+"/"+f.name, "conflict", "%s is of a vLLM on the trainer's card; give rollout "+
				"%s, or leave it out", f.name, job.VLLMColocated)
		}
	}
}
