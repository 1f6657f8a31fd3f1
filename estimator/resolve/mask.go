package resolve

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
)

// mask is training.attention_mask: whether some tokens of a batch are padding.
func (r resolver) mask(t *job.Training, errs *invalid.List) (padded bool) {
	const pointer = "/training/attention_mask"
	switch t.AttentionMask {
	case "", "none":
		return false
	case "explicit":
	default:
		errs.Add(pointer, "unknown_value", "attention_mask is %.40q; none and explicit are accepted", t.AttentionMask)
		return false
	}
	switch {
	case r.Arch.NanoGPT() || r.Arch.Family == "vit":
		errs.Add(pointer, "conflict", "%s takes no mask; leave the field out", r.Arch.Family)
	case t.Attention == "flash":
		errs.Add(pointer, "unsupported", "flash attention unpads a batch with padding, which is not "+
			"modelled yet; use sdpa")
	}
	return true
}
