package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// selective is gradient_checkpointing "selective": attention alone is made again in backward.
func (r *resolved) selective(errs *invalid.List) {
	const pointer = "/training/gradient_checkpointing"
	switch {
	case r.recipe.Compile:
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled together with torch.compile yet; leave one of them out")
	case r.arch.Family == "falcon":
		errs.Add(pointer, "unsupported", "selective checkpointing is not modelled for falcon yet; none and full are")
	case r.recipe.Attention != step.AttentionSDPA:
		errs.Add(pointer, "unsupported", "selective checkpointing is modelled for the attention sdpa")
	}
	r.recipe.SelectiveAttention = true
}
