package resolve

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
)

// classFits refuses a head that the job's release of transformers has no class for: what is replayed could not be
// loaded. Reward models are AutoModelForSequenceClassification (trl/trainer/reward_trainer.py, 0.26.2 and 1.16.0).
func (r resolver) classFits(errs *invalid.List) {
	a := &r.Arch
	head, pointer := a.Class, "/model"
	if a.Scored {
		head, pointer = arch.ClassClassification, "/training/objective"
	}
	switch {
	case !release.KnowsHead(head), a.Generic, r.OwnModules, a.Family == "":
		return
	}
	transformers := r.ReleaseOf("transformers", r.Defaults())
	from, lacks := release.LacksHead(transformers, a.Family, head)
	if !lacks {
		return
	}
	said := cmp.Or(r.Given["transformers"], r.Defaults()["transformers"])
	if from == "" {
		errs.Add(pointer, "unsupported", "transformers %s has no class …%s for models of type %s, nor has any release up to 5.23: "+
			"the job cannot be started; give a model that has one, as Llama and Qwen3 have", said, head, a.Family)
		return
	}
	errs.Add(pointer, "conflict", "transformers %s has no class …%s for models of type %s, which %s has: the job cannot be "+
		"started; name the release in training.versions.transformers", said, head, a.Family, from)
}

// refuseQuantised refuses to train quantised weights themselves, which take no gradients, and adapters on weights that
// are stored in a way that nobody has modelled.
func (r resolver) refuseQuantised(j *job.Job, errs *invalid.List) {
	const pointer = "/model/hf_config/quantization_config"
	method := r.Arch.Quantised
	switch l := j.Training.LoRA; {
	case method == "":
	case l == nil:
		errs.Add(pointer, "unsupported", "the weights are quantised (%.40s) and take no gradients: train adapters on "+
			"them with training.lora "+
			"(--qlora), or leave quantization_config out to train them unquantised", method)
	case l.BasePrecision == "":
		errs.Add(pointer, "unsupported", "a base quantised by %.40s is not modelled; say in "+
			"training.lora.base_precision what it comes nearest to: "+
			"nf4, int8, gptq-int4, gptq-int8, bf16, fp16 or fp32", method)
	}
}
