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
		rows, cols, _ := p.factors()
		u.del(&grad)
		if p.Dtype.Half() {
			grad = u.heap.Alloc(n)
		}
		if p.matrix() {
			u.keep(4 * rows)
			u.keep(4 * cols)
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
	rows, cols, matrices := p.factors()
	u.heap.Free(u.reduce(4*rows, overCols, rows, p.Cols))
	u.heap.Free(u.reduce(4*cols, overRows, p.Rows, cols))
	mean := u.reduce(4*matrices, overAll, p.Rows, 1)
	ofRows := u.heap.Alloc(4 * rows)
	u.heap.Free(mean)
	ofCols := u.heap.Alloc(4 * cols)
	product := u.heap.Alloc(4 * p.Numel)
	u.heap.Free(ofRows)
	u.heap.Free(ofCols)
	return product
}

// adafactorTorch is torch.optim.Adafactor, which runs as a loop unless foreach is asked for.
// Source: torch/optim/_adafactor.py (_single_tensor_adafactor), torch 2.9.
func (u *updater) adafactorTorch(ps []*Parameter) {
	for _, p := range ps {
		if rows, cols, _ := p.factors(); p.matrix() {
			u.keep(rows * p.Dtype.Size())
			u.keep(cols * p.Dtype.Size())
		} else {
			u.keep(p.bytes())
		}
	}
	rowMean, colMean, squared, update := noHandle, noHandle, noHandle, noHandle
	for _, p := range ps {
		size := p.Dtype.Size()
		u.heap.Free(u.reduce(size, overAll, p.Numel, 1))
		var estimate int32
		if rows, cols, matrices := p.factors(); p.matrix() {
			u.reassign(&rowMean, u.reduce(size*rows, overCols, rows, p.Cols))
			u.reassign(&colMean, u.reduce(size*cols, overRows, p.Rows, cols))
			estimate = u.heap.Alloc(p.bytes())
			u.heap.Free(u.reduce(size*matrices, overAll, p.Rows, 1))
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
