package estimator

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// ppoKind is the kind of training with four models.
const ppoKind = "ppo"

// rewardName is what the model is for that scores completions.
const rewardName = "reward model"

// ppo is trl's PPOTrainer: a value model is trained together with the policy, and a reference and a reward model stand
// beside, all written like the policy. Its own loop neither switches gradient checkpointing on nor clips gradients.
// Source: trl/experimental/ppo/ppo_trainer.py (PPOTrainer.__init__, train), ppo_config.py, 0.26.
func (r *resolved) ppo(t *Training, errs *invalid.List) step.Objective {
	if r.recompute.every > 0 {
		r.arch.CheckpointEvery = 0
		r.idle = append(r.idle, "gradient checkpointing does nothing under PPOTrainer, whose own loop "+
			"never switches it on")
	}
	no := false
	t.ClipGradNorm = &no
	value := companion{name: "value model", arch: r.arch, dtype: r.numerics.Stored}
	value.arch.LoRA = nil // it is trained whole beside a policy with adapters
	value.arch.Score()
	r.together = &value
	reward := value
	reward.name, reward.passed = rewardName, true
	if t.LoRA == nil {
		r.beside = append(r.beside, companion{name: referenceName, arch: r.arch, dtype: r.numerics.Stored})
	}
	r.beside = append(r.beside, reward)
	if name := t.Objective.Rollout; name != "" && name != "transformers" {
		errs.Add(objectivePointer+"/rollout", "conflict", "PPOTrainer writes its completions itself: rollout is "+
			"transformers, and not %.40q", name)
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
		AdaptersOff: t.LoRA != nil, Batches: accumulation, AtOnce: cmp.Or(t.Objective.RolloutForwardBatch, 64),
		Vocabulary: r.arch.Vocabulary,
		Layers:     r.arch.Layers, CacheWidth: r.arch.KVHeads * r.arch.HeadDim,
		// PPOTrainer does not run Trainer.__init__: the configuration's use_cache counts in all releases.
		Caches: r.filled}
}
