package optim

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// adamLoop is one parameter after the other: a root, which is scaled into another tensor; a variable keeps the last of
// these.
// Source: torch/optim/adam.py (_single_tensor_adam), nadam.py (_single_tensor_nadam), torch 2.9.
func (u *Updater) adamLoop(ps []*step.Parameter) {
	denominator := alloc.None
	for _, p := range ps {
		root := u.Heap.Alloc(u.Moment(p))
		scaled := u.Heap.Alloc(u.Moment(p))
		u.Heap.Free(root)
		u.reassign(&denominator, scaled)
	}
	u.del(&denominator)
}

// oneVariable is one parameter after the other, with one temporary that a variable keeps until the next.
// Source: torch/optim/rmsprop.py (_single_tensor_rmsprop), adagrad.py (_single_tensor_adagrad), torch 2.9.
func (u *Updater) oneVariable(ps []*step.Parameter) {
	average := alloc.None
	for _, p := range ps {
		u.reassign(&average, u.Heap.Alloc(u.Moment(p)))
	}
	u.del(&average)
}

// twoVariables is the same with two temporaries.
// Source: torch/optim/adadelta.py (_single_tensor_adadelta), torch 2.9.
func (u *Updater) twoVariables(ps []*step.Parameter) {
	deviation, delta := alloc.None, alloc.None
	for _, p := range ps {
		u.reassign(&deviation, u.Heap.Alloc(u.Moment(p)))
		u.reassign(&delta, u.Heap.Alloc(u.Moment(p)))
	}
	u.del(&deviation)
	u.del(&delta)
}

// passing is one temporary that goes at once.
// Source: torch/optim/adamax.py (_single_tensor_adamax), torch 2.9.
func (u *Updater) passing(ps []*step.Parameter) {
	for _, p := range ps {
		u.flash(u.Moment(p))
	}
}

// ByType calls f for every type of parameters. Of two, the one that is met last comes first: that is how the hash map
// of the grouping hands them out.
// Source: aten/src/ATen/native/ForeachUtils.h (_group_tensors_by_first_tensors_device_and_dtype), torch 2.9.
func ByType(ps []*step.Parameter, f func(step.DType)) {
	var seen [step.F64 + 1]bool
	var types [len(seen)]step.DType
	n := 0
	for _, p := range ps {
		if !seen[p.Dtype] {
			seen[p.Dtype] = true
			types[n] = p.Dtype
			n++
		}
	}
	for _, d := range slices.Backward(types[:n]) {
		f(d)
	}
}
