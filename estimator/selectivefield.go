package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// refuseSelective names what gradient_checkpointing "selective", which makes attention alone again in backward, is not
// modelled with.
func (r *work) refuseSelective(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.compilation.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; "+
			"leave one of them out")
	case r.arch.Family == "falcon":
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled for falcon yet; none and full are")
	case r.attention() != step.AttentionSDPA:
		errs.Add(pointer, "unsupported", "selective checkpointing is modelled for the attention sdpa")
	}
}

// refuseSelectiveOps does the same of "selective-op", which keeps of every layer the results of attention and of every
// second matrix product, as torchtitan does by default.
func (r *work) refuseSelectiveOps(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.compilation.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; "+
			"leave one of them out")
	case r.arch.Decoder > 0, r.arch.ChosenWidth() > 0, r.arch.Encoder():
		errs.Add(pointer, "unsupported", "selective-op is modelled for decoders without experts; none and "+
			"full are for all")
	}
}

// selectiveFits refuses products that the policy of "selective-op" would have to be asked about in kernels of their
// own.
func (r *work) selectiveFits(errs *invalid.List) {
	if l := r.arch.LoRA; r.recompute.mode == selectiveOps && (r.fused.LoRA || l != nil && l.Base != step.NotQuantised) {
		errs.Add("/training/gradient_checkpointing", "unsupported",
			"selective-op is not modelled for quantised bases and fused adapters yet; none and full are")
	}
}
