package step

// adafactorHF is transformers' Adafactor as its Trainer sets it up: no first moment, no scaling by the parameter. It goes
// from parameter to parameter in float32; the variables keep their tensors until they are assigned anew.
// Source: transformers/optimization.py (Adafactor.step), 4.57.
func (u *updater) adafactorHF(ps []*Parameter) {
	grad, wide, update := noHandle, noHandle, noHandle
	if u.first {
		u.rms = u.rms[:0]
	}
	for i, p := range ps {
		n := 4 * p.Numel
		u.del(&grad)
		if p.Dtype.Half() {
			grad = u.heap.Alloc(n)
		}
		if p.matrix() {
			u.keep(4 * p.Rows)
			u.keep(4 * p.Cols)
		} else {
			u.keep(n)
		}
		u.del(&wide)
		if p.Dtype.Half() {
			wide = u.heap.Alloc(n)
		}
		norm := u.reduce(4, overAll, p.Numel, 1)
		rms := u.heap.Alloc(4)
		u.heap.Free(norm)
		if u.first {
			u.rms = append(u.rms, rms)
		} else {
			u.reassign(&u.rms[i], rms)
		}
		square := u.heap.Alloc(n)
		sum := u.heap.Alloc(n)
		u.heap.Free(square)
		u.reassign(&update, sum)
		if p.matrix() {
			u.reassign(&update, u.approximateSquare(p))
		} else {
			u.reassign(&update, u.heap.Alloc(n))
		}
		norm = u.reduce(4, overAll, p.Numel, 1)
		root := u.heap.Alloc(4)
		u.heap.Free(norm)
		u.flash(4)
		u.heap.Free(root)
		u.flash(n) // -update
	}
	u.del(&grad)
	u.del(&wide)
	u.del(&update)
}

// approximateSquare is the square of the gradient as its means over rows and columns give it.
func (u *updater) approximateSquare(p *Parameter) int32 {
	u.heap.Free(u.reduce(4*p.Rows, overCols, p.Rows, p.Cols))
	u.heap.Free(u.reduce(4*p.Cols, overRows, p.Rows, p.Cols))
	mean := u.reduce(4, overAll, p.Rows, 1)
	rows := u.heap.Alloc(4 * p.Rows)
	u.heap.Free(mean)
	cols := u.heap.Alloc(4 * p.Cols)
	product := u.heap.Alloc(4 * p.Numel)
	u.heap.Free(rows)
	u.heap.Free(cols)
	return product
}

// adafactorTorch is torch.optim.Adafactor, which runs as a loop unless foreach is asked for.
// Source: torch/optim/_adafactor.py (_single_tensor_adafactor), torch 2.9.
func (u *updater) adafactorTorch(ps []*Parameter) {
	for _, p := range ps {
		if p.matrix() {
			u.keep(p.Rows * p.Dtype.Size())
			u.keep(p.Cols * p.Dtype.Size())
		} else {
			u.keep(p.bytes())
		}
	}
	rowMean, colMean, squared, update := noHandle, noHandle, noHandle, noHandle
	for _, p := range ps {
		size := p.Dtype.Size()
		u.heap.Free(u.reduce(size, overAll, p.Numel, 1))
		var estimate int32
		if p.matrix() {
			u.reassign(&rowMean, u.reduce(size*p.Rows, overCols, p.Rows, p.Cols))
			u.reassign(&colMean, u.reduce(size*p.Cols, overRows, p.Rows, p.Cols))
			estimate = u.heap.Alloc(p.bytes())
			u.heap.Free(u.reduce(size, overAll, p.Rows, 1))
		} else {
			u.reassign(&squared, u.heap.Alloc(p.bytes()))
			estimate = u.heap.Alloc(p.bytes())
		}
		u.reassign(&update, estimate)
		u.heap.Free(u.reduce(size, overAll, p.Numel, 1))
	}
	for _, variable := range [...]*int32{&rowMean, &colMean, &squared, &update} {
		u.del(variable)
	}
}
