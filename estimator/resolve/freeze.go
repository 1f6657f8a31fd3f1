package resolve

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/step"
)

// freeze reads training.freeze: which parameters get no gradient and no optimizer state. What no trace has shown
// together with it is refused.
func (r resolver) freeze(t *job.Training, errs *invalid.List) {
	if len(t.Freeze) == 0 {
		return
	}
	const pointer = "/training/freeze"
	for _, x := range []struct {
		applies bool
		what    string
	}{
		{t.LoRA != nil, "lora, which freezes the model by itself (lora.modules_to_save trains modules of it)"},
		{t.Objective != nil && t.ObjectiveKind() != "", "an objective"},
		{t.Distributed != nil && t.Mesh().World > 1, "several GPUs"},
		{t.Loss != nil && t.Loss.Kind != "" && t.Loss.Kind != "standard", "a loss other than standard"},
		{len(t.Kernels) > 0, "fused kernels"},
		{t.Compile != nil && (t.Compile.Model || t.Compile.Loss), "torch.compile"},
		{r.Numerics.States != step.States{}, "states of other types than the precision's"},
		{r.UpdatesInBackward, "an optimizer in backward"},
		{r.Recompute.Selects(), "selective checkpointing"},
		{r.Recompute.Mode != "" && r.Recompute.Reentrant, "reentrant checkpoints, which lose the gradients of layers behind a " +
			"frozen embedding (gradient_checkpointing: {\"mode\": \"full\", \"reentrant\": false} is modelled)"},
		{r.By.UsesPEFT == frameworks.No, r.Framework + ", which writes the model in a way of its own"},
	} {
		if x.applies {
			errs.Add(pointer, "unsupported", "frozen parameters are not modelled together with %s; leave one of them out",
				x.what)
			return
		}
	}
	r.Arch.Software = r.SoftwareAhead()
	if r.Arch.Freeze(t.Freeze, pointer, errs) && r.Recompute.Mode != "" && r.Recompute.Mode != "none" {
		errs.Add(pointer, "unsupported", "checkpoints of layers whose input has no gradient, behind a frozen embedding, are "+
			"not modelled: train the embedding, or leave gradient_checkpointing out")
	}
}
