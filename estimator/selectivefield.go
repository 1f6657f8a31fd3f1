package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// selective is gradient_checkpointing "selective": attention alone is made again in backward.
func (r *work) selective(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.recipe.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; "+
			"leave one of them out")
	case r.arch.Family == "falcon":
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled for falcon yet; none and full are")
	case r.recipe.Attention != step.AttentionSDPA:
		errs.Add(pointer, "unsupported", "selective checkpointing is modelled for the attention sdpa")
	}
	r.recipe.SelectiveAttention = true
}

// selectiveOps is gradient_checkpointing "selective-op": of every layer the results of attention and of every second
// matrix product are kept, as torchtitan does by default.
func (r *work) selectiveOps(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.recipe.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; "+
			"leave one of them out")
	case r.arch.Decoder > 0, r.arch.ChosenWidth() > 0, r.arch.Encoder():
		errs.Add(pointer, "unsupported", "selective-op is modelled for decoders without experts; none and "+
			"full are for all")
	}
	r.recipe.CheckpointEvery, r.recipe.SelectiveOps, r.recipe.Reentrant = 1, true, false
	r.arch.CheckpointEvery = 1
}

// selectiveFits refuses products that the policy of "selective-op" would have to be asked about in kernels of their
// own.
func (r *work) selectiveFits(errs *invalid.List) {
	if l := r.arch.LoRA; r.recipe.SelectiveOps && (r.recipe.Kernels.LoRA || l != nil && l.Base != step.NotQuantised) {
		errs.Add("/training/gradient_checkpointing", "unsupported",
			"selective-op is not modelled for quantised bases and fused adapters yet; none and full are")
	}
}
