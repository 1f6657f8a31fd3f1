package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// shardedAdapters is training.lora for a model that FSDP deals out: base and adapters are parameters of the same layers, each
// stored in a type of its own, and only the adapters' gradients are summed. FSDP1 wraps every adapter by itself, which moves a few KiB.
// Source: peft/utils/other.py (fsdp_auto_wrap_policy), transformers/integrations/fsdp.py.
func (r *resolved) shardedAdapters(t *Training, errs *invalid.List) {
	l, rc := r.arch.LoRA, &r.recipe
	if t.LoRA == nil || l == nil {
		return
	}
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{l.Base != step.NotQuantised, "lora/base_precision", "a quantised base under FSDP is not modelled yet; bf16, fp16 and fp32 are"},
		{l.Decomposed, "lora/dora", "DoRA under FSDP is not modelled; leave one of them out"},
		{len(l.Saved) > 0, "lora/modules_to_save", "modules trained in full beside adapters under FSDP are not modelled; leave one of them out"},
		{r.framework == "litgpt", "lora", "litgpt's adapters under FSDP are not modelled; leave one of them out"},
		{t.States != nil, "states", "under FSDP base_precision and adapter_dtype say in which types a model with adapters is stored; leave the field out"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
	sh := r.fsdp
	sh.Frozen, sh.Stored, sh.Reduced = rc.Stored, l.Dtype, l.Dtype
	if rc.Autocast && halvesParameters[r.framework] {
		// What is trained is brought to float32 before the model is dealt out, and everything is gathered in autocast's type.
		// Source: accelerate/utils/fsdp_utils.py 1.15 (fsdp2_prepare_model).
		sh.Stored, sh.Reduced = step.F32, rc.Compute
		rc.Stored, l.Dtype = rc.Compute, rc.Compute
	}
}
