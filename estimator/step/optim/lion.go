package optim

import "github.com/vramplan/vramplan/estimator/step"

// lion is lion-pytorch's Lion, one parameter after the other: the momentum's copy, and its sum with the gradient.
// Source: lion_pytorch/lion_pytorch.py (update_fn), 0.2.
func (u *Updater) lion(ps []*step.Parameter) {
	for _, p := range ps {
		u.keep(u.Moment(p))
		copied := u.Heap.Alloc(u.Moment(p))
		update := u.Heap.Alloc(u.Moment(p))
		u.Heap.Free(copied)
		u.Heap.Free(update)
	}
}
