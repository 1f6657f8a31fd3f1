package resolve

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/step"
)

// kernels is training.kernels: the fused ones that stand in for the model's own code. One that the model has no use for
// changes nothing. Under the Trainer it is fms-acceleration that fuses adapters, and on quantised bases only
// (fms_acceleration_foak/framework_plugin_fast_kernels.py, augmentation, main branch of 2025). axolotl's page on LoRA
// optimisations asks for no quantised base, and that unsloth does not either is taken from its users; both want
// adapters without dropout.
func (r resolver) kernels(t *job.Training, errs *invalid.List) step.Kernels {
	has := func(name string) bool { return slices.Contains(t.Kernels, name) }
	r.KernelNames = 0
	for _, name := range t.Kernels {
		if name != "gated-delta-rule" { // which was traced
			r.KernelNames++
		}
	}
	if len(t.Kernels) > 0 && t.Compile != nil && t.Compile.Model {
		errs.Add("/training/kernels", "unsupported", "fused kernels in a compiled model are not modelled yet; "+
			"leave one of them out")
	}
	l := r.Arch.LoRA
	return step.Kernels{RMSNorm: has("rmsnorm"), LayerNorm: has("layernorm"), Rotary: has("rope"), SwiGLU: has("swiglu"),
		BiasGELU: has("bias-gelu"), Softmax: has("softmax"), DeltaRule: has("gated-delta-rule"),
		LoRA: has("lora") && !(l != nil && l.Base == step.NotQuantised && r.By.Fuses == frameworks.No)}
}
