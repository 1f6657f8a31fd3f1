package estimator

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// optimizerKind is an optimizer and who implements it; empty is the default.
type optimizerKind struct{ name, implementation string }

// optimizers are those that are modelled. Adam holds what AdamW holds.
var optimizers = map[optimizerKind]step.Optimizer{
	{"adamw", ""}: step.AdamWForeach, {"adamw", "foreach"}: step.AdamWForeach, {"adamw", "fused"}: step.AdamWFused, {"adamw", "for-loop"}: step.AdamWLoop,
	{"adamw", "bitsandbytes"}:      step.AdamW32bit,
	{"adamw-8bit", ""}:             step.AdamW8bit,
	{"adamw-8bit", "bitsandbytes"}: step.AdamW8bit,
	{"adamw-8bit", "torchao"}:      step.AdamW8bitAO,
	{"adamw-4bit", ""}:             step.AdamW4bitAO, {"adamw-4bit", "torchao"}: step.AdamW4bitAO,
	{"paged-adamw", ""}: step.PagedAdamW32bit, {"paged-adamw", "bitsandbytes"}: step.PagedAdamW32bit,
	{"paged-adamw-8bit", ""}: step.PagedAdamW8bit, {"paged-adamw-8bit", "bitsandbytes"}: step.PagedAdamW8bit,
	{"lion", ""}: step.Lion, {"lion", "for-loop"}: step.Lion, {"lion", "bitsandbytes"}: step.Lion32bit,
	{"lion-8bit", ""}: step.Lion8bit, {"lion-8bit", "bitsandbytes"}: step.Lion8bit,
	{"muon", ""}: step.Muon, {"muon", "torch"}: step.Muon, {"muon", "for-loop"}: step.Muon,
	{"galore-adamw", ""}: step.GaLoreAdamW, {"galore-adamw", "torch"}: step.GaLoreAdamW, {"galore-adamw", "for-loop"}: step.GaLoreAdamW,
	{"sgd", ""}: step.SGD, {"sgd", "foreach"}: step.SGD, {"sgd", "fused"}: step.SGDFused, {"sgd", "for-loop"}: step.SGD,
	{"sgd-momentum", ""}: step.SGDMomentum, {"sgd-momentum", "foreach"}: step.SGDMomentum, {"sgd-momentum", "fused"}: step.SGDMomentumFused, {"sgd-momentum", "for-loop"}: step.SGDMomentum,
	{"adafactor", ""}: step.AdafactorHF, {"adafactor", "transformers"}: step.AdafactorHF,
	{"adafactor", "torch"}: step.AdafactorTorch, {"adafactor", "for-loop"}: step.AdafactorTorch,
}

// implementations are those that are modelled of an optimizer, in the order of the alphabet.
func implementations(name string) []string {
	var has []string
	for k := range optimizers {
		if k.name == name && k.implementation != "" {
			has = append(has, k.implementation)
		}
	}
	slices.Sort(has)
	return has
}

// defaultRank is GaLore's where the job names none: the rank of its example for a model of a billion parameters is 512, that
// of the smallest 128.
const defaultRank = 128

func (r *resolved) chooseOptimizer(t *Training, errs *invalid.List) {
	o := t.Optimizer
	if o == nil {
		o = &Optimizer{}
	}
	name := o.Name
	if name == "" || name == "adam" {
		name = "adamw"
	}
	choice, ok := optimizers[optimizerKind{name, o.Implementation}]
	if !ok {
		if has := implementations(name); len(has) > 0 {
			errs.Add("/training/optimizer/implementation", "unsupported", "%s by %.40q is not modelled; for %s accepted are %s", name, o.Implementation, name, strings.Join(has, ", "))
		} else {
			errs.Add("/training/optimizer/name", "unsupported", "the optimizer %.40q is not modelled", o.Name)
		}
	}
	r.optimizer = choice
	if o.InBackward {
		r.inBackward(t, errs)
	}
	switch {
	case choice == step.GaLoreAdamW:
		r.rank = defaultRank
		if o.Rank != 0 {
			r.rank = o.Rank
		}
		if r.rank < 1 || r.rank > 1<<20 {
			errs.Add("/training/optimizer/rank", "out_of_range", "rank is %d; it is from 1 to %d", r.rank, 1<<20)
		}
	case o.Rank != 0:
		errs.Add("/training/optimizer/rank", "conflict", "rank belongs to galore-adamw; leave it out")
	}
}

// howStates says where the optimizer's state comes from: that of p, which are of type d.
func (r *resolved) howStates(p string, d step.DType) string {
	st := &r.recipe.States
	masters := ""
	if st.MasterWeights {
		masters, d = " and master weights of "+inBytes(st.Master), st.Master
	}
	if st.OwnMoments {
		d = st.Moments
	}
	moments := func(what string) string { return p + " × " + what + masters }
	switch r.optimizer {
	case step.SGD, step.SGDFused:
		if masters != "" {
			return moments("nothing") + ": plain SGD keeps none"
		}
		return "plain SGD keeps none"
	case step.AdamW8bit:
		return moments("two moments of 1 B, with a float32 scale for every 256")
	case step.AdamW8bitAO:
		return moments("two moments of 1 B, with a float32 scale for every 256 and a table for every tensor")
	case step.AdamW4bitAO:
		return moments("two moments of half a byte, with a float32 scale for every 128 and a table for every tensor")
	case step.PagedAdamW32bit, step.PagedAdamW8bit:
		return moments("two moments, of which those of tensors from 100,000 elements on lie in managed memory, outside PyTorch's allocator")
	case step.AdamW32bit:
		return moments("two moments of 4 B (fp32)")
	case step.SGDMomentum, step.SGDMomentumFused, step.Lion:
		return moments("one momentum of " + inBytes(d))
	case step.Lion32bit:
		return moments("one momentum of 4 B (fp32)")
	case step.Lion8bit:
		return moments("one momentum of 1 B, with a float32 scale for every 256")
	case step.Muon:
		return moments("one momentum for the matrices of the layers and two moments for the rest, of " + inBytes(d))
	case step.GaLoreAdamW:
		return moments("two moments of " + inBytes(d) + ", in the layers' matrices of gradients projected onto the rank " + grouped(r.rank))
	case step.AdafactorHF, step.AdafactorTorch:
		return "one number for every row and column of a matrix, and one for every element of a vector" + masters
	}
	return moments("two moments of " + inBytes(d))
}

// inBackward is an optimizer that runs in backward: gradients do not outlive their parameter's update, and so cannot be
// added up, unscaled or clipped.
func (r *resolved) inBackward(t *Training, errs *invalid.List) {
	const pointer = "/training/optimizer/in_backward"
	rc := &r.recipe
	switch {
	case rc.Accumulation > 1:
		errs.Add(pointer, "conflict", "an optimizer in backward leaves no gradients to accumulate; gradient_accumulation is %d", rc.Accumulation)
	case rc.GradScaler:
		errs.Add(pointer, "conflict", "an optimizer in backward leaves no gradients to unscale, and amp-fp16 scales them; use bfloat16")
	case r.optimizer == step.AdafactorHF || r.optimizer == step.Muon || r.optimizer == step.GaLoreAdamW || rc.States != (step.States{}):
		errs.Add(pointer, "unsupported", "this optimizer or these states are not modelled inside backward yet")
	case rc.Compile:
		errs.Add(pointer, "unsupported", "an optimizer in backward is not modelled together with torch.compile yet")
	}
	rc.UpdatesInBackward, rc.Updates = true, r.optimizer
}
