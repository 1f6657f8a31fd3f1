package resolve

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// defaultRank is GaLore's where the job names none: the rank of its example for a model of a billion parameters is 512,
// that of the smallest 128.
const defaultRank = 128

func (r resolver) chooseOptimizer(t *job.Training, errs *invalid.List) {
	o := t.Optimizer
	if o == nil {
		o = &job.Optimizer{}
	}
	name := o.Name
	if name == "" {
		name = fields.DefaultOptimizer
	}
	choice, ok := optim.OptimizerOf(name, o.Implementation)
	if !ok {
		if has := fields.Implementations(name); len(has) > 0 {
			errs.Add("/training/optimizer/implementation", "unsupported",
				"%s by %.40q is not modelled; for %s accepted are %s", name, o.Implementation, name,
				strings.Join(has, ", "))
		} else {
			errs.Add("/training/optimizer/name", "unsupported", "the optimizer %.40q is not modelled", o.Name)
		}
		choice, _ = optim.OptimizerOf(fields.DefaultOptimizer, "")
	}
	r.Optimizer = choice
	if o.InBackward {
		r.inBackward(t, errs)
	}
	switch {
	case choice.Ranked:
		r.Rank = defaultRank
		if o.Rank != 0 {
			r.Rank = o.Rank
		}
		if r.Rank < 1 || r.Rank > 1<<20 {
			errs.Add("/training/optimizer/rank", "out_of_range", "rank is %d; it is from 1 to %d", r.Rank, 1<<20)
		}
	case o.Rank != 0:
		errs.Add("/training/optimizer/rank", "conflict", "rank belongs to %s; leave it out",
			fields.Enumeration(fields.OptimizerNames(func(o *optim.Optimizer) bool {
				return o.Ranked
			})))
	}
}

// inBackward is an optimizer that runs in backward: gradients do not outlive their parameter's update, and so cannot be
// added up, unscaled or clipped.
func (r resolver) inBackward(t *job.Training, errs *invalid.List) {
	const pointer = "/training/optimizer/in_backward"
	switch {
	case r.MicroSteps > 1:
		errs.Add(pointer, "conflict", "an optimizer in backward leaves no gradients to accumulate; "+
			"gradient_accumulation is %d", r.MicroSteps)
	case r.Numerics.GradScaler:
		errs.Add(pointer, "conflict", "an optimizer in backward leaves no gradients to unscale, and amp-fp16 scales "+
			"them; use bfloat16")
	case !r.Optimizer.InBackward || r.Numerics.States != (step.States{}):
		errs.Add(pointer, "unsupported", "this optimizer or these states are not modelled inside backward yet")
	}
	r.UpdatesInBackward = true
}
