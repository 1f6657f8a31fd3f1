package step

// lion is lion-pytorch's Lion, one parameter after the other: the momentum's copy, and its sum with the gradient.
// Source: lion_pytorch/lion_pytorch.py (update_fn), 0.2.
func (u *updater) lion(ps []*Parameter) {
	for _, p := range ps {
		u.keep(u.moment(p))
		copied := u.heap.Alloc(u.moment(p))
		update := u.heap.Alloc(u.moment(p))
		u.heap.Free(copied)
		u.heap.Free(update)
	}
}
