package estimator

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
)

// classFits refuses a head that the job's release of transformers has no class for: what is replayed could not be
// loaded. Reward models are AutoModelForSequenceClassification (trl/trainer/reward_trainer.py, 0.26.2 and 1.16.0).
func (r *resolved) classFits(errs *invalid.List) {
	a := &r.arch
	head, pointer := a.Class, "/model"
	if a.Scored {
		head, pointer = arch.ClassClassification, "/training/objective"
	}
	switch {
	case !release.KnowsHead(head), a.Generic, r.ownModules, a.Family == "":
		return
	}
	transformers := r.releaseOf("transformers", r.defaults())
	from, lacks := release.LacksHead(transformers, a.Family, head)
	if !lacks {
		return
	}
	said := cmp.Or(r.given["transformers"], r.defaults()["transformers"])
	if from == "" {
		errs.Add(pointer, "unsupported", "transformers %s has no class …%s for models of type %s, nor has any release up to 5.23: "+
			"the job cannot be started; give a model that has one, as Llama and Qwen3 have", said, head, a.Family)
		return
	}
	errs.Add(pointer, "conflict", "transformers %s has no class …%s for models of type %s, which %s has: the job cannot be "+
		"started; name the release in training.versions.transformers", said, head, a.Family, from)
}
