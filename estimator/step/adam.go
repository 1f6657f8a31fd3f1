package step

import "slices"

// adamW is torch.optim.AdamW. Its state for all parameters comes first.
// Source: torch/optim/adam.py (_init_group, _single_tensor_adam, _multi_tensor_adam), torch 2.9.
func (u *updater) adamW(o Optimizer, ps []*Parameter) {
	for _, p := range ps {
		if o == AdamWFused {
			u.keep(4) // the step counter lives on the GPU
		}
		u.keep(u.moment(p))
		u.keep(u.moment(p))
	}
	switch o {
	case AdamWForeach:
		u.roots(ps)
	case AdamWLoop: // one parameter after the other; the variable denom keeps the last one
		denom := noHandle
		for _, p := range ps {
			root := u.heap.Alloc(u.moment(p))
			scaled := u.heap.Alloc(u.moment(p))
			u.heap.Free(root)
			u.reassign(&denom, scaled)
		}
		u.del(&denom)
	}
}

// roots are the square roots of all second moments of one type at once; the variable keeps them until those of
// the next type are there.
func (u *updater) roots(ps []*Parameter) {
	u.held = u.held[:0]
	before := 0
	byType(ps, func(d DType) {
		from := len(u.held)
		for _, p := range ps {
			if p.Dtype == d {
				u.held = append(u.held, u.heap.Alloc(u.moment(p)))
			}
		}
		if u.recipe.TwoTemporaries {
			for _, p := range ps {
				if p.Dtype == d {
					u.held = append(u.held, u.heap.Alloc(u.moment(p)))
				}
			}
		}
		for _, h := range u.held[before:from] {
			u.heap.Free(h)
		}
		before = from
	})
	for _, h := range u.held[before:] {
		u.heap.Free(h)
	}
}

// byType calls f for every type of parameters. Of two, the one that is met last comes first: that is how the hash map of
// the grouping hands them out.
// Source: aten/src/ATen/native/ForeachUtils.h (_group_tensors_by_first_tensors_device_and_dtype), torch 2.9.
func byType(ps []*Parameter, f func(DType)) {
	var seen [F64 + 1]bool
	var types [len(seen)]DType
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
