package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/release"
)

var checkpointsWithout = of(func(r *resolved) bool { return r.reentranceBy == "transformers" },
	release.Declare("checkpoints-without-reentrance", release.Change{
		Library: "transformers", After: "4.57", From: "5.0",
		What:   "transformers 5 checkpoints without reentrance where nobody says otherwise (use_reentrant False)",
		Source: "modeling_utils.py (gradient_checkpointing_enable), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
		Shown:  "traces of checkpointed jobs of both kinds",
	}))

var checkpointsWithoutInTRL = of(func(r *resolved) bool { return r.reentranceBy == "trl" },
	release.Declare("checkpoints-without-reentrance-in-trl", release.Change{
		Library: "trl", After: "0.27", From: "0.28",
		What:   "trl from 0.28 asks for checkpoints without reentrance, with an older transformers, too",
		Source: "trl/trainer/sft_trainer.py (SFTTrainer.__init__), 0.27.0, 0.28.0 and 1.16.0",
		Shown:  "traces of checkpointed jobs of both kinds",
	}))

// reentrant says which of torch.utils.checkpoint's two ways the job's checkpoints take: what the job says, or else what
// its framework asks for, or else what its release of transformers does of itself.
func (r *resolved) reentrant(t *Training, errs *invalid.List) bool {
	const pointer = "/training/gradient_checkpointing/reentrant"
	c, a := t.GradientCheckpointing, &r.arch
	given := c.Reentrant
	switch {
	case given != nil && *given && a.NeverReentrant != "":
		errs.Add(pointer, "conflict", "reentrant is true, which fails for %s: %s; use false", a.Family,
			a.NeverReentrant)
	case given != nil && !*given && c.Offload:
		errs.Add(pointer, "unsupported", "offload is modelled as Unsloth's, whose checkpoints are reentrant; leave "+
			"reentrant out or set it to true")
	case given != nil && *given && t.Compile != nil && t.Compile.Model:
		errs.Add(pointer, "unsupported", "under torch.compile checkpoints that are not reentrant are modelled; leave "+
			"reentrant out or set it to false")
	}
	always := r.by.always(t)
	switch {
	case given != nil:
		return *given
	case a.NeverReentrant != "":
		return false
	case c.Offload: // Unsloth's checkpointer is an autograd function, as the reentrant one is
		return true
	case !a.Reentrant:
		return false
	case always != asAsked:
		return always == reentrant
	case r.by.asks != asAsked:
		return r.by.asks == reentrant
	case r.holds(checkpointsWithout):
		r.reentranceBy = "transformers"
	case r.holds(r.by.notReentrantFrom):
		r.reentranceBy = "trl"
	}
	return r.reentranceBy == ""
}
