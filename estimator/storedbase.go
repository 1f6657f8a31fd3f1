package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
)

// refuseQuantised refuses to train quantised weights themselves, which take no gradients, and adapters on weights that
// are stored in a way that nobody has modelled.
func (r *work) refuseQuantised(job *Job, errs *invalid.List) {
	const pointer = "/model/hf_config/quantization_config"
	method := r.arch.Quantised
	switch l := job.Training.LoRA; {
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
