package objectives

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// preference is the sizes of a trainer of pairs.
func preference(t *job.Training) objective.Preference {
	return objective.Preference{Pairs: t.MicroBatch, Prompt: t.Objective.PromptTokens,
		Completion: t.Objective.CompletionTokens}
}

// likelihoods is ORPO, and CPO, which adds the likelihood of the chosen completions too.
func (r Pursuer) likelihoods(t *job.Training, errs *invalid.List) step.Objective {
	return objective.Pairs{Preference: preference(t), NLL: true, Kernel: r.rewritten(errs)}
}

// simpo is CPOTrainer with the loss type simpo and cpo_alpha 0.
func (r Pursuer) simpo(t *job.Training, errs *invalid.List) step.Objective {
	return objective.Pairs{Preference: preference(t), Kernel: r.rewritten(errs)}
}

// kto is trl's KTOTrainer, which before 1.0 says nothing of the key/value cache. Nobody sets that of a reference that
// stands beside.
func (r Pursuer) kto(t *job.Training, errs *invalid.List) step.Objective {
	o := t.Objective
	reference, fused := r.reference(t, errs), r.fusesPreferences(errs)
	apart := reference == objective.Separate || reference == objective.Passed
	k := objective.KTO{Rows: t.MicroBatch, Prompt: o.PromptTokens, Completion: o.CompletionTokens,
		Reference: reference, Fused: fused,
		Caches: r.Arch.UseCache && r.Recompute.Every == 0, CachesEvaluated: r.Arch.UseCache,
		ReferenceCaches: r.Arch.UseCache || r.Filled && apart && !fused}
	for _, name := range o.LossType {
		switch name {
		case "kto":
		case "apo_zero_unpaired":
			k.Unmatched = true
		default:
			errs.Add(fields.ObjectivePointer+"/loss_type", "unsupported", "the loss type %.40q is not modelled for kto; kto and "+
				"apo_zero_unpaired are", name)
		}
	}
	if t.MicroBatch < 2 {
		errs.Add("/training/micro_batch", "out_of_range", "micro_batch is %d; KTOTrainer asks for 2 completions and "+
			"more, of which one is mismatched with the prompt of another", t.MicroBatch)
	}
	return k
}

// Scores puts a score of one label in the place of the head of a model for rewards, which peft trains whole beside
// adapters. Source: peft/peft_model.py (PeftModelForSequenceClassification.__init__), 0.21.
func (r Pursuer) Scores(adapters *model.LoRA) {
	if r.Arch.Family == "" || !r.Arch.LanguageModel() && !r.Arch.Scores() {
		return // said later
	}
	r.Arch.Score()
	if adapters != nil && !slices.Contains(adapters.Saved, scoreName) {
		adapters.Saved = append(slices.Clone(adapters.Saved), scoreName)
	}
}

// scoreName is what transformers calls a head for classes.
const scoreName = "score"

// reward is trl's RewardTrainer: a score of one label in the place of the head.
func (r Pursuer) reward(t *job.Training, _ *invalid.List) step.Objective {
	r.Scores(nil)
	return objective.Reward{Pairs: t.MicroBatch, Tokens: r.Shape.Tokens}
}
