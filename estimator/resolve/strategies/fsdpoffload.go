package strategies

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// offloadFits says what parameters in the CPU's memory were not seen with: FSDP's CPUOffloadPolicy and CPUOffload take
// weights, sums of gradients and the optimizer off the GPU together.
func (r Spreader) offloadFits(t *job.Training, errs *invalid.List) {
	if !r.Fsdp.Offloaded {
		return
	}
	m, d := t.Mesh(), t.Distributed
	for _, x := range []struct {
		applies bool
		what    string
	}{
		{m.Tensor > 1 || m.Context > 1 || m.Pipeline > 1 || d.ExpertParallel > 1,
			"parameters in the CPU's memory (offload_parameters) are modelled where GPUs share nothing but parameters " +
				"and their gradients; leave one of them out"},
		{rewritten.OfLitGPT(&r.Arch), "litgpt's FSDP with parameters in the CPU's memory is not modelled"},
		{!r.Fsdp.Flat && t.LoRA != nil && r.Arch.LoRA != nil && r.Arch.LoRA.Base != step.NotQuantised,
			"a quantised base in the CPU's memory under FSDP2 is not modelled; leave one of them out"},
		{r.Compilation.Compiles(), "torch.compile with parameters in the CPU's memory is not modelled; leave one of " +
			"them out"},
	} {
		if x.applies {
			errs.Add("/training/distributed/offload_parameters", "unsupported", "%s", x.what)
		}
	}
}

// howOffloaded says where a component's bytes come from where the CPU has the parts; ok is false where that is no
// different from parts on the GPU.
func (sh *FSDP) howOffloaded(component, p string) (how string, ok bool) {
	if !sh.Offloaded {
		return "", false
	}
	switch component {
	case "weights":
		return fmt.Sprintf("those of the layers at work put together, × %s; the parts of %s parameters are in the CPU's "+
			"memory (offload_parameters)", result.InBytes(sh.r.Recipe.Stored), p), true
	case "optimizer_state":
		return "in the CPU's memory (offload_parameters)", true
	}
	return "", false
}

// offloadNote says what is where.
func (sh *FSDP) offloadNote() result.Note {
	when := "go to the CPU as soon as they are summed"
	if sh.Flat {
		when = "stay on the GPU until backward ends"
	}
	if sh.Flat && !sh.Unsynced && sh.r.Recipe.Accumulation > 1 { // _flat_param.py (prepare_gradient_for_backward), 2.9
		when += "; FSDP1 does not add up gradients in the CPU's memory that are summed in every micro-step, so that " +
			"accumulating asks for no_sync"
	}
	return result.Note{Code: "offloaded-shards", Text: "parts of the weights, the optimizer's state and its step are the " +
		"CPU's (offload_parameters); a part comes to the GPU each time its layer is put together, and the sums of " +
		"gradients " + when}
}
