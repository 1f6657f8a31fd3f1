package resolve

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

// refuseSelective names what gradient_checkpointing "selective", which makes attention alone again in backward, is not
// modelled with.
func (r resolver) refuseSelective(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.Compilation.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; "+
			"leave one of them out")
	case r.Arch.Family == "falcon":
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled for falcon yet; none and full are")
	case r.Attention() != step.AttentionSDPA:
		errs.Add(pointer, "unsupported", "selective checkpointing is modelled for the attention sdpa")
	}
}

// refuseSelectiveOps does the same of "selective-op", which keeps of every layer the results of attention and of every
// second matrix product, as torchtitan does by default.
func (r resolver) refuseSelectiveOps(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.Compilation.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; "+
			"leave one of them out")
	case r.Arch.Decoder > 0, r.Arch.ChosenWidth() > 0, r.Arch.Encoder():
		errs.Add(pointer, "unsupported", "selective-op is modelled for decoders without experts; none and "+
			"full are for all")
	}
}

// selectiveFits refuses products that the policy of "selective-op" would have to be asked about in kernels of their
// own.
func (r resolver) selectiveFits(errs *invalid.List) {
	if l := r.Arch.LoRA; r.Recompute.Mode == resolved.SelectiveOps &&
		(r.Fused.LoRA || l != nil && l.Base != step.NotQuantised) {
		errs.Add("/training/gradient_checkpointing", "unsupported",
			"selective-op is not modelled for quantised bases and fused adapters yet; none and full are")
	}
}
