package strategies

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

var flattensAdapters = resolved.Of(func(r *resolved.Job) bool {
	return r.Arch.LoRA != nil && r.Arch.Flattened
}, release.Declare("flattens-adapters", release.Change{
	Library: "torch", To: "2.5",
	What: "litgpt before 0.5.8, which asks for torch 2.5, wraps whole blocks under FSDP1 with adapters: base " +
		"and adapters are one flat tensor, and gradients of both are formed",
	Source: "litgpt/finetune/lora.py (auto_wrap_policy) and pyproject.toml, 0.5.7 and 0.5.8; " +
		"torch/distributed/fsdp/_flat_param.py (_use_unsharded_views)",
	Shown: "published runs",
}))

// shardedAdapters is training.lora for a model that FSDP deals out: base and adapters are parameters of the same
// layers, each stored in a type of its own, and only the adapters' gradients are summed. FSDP1 wraps every adapter by
// itself, which moves a few KiB. Source: peft/utils/other.py (fsdp_auto_wrap_policy),
// transformers/integrations/fsdp.py. litgpt before 0.5.8 wraps whole blocks, of which FSDP1 makes one flat
// tensor of base and adapters. Source: litgpt/finetune/lora.py (FSDPStrategy, auto_wrap_policy), 0.5.7.
func (r Spreader) shardedAdapters(t *job.Training, errs *invalid.List) {
	l := r.Arch.LoRA
	if t.LoRA == nil || l == nil {
		// FSDP1 makes one tensor of a layer's parameters, whether all are trained or some, as a router's correction,
		// are not. Source: _flat_param.py (FlatParamHandle._validate_tensors_to_flatten), torch 2.9.
		r.Arch.Flattened = r.Fsdp.Flat
		return
	}
	sh := r.Fsdp
	flattened := r.By.UsesPEFT == frameworks.No && sh.Flat && rewritten.OfLitGPT(&r.Arch) && r.Holds(flattensAdapters)
	r.Arch.Flattened = flattened
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{l.Base == step.Int8, "lora/base_precision", "FSDP deals out nothing but floating point, and a base in int8 " +
			"is none; nf4, gptq-int4, gptq-int8, bf16, fp16 and fp32 are modelled"},
		{l.Decomposed, "lora/dora", "DoRA under FSDP is not modelled; leave one of them out"},
		{sh.Flat && l.Folded(), "lora/target_modules", "adapters on the experts of a mixture under FSDP1, which wraps every " +
			"adapter by itself, are not modelled; FSDP2 is" + elsewhere},
		{len(l.Saved) > 0, "lora/modules_to_save", "modules trained in full beside adapters under FSDP are not " +
			"modelled; leave one of them out"},
		{r.By.UsesPEFT == frameworks.No && !flattened, "lora", r.Framework + "'s adapters under FSDP are modelled as it wrapped " +
			"whole blocks, with torch before 2.5 and FSDP1; leave one of them out"},
		{flattened && r.Arch.AdaptedHead(), "lora/target_modules", "an adapter of the " +
			"head in one flat tensor with it is not modelled; leave lm_head out"},
		{flattened && l.Base != step.NotQuantised, "lora/base_precision", "litgpt quantises no base on several GPUs"},
		{flattened && r.Numerics.Autocast, "precision", "litgpt's adapters under FSDP with autocast are not modelled; bf16, " +
			"fp16 and fp32 are"},
		{flattened && l.Dtype != r.Base.Stored, "lora/adapter_dtype", "one flat tensor of base and adapters is of one type"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
	sh.Frozen, sh.Stored, sh.Reduced = r.Base.Stored, l.Dtype, l.Dtype
	if l.Base != step.NotQuantised { // what a flat tensor is made of is of one type, that of the packed weights
		sh.Frozen = l.Half
	}
	if r.Base.Gathered {
		sh.Reduced = step.F32
		if t.States != nil {
			if d, ok := fields.StoredTypes[t.States.Gradients]; ok {
				sh.Reduced = d
			}
		}
		l.Dtype = r.Numerics.Compute
	}
	r.adapterStates(t, errs)
	if sh.Halved {
		// What is trained is brought to float32 before the model is dealt out, and everything is gathered in autocast's
		// type. Source: accelerate/utils/fsdp_utils.py 1.15 (fsdp2_prepare_model).
		sh.Stored, sh.Reduced = step.F32, r.Numerics.Compute
		l.Apart = sh.Flat && l.Dtype == step.F32
		l.Dtype = r.Numerics.Compute
	}
}

// adapterStates holds training.states against the types that base_precision and adapter_dtype give a model with
// adapters.
func (r Spreader) adapterStates(t *job.Training, errs *invalid.List) {
	if t.States == nil {
		return
	}
	sh := r.Fsdp
	for _, x := range []struct {
		field, given string
		want         step.DType
	}{{"weights", t.States.Weights, sh.Frozen}, {"gradients", t.States.Gradients, sh.Reduced},
		{"optimizer", t.States.Optimizer, sh.Stored}} {
		if d, ok := fields.StoredTypes[x.given]; ok && d != x.want {
			errs.Add("/training/states/"+x.field, "unsupported",
				"under FSDP %s of a model with adapters are %s here, as base_precision and adapter_dtype say; "+
					"leave the field out",
				x.field, result.Dtype(x.want))
		}
	}
}
