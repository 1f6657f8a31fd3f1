package step

// divide sorts the parameters into the matrices of the layers and the others.
func (u *updater) divide(ps []*Parameter) (inner, outer []*Parameter) {
	u.inner, u.outer = u.inner[:0], u.outer[:0]
	for _, p := range ps {
		if p.InLayer && p.matrix() {
			u.inner = append(u.inner, p)
		} else {
			u.outer = append(u.outer, p)
		}
	}
	return u.inner, u.outer
}

// newtonSchulz is how often Muon iterates.
const newtonSchulz = 5

// muon is torch.optim.Muon on the matrices of the layers and torch.optim.AdamW on the rest, for which Muon is not made.
// Source: torch/optim/_muon.py (_single_tensor_muon, _zeropower_via_newtonschulz), torch 2.9.
func (u *updater) muon(ps []*Parameter) {
	inner, outer := u.divide(ps)
	for _, p := range inner {
		u.keep(u.moment(p))
	}
	update := noHandle
	for _, p := range inner {
		u.reassign(&update, u.heap.Alloc(p.bytes()))
		u.orthogonalise(p, &update)
	}
	u.del(&update)
	rest := Optimizer{Moments: 2, Lists: 1, CopiesParameters: true} // AdamW's
	u.run(&rest, outer)
}

// orthogonalise iterates in bfloat16, into which an update in another type is copied, and puts what comes out into update.
func (u *updater) orthogonalise(p *Parameter, update *int32) {
	small := min(p.Rows, p.Cols)
	half := *update
	copied := p.Dtype != BF16
	if copied {
		half = u.heap.Alloc(2 * p.Numel)
	}
	norm := u.reduce(2, overAll, p.Numel, 1)
	clamped := u.heap.Alloc(2)
	u.heap.Free(norm)
	u.heap.Free(clamped)
	gram, sum := noHandle, noHandle
	for i := range newtonSchulz {
		u.reassign(&gram, u.heap.Alloc(2*small*small))
		u.reassign(&sum, u.heap.Alloc(2*small*small))
		next := u.heap.Alloc(2 * p.Numel)
		if i > 0 || copied {
			u.heap.Free(half)
		}
		half = next
	}
	u.del(&gram)
	u.del(&sum)
	u.reassign(update, half)
}

// galore is GaLore's AdamW: the moments of a layer's matrix have its longer side and the rank of a projection, which a
// singular value decomposition of the float32 gradient yields every so many steps. Every step is taken for such a one. The
// decomposition's copies follow its signature, not a trace: the stand-in for the driver has no cuSOLVER.
// Source: galore_torch/adamw.py (GaLoreAdamW.step) and galore_projector.py (proj_type std), 1.0.
func (u *updater) galore(ps []*Parameter) {
	inner, outer := u.divide(ps)
	denominator, update := noHandle, noHandle
	for _, p := range outer {
		u.keep(p.bytes())
		u.keep(p.bytes())
		u.reassign(&denominator, u.heap.Alloc(p.bytes()))
		u.reassign(&update, u.heap.Alloc(p.bytes()))
	}
	projected := noHandle
	for _, p := range inner {
		size := p.Dtype.Size()
		short, long := min(p.Rows, p.Cols), max(p.Rows, p.Cols)
		rank := min(u.rank, short)
		u.decompose(p, short)
		u.keep(rank * short * size)
		low := rank * long * size
		u.reassign(&projected, u.heap.Alloc(low))
		u.keep(low)
		u.keep(low)
		u.reassign(&denominator, u.heap.Alloc(low))
		u.reassign(&update, u.heap.Alloc(low))
		whole := u.heap.Alloc(p.bytes())
		u.reassign(&update, u.heap.Alloc(p.bytes()))
		u.heap.Free(whole)
	}
	u.del(&projected)
	u.del(&denominator)
	u.del(&update)
}

// decompose is torch.linalg.svd(gradient.float(), full_matrices=False): a copy of the matrix to work on, and both sides.
func (u *updater) decompose(p *Parameter, short int64) {
	wide := noHandle
	if p.Dtype != F32 {
		wide = u.heap.Alloc(4 * p.Numel)
	}
	left, values, right := u.heap.Alloc(4*p.Rows*short), u.heap.Alloc(4*short), u.heap.Alloc(4*short*p.Cols)
	u.flash(4 * p.Numel)
	for _, h := range [...]int32{left, values, right} {
		u.heap.Free(h)
	}
	u.del(&wide)
}
