package resolve

import (
	"cmp"
	"maps"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/objectives"
)

// withObjective is the job with what its objective says of other fields, and the defaults of the trainer: the length of
// a sequence, the framework, and gradient checkpointing, which trl's trainers switch on where nothing is said. Sources:
// trl/trainer/sft_config.py, dpo_config.py (gradient_checkpointing), 0.26; trl/trainer/base_config.py, 1.16.
func withObjective(j job.Job, errs *invalid.List) job.Job {
	t := &j.Training
	if o := t.Objective; o != nil && o.Kind == "" && t.Framework == "trl" { // whose trainer it is, then
		named := *o
		named.Kind = "sft"
		t.Objective = &named
	}
	kind := t.ObjectiveKind()
	if kind == job.LanguageModel || kind == fields.VisionLanguage || kind == fields.Diffusion {
		return j
	}
	if kind == objectives.Contrastive {
		t.Framework = cmp.Or(t.Framework, objectives.SentenceTransformers)
		*t = objectives.Completed(*t)
		return objectives.BaseModel(j)
	}
	o := t.Objective
	if sum := o.PromptTokens + o.CompletionTokens; o.PromptTokens > 0 && o.CompletionTokens > 0 {
		if t.SequenceLength != 0 && t.SequenceLength != sum {
			errs.Add("/training/sequence_length", "conflict",
				"sequence_length is %d, and prompt_tokens and completion_tokens of the objective are %d together; "+
					"leave one of them out", t.SequenceLength, sum)
		}
		t.SequenceLength = sum
	}
	if t.GradientCheckpointing == nil && kind != objectives.PPOKind {
		t.GradientCheckpointing = &job.Checkpointing{Mode: "full"}
	}
	*t = objectives.Completed(*t)
	t.Framework = cmp.Or(t.Framework, "trl")
	if objectives.Trainers[kind].Undropped && t.LoRA != nil &&
		t.LoRA.Dropped() < 1 { // adapters' dropout is a module like others
		adapters := *t.LoRA
		adapters.Dropout = new(min(adapters.Dropped(), 0))
		t.LoRA = &adapters
	}
	if _, named := t.Versions["trl"]; !named && objectives.Trainers[kind].Until != "" {
		t.Versions = maps.Clone(t.Versions)
		if t.Versions == nil {
			t.Versions = map[string]string{}
		}
		t.Versions["trl"] = objectives.FormerTRL
	}
	return j
}
