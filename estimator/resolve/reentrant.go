package resolve

import (
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolved"
)

var (
	_ = resolved.Of(func(r *resolved.Job) bool { return r.ReentranceBy == "transformers" }, frameworks.CheckpointsWithout)
	_ = resolved.Of(func(r *resolved.Job) bool { return r.ReentranceBy == "trl" }, frameworks.CheckpointsWithoutInTRL)
)

// reentrant says which of torch.utils.checkpoint's two ways the job's checkpoints take: what the job says, or else what
// its framework asks for, or else what its release of transformers does of itself.
func (r resolver) reentrant(t *job.Training, errs *invalid.List) bool {
	const pointer = "/training/gradient_checkpointing/reentrant"
	c, a := t.GradientCheckpointing, &r.Arch
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
	always := r.By.Always(t)
	switch {
	case given != nil:
		return *given
	case a.NeverReentrant != "":
		return false
	case c.Offload: // Unsloth's checkpointer is an autograd function, as the reentrant one is
		return true
	case !a.Reentrant:
		return false
	case always != frameworks.AsAsked:
		return always == frameworks.Reentrant
	case r.By.Asks != frameworks.AsAsked:
		return r.By.Asks == frameworks.Reentrant
	case r.Holds(frameworks.CheckpointsWithout):
		r.ReentranceBy = "transformers"
	case r.Holds(r.By.NotReentrantFrom):
		r.ReentranceBy = "trl"
	}
	return r.ReentranceBy == ""
}
