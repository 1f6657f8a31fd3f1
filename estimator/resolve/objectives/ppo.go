package objectives

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// PPOKind is the kind of training with four models.
const PPOKind = "ppo"

// rewardName is what the model is for that scores completions.
const rewardName = "reward model"

// ppo is trl's PPOTrainer: a value model is trained together with the policy, and a reference and a reward model stand
// beside, all written like the policy. Its own loop neither switches gradient checkpointing on nor clips gradients.
// Source: trl/experimental/ppo/ppo_trainer.py (PPOTrainer.__init__, train), ppo_config.py, 0.26.
func (r Pursuer) ppo(t *job.Training, errs *invalid.List) step.Objective {
	if r.Recompute.Every > 0 {
		r.Arch.CheckpointEvery = 0
		r.Idle = append(r.Idle, "gradient checkpointing does nothing under PPOTrainer, whose own loop "+
			"never switches it on")
	}
	no := false
	t.ClipGradNorm = &no
	value := resolved.Companion{Name: "value model", Arch: r.Arch, Dtype: r.Numerics.Stored}
	value.Arch.LoRA = nil // it is trained whole beside a policy with adapters
	value.Arch.Score()
	r.Together = &value
	reward := value
	reward.Name, reward.Passed = rewardName, true
	if t.LoRA == nil {
		r.Beside = append(
			r.Beside,
			resolved.Companion{Name: resolved.ReferenceName, Arch: r.Arch, Dtype: r.Numerics.Stored},
		)
	}
	r.Beside = append(r.Beside, reward)
	if name := t.Objective.Rollout; name != "" && name != "transformers" {
		errs.Add(
			fields.ObjectivePointer+"/rollout",
			"conflict",
			"PPOTrainer writes its completions itself: rollout is "+
				"transformers, and not %.40q",
			name,
		)
	}
	accumulation := max(t.GradientAccumulation, 1)
	const most = 1 << 12
	if t.MicroBatch*accumulation > most {
		errs.Add("/training/gradient_accumulation", "out_of_range",
			"%d completions are written for an optimizer step; "+
				"up to %d are accepted", t.MicroBatch*accumulation, most)
		accumulation = 1
	}
	return objective.PPO{Rows: t.MicroBatch, Prompt: t.Objective.PromptTokens, Completion: t.Objective.CompletionTokens,
		AdaptersOff: t.LoRA != nil, Batches: accumulation, AtOnce: t.Objective.RolloutForwardBatch,
		Vocabulary: r.Arch.Vocabulary,
		Layers:     r.Arch.Layers, CacheWidth: r.Arch.KVHeads * r.Arch.HeadDim,
		// PPOTrainer does not run Trainer.__init__: the configuration's use_cache counts in all releases.
		Caches: r.Filled}
}
