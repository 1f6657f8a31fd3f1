package objectives

import (
	"cmp"
	"slices"

	"github.com/vramplan/vramplan/estimator/job"
)

// wrapped is the way of packing that cuts documents.
const wrapped = "wrapped"

// Completed is a training whose objective says what its trainer does where nothing is said: the one place of these
// defaults. What follows from the model is filled where that is known.
func Completed(t job.Training) job.Training {
	o := *t.Objective
	t.Objective = &o
	if o.Kind == Contrastive {
		o.Loss = cmp.Or(o.Loss, "mnrl")
		o.Texts = cmp.Or(o.Texts, embeddingLosses[o.Loss].texts)
		if o.Loss == "cached-mnrl" {
			o.MiniBatch = cmp.Or(o.MiniBatch, 32) // CachedMultipleNegativesRankingLoss's default
		}
		o.Pooling = cmp.Or(o.Pooling, "mean")
		return t
	}
	how := Trainers[o.Kind]
	reads := func(field string) bool { return slices.Contains(how.Fields, field) }
	if reads("reference") {
		kind := "separate"
		if t.LoRA != nil {
			kind = "adapter-off"
		}
		o.Reference = cmp.Or(o.Reference, kind)
	}
	if o.Packing && reads("packing_strategy") {
		o.PackingStrategy = cmp.Or(o.PackingStrategy, "bfd")
	}
	if reads("beta") && o.Beta == nil {
		o.Beta = &how.beta
	}
	if reads("num_generations") {
		o.NumGenerations, o.NumIterations = cmp.Or(o.NumGenerations, how.generations), cmp.Or(o.NumIterations, 1)
		o.StepsPerGeneration = cmp.Or(o.StepsPerGeneration, max(t.GradientAccumulation, 1))
	}
	if reads("rollout") {
		o.Rollout = cmp.Or(o.Rollout, "transformers")
	}
	if reads("rollout_forward_batch") {
		o.RolloutForwardBatch = cmp.Or(o.RolloutForwardBatch, 64) // ppo_config.py, trl 0.26
	}
	if reads("teacher_dtype") {
		o.TeacherDtype = cmp.Or(o.TeacherDtype, "bf16")
	}
	return t
}
