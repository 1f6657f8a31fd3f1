package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// preference is the sizes of a trainer of pairs.
func preference(t *Training) objective.Preference {
	return objective.Preference{Pairs: t.MicroBatch, Prompt: t.Objective.PromptTokens,
		Completion: t.Objective.CompletionTokens}
}

// likelihoods is ORPO, and CPO, which adds the likelihood of the chosen completions too.
func (r *resolved) likelihoods(t *Training, _ *invalid.List) step.Objective {
	return objective.Pairs{Preference: preference(t), NLL: true}
}

// simpo is CPOTrainer with the loss type simpo and cpo_alpha 0.
func (r *resolved) simpo(t *Training, _ *invalid.List) step.Objective {
	return objective.Pairs{Preference: preference(t)}
}

// kto is trl's KTOTrainer, which says nothing of the key/value cache.
func (r *resolved) kto(t *Training, errs *invalid.List) step.Objective {
	o := t.Objective
	k := objective.KTO{Rows: t.MicroBatch, Prompt: o.PromptTokens, Completion: o.CompletionTokens,
		Reference: r.reference(t, errs),
		Caches:    r.arch.UseCache && r.recipe.CheckpointEvery == 0, ReferenceCaches: r.arch.UseCache}
	if t.MicroBatch < 2 {
		errs.Add("/training/micro_batch", "out_of_range", "micro_batch is %d; KTOTrainer asks for 2 completions and "+
			"more, of which one is mismatched with the prompt of another", t.MicroBatch)
	}
	return k
}

// reward is trl's RewardTrainer: a score of one label in the place of the head.
func (r *resolved) reward(t *Training, errs *invalid.List) step.Objective {
	if t.LoRA != nil {
		errs.Add("/training/lora", "unsupported", "adapters on a reward model are not modelled yet, whose score is "+
			"trained whole beside them; leave one of them out")
	}
	r.arch.Score()
	return objective.Reward{Pairs: t.MicroBatch, Tokens: r.shape.Tokens}
}
