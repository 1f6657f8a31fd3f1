package estimator

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// implementations are those that are modelled of an optimizer, in the order of the alphabet.
func implementations(name string) []string {
	var has []string
	for _, o := range optim.Optimizers() {
		if o.Name != name && !slices.Contains(o.Synonyms, name) {
			continue
		}
		for _, i := range o.Implementations {
			if i != "" {
				has = append(has, i)
			}
		}
	}
	slices.Sort(has)
	return has
}

// optimizerNames are those of which the table says that is so, with their synonyms, in its order.
func optimizerNames(is func(*optim.Optimizer) bool) []string {
	var names []string
	for _, o := range optim.Optimizers() {
		if !is(&o) {
			continue
		}
		for _, name := range append([]string{o.Name}, o.Synonyms...) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// enumeration is "a, b and c".
func enumeration(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}

// DefaultOptimizer is what a job trains with that does not say.
const DefaultOptimizer = "adamw"

// defaultRank is GaLore's where the job names none: the rank of its example for a model of a billion parameters is 512,
// that of the smallest 128.
const defaultRank = 128

func (r *work) chooseOptimizer(t *Training, errs *invalid.List) {
	o := t.Optimizer
	if o == nil {
		o = &Optimizer{}
	}
	name := o.Name
	if name == "" {
		name = DefaultOptimizer
	}
	choice, ok := optim.OptimizerOf(name, o.Implementation)
	if !ok {
		if has := implementations(name); len(has) > 0 {
			errs.Add("/training/optimizer/implementation", "unsupported",
				"%s by %.40q is not modelled; for %s accepted are %s", name, o.Implementation, name,
				strings.Join(has, ", "))
		} else {
			errs.Add("/training/optimizer/name", "unsupported", "the optimizer %.40q is not modelled", o.Name)
		}
		choice, _ = optim.OptimizerOf(DefaultOptimizer, "")
	}
	r.optimizer = choice
	if o.InBackward {
		r.inBackward(t, errs)
	}
	switch {
	case choice.Ranked:
		r.rank = defaultRank
		if o.Rank != 0 {
			r.rank = o.Rank
		}
		if r.rank < 1 || r.rank > 1<<20 {
			errs.Add("/training/optimizer/rank", "out_of_range", "rank is %d; it is from 1 to %d", r.rank, 1<<20)
		}
	case o.Rank != 0:
		errs.Add("/training/optimizer/rank", "conflict", "rank belongs to %s; leave it out",
			enumeration(optimizerNames(func(o *optim.Optimizer) bool {
				return o.Ranked
			})))
	}
}

// howStates says where the optimizer's state comes from: that of p, which are of type d.
func (r *work) howStates(p string, d step.DType) string {
	st := &r.recipe.States
	masters := ""
	if st.MasterWeights {
		masters, d = " and master weights of "+result.InBytes(st.Master), st.Master
	}
	if st.OwnMoments {
		d = st.Moments
	}
	o := r.optimizer
	switch {
	case o.Stateless() && masters != "":
		return p + " × nothing" + masters + ": plain SGD keeps none"
	case o.Stateless():
		return "plain SGD keeps none"
	case o.Factored:
		return o.Words + masters
	}
	words := strings.Replace(o.Words, "%s", result.InBytes(d), 1)
	if o.Ranked {
		words += result.Grouped(r.rank)
	}
	return p + " × " + words + masters
}

// inBackward is an optimizer that runs in backward: gradients do not outlive their parameter's update, and so cannot be
// added up, unscaled or clipped.
func (r *work) inBackward(t *Training, errs *invalid.List) {
	const pointer = "/training/optimizer/in_backward"
	switch {
	case r.microSteps > 1:
		errs.Add(pointer, "conflict", "an optimizer in backward leaves no gradients to accumulate; "+
			"gradient_accumulation is %d", r.microSteps)
	case r.numerics.GradScaler:
		errs.Add(pointer, "conflict", "an optimizer in backward leaves no gradients to unscale, and amp-fp16 scales "+
			"them; use bfloat16")
	case !r.optimizer.InBackward || r.numerics.States != (step.States{}):
		errs.Add(pointer, "unsupported", "this optimizer or these states are not modelled inside backward yet")
	case r.compilation.Compile:
		errs.Add(pointer, "unsupported", "an optimizer in backward is not modelled together with torch.compile yet")
	}
	r.updatesInBackward = true
}
