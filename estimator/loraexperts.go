package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// elsewhere is what a job does whose experts cannot get adapters.
const elsewhere = "; name target_modules without those that mean the experts (q_proj, k_proj, v_proj, o_proj)"

// expertAdaptersFit refuses adapters on a mixture's tensors where every module gathers its own parameters: the wrapper
// reads the adapters' weights outside of their modules. FSDP2 gathers a layer at once, ZeRO-1, ZeRO-2 and ddp leave
// parameters whole. Source: peft/tuners/lora/layer.py (ParamWrapper.get_delta_factors), 0.21.
func (r *resolved) expertAdaptersFit(t *Training, errs *invalid.List) {
	d, l := t.Distributed, r.arch.LoRA
	if d == nil || l == nil || !l.Folded() {
		return
	}
	if t.ZeROStage() == 3 {
		errs.Add("/training/lora/target_modules", "unsupported",
			"adapters on the experts of a mixture under zero3 are not modelled; ddp, zero1, zero2 and FSDP2 are"+elsewhere)
	}
	if max(d.TensorParallel, d.PipelineParallel, d.ContextParallel, d.ExpertParallel) > 1 {
		errs.Add("/training/lora/target_modules", "unsupported",
			"adapters on the experts of a mixture are not modelled together with tensor, pipeline, context or expert "+
				"parallelism"+elsewhere)
	}
}

// expertAdapterNotes says which tensors of a mixture peft gives adapters, and what that takes.
func (r *work) expertAdapterNotes() []Note {
	l := r.arch.LoRA
	if l == nil || !l.Folded() {
		return nil
	}
	what, dense := l.FoldedTensors()
	text := fmt.Sprintf("peft puts adapters on %s of each layer, which transformers 5 has in place of linear layers; their "+
		"weights are made anew with the adapters whenever a layer runs", what)
	if dense != "" {
		text += ", and dense layers and shared experts called " + dense + " get none"
	}
	return []Note{{Code: "adapters-on-experts", Text: text + "; targets without those names leave the experts alone"}}
}

// untracedAdapters says that no trace has shown the adapters: those on experts beside layers that are quantised.
func (r *work) untracedAdapters() bool {
	l := r.arch.LoRA
	return l != nil && l.Folded() && l.Base != step.NotQuantised
}
