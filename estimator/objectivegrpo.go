package estimator

import (
	"cmp"
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// grpo is trl's GRPOTrainer, without a reference unless beta is given.
func (r *resolved) grpo(t *Training, errs *invalid.List) step.Objective {
	for _, name := range t.Objective.LossType {
		if !slices.Contains(groupLosses, name) {
			errs.Add(objectivePointer+"/loss_type", "unsupported", "the loss type %.40q is not modelled for grpo; %v are",
				name, groupLosses)
		}
	}
	return r.completions(t, 8, 0, errs)
}

// groupLosses are those of GRPOTrainer, all of them of a few numbers for each token of a completion.
// Source: trl/trainer/grpo_trainer.py (GRPOTrainer._compute_loss), 0.26 and 1.16.
var groupLosses = []string{"grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"}

// rloo is trl's RLOOTrainer, which has a reference unless beta is 0.
func (r *resolved) rloo(t *Training, errs *invalid.List) step.Objective {
	o := r.completions(t, 2, 0.05, errs)
	o.Old = true
	return o
}

var takesLogitsToKeep = of(func(r *resolved) bool {
	return r.objective != nil && r.arch.WholeLogits
}, release.Declare("keeps-logits", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What:   "GPT-J, CodeGen, GPTBigCode, OPT, BLOOM, MPT and GPT-Neo take logits_to_keep in transformers 5.23",
	Source: "models/opt/modeling_opt.py (OPTForCausalLM.forward) and the other six's, 4.57.6 and 5.23.0",
	Shown:  "traces of OPT in GRPOTrainer",
}))

// completions is a trainer that writes its completions, with its defaults.
// Source: trl/trainer/grpo_config.py, rloo_config.py (num_generations, beta), 0.26.
func (r *resolved) completions(t *Training, generations int64, beta float64, errs *invalid.List) objective.GRPO {
	o := t.Objective
	accumulation := max(t.GradientAccumulation, 1)
	batches := cmp.Or(o.StepsPerGeneration, accumulation)
	generations = cmp.Or(o.NumGenerations, generations)
	if o.Beta != nil {
		beta = *o.Beta
	}
	gpus := int64(1) // whose completions count together: grpo_config.py (generation_batch_size)
	if d := t.Distributed; d != nil {
		gpus = max(d.WorldSize, 1)
	}
	if rows := t.MicroBatch * batches; generations > 0 && rows%generations*gpus%generations != 0 {
		errs.Add(objectivePointer+"/num_generations", "conflict",
			"num_generations is %d, and does not divide the %d completions (micro_batch × steps_per_generation) that "+
				"each GPU writes at once, times %d GPUs", generations, rows, gpus)
	}
	if batches%accumulation != 0 {
		errs.Add(objectivePointer+"/steps_per_generation", "unsupported",
			"completions that are written between the micro-steps of an optimizer step, here every %d of %d, are not "+
				"modelled yet; leave the field out", batches, accumulation)
	}
	const most = 1 << 12
	if batches > most || t.MicroBatch*batches > most {
		errs.Add(objectivePointer+"/steps_per_generation", "out_of_range",
			"%d completions are written at once; up to %d are accepted", t.MicroBatch*batches, most)
		batches = 1
	}
	vllmFits(o, errs)
	r.vllm = job.VLLMOf(o)
	serves := o.Rollout == "vllm-server" || o.Rollout == job.VLLMColocated
	g := objective.GRPO{Rows: t.MicroBatch, Prompt: o.PromptTokens, Completion: o.CompletionTokens, Batches: batches,
		Generates: !serves, Layers: r.arch.Layers, CacheWidth: r.arch.KVHeads * r.arch.HeadDim,
		Whole: r.arch.WholeLogits && !r.holds(takesLogitsToKeep),
		Fused: r.fusesPreferences(errs),
		Old:   serves || accumulation%(batches*max(o.NumIterations, 1)) != 0}
	if beta != 0 {
		g.Reference = objective.AdapterOff
		if t.LoRA == nil {
			g.Reference = objective.Separate
			r.beside = append(r.beside, companion{name: referenceName, arch: r.arch,
				dtype: r.besideType(r.loadedType())})
		}
	}
	return g
}

// recordBetween records what an objective does before the micro-steps of an optimizer step.
func (r *player) recordBetween(w *replay.Workspace, rc step.Recipe, plain bool, o step.Prepares) *play.Evaluation {
	a := r.recorded(rc, plain)
	units, recorded, layers := recordedLayers(a, plain || rc.Spread().Irregular())
	net, parameters := a.Build(layers, rc.Stored, nil)
	together := r.trainBeside(&parameters, rc)
	w.Evaluated.Reset(rc, r.shape, parameters)
	r.standBeside(&w.Evaluated, rc, len(parameters.List), together)
	w.Evaluated.Look = r.watch()
	w.Evaluated.Another = func() step.Network {
		same, _ := a.Build(layers, rc.Stored, nil)
		return same
	}
	var evaluated step.Prepares
	if e, ok := o.(step.Evaluable); ok && r.evaluation != nil {
		evaluated, _ = e.Evaluating(r.evaluation.MicroBatch).(step.Prepares)
	}
	return &play.Evaluation{Program: w.Evaluated.RecordBetween(net, o, evaluated), Units: units, Recorded: recorded,
		Prepares: true}
}
