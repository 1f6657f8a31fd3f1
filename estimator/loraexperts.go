package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// expertAdaptersFit refuses adapters on a mixture's tensors where they are dealt out: the wrapper reads the adapters'
// weights outside of their modules. ZeRO-1, ZeRO-2 and ddp leave both whole, but for the optimizer.
// Source: peft/tuners/lora/layer.py (ParamWrapper.get_delta_factors), 0.21.
func (r *resolved) expertAdaptersFit(t *Training, errs *invalid.List) {
	d, l := t.Distributed, r.arch.LoRA
	if d == nil || l == nil || !l.Folded() {
		return
	}
	const advice = "; name target_modules without those that mean the experts (q_proj, k_proj, v_proj, o_proj)"
	if shards(t) || zeroStage(t) == 3 {
		errs.Add("/training/lora/target_modules", "unsupported",
			"adapters on the experts of a mixture whose parameters are dealt out (%s) are not modelled; ddp, zero1 and "+
				"zero2 are"+advice, d.Data)
	}
	if max(d.TensorParallel, d.PipelineParallel, d.ContextParallel, d.ExpertParallel) > 1 {
		errs.Add("/training/lora/target_modules", "unsupported",
			"adapters on the experts of a mixture are not modelled together with tensor, pipeline, context or expert "+
				"parallelism"+advice)
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
