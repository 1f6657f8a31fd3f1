package optim

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// adafactorHF is transformers' Adafactor as its Trainer sets it up: no first moment, no scaling by the parameter. It
// goes from parameter to parameter in float32; the variables keep their tensors until they are assigned anew.
// Source: transformers/optimization.py (Adafactor.step), 4.57.
func (u *Updater) adafactorHF(ps []*step.Parameter) {
	grad, wide, update := alloc.None, alloc.None, alloc.None
	if u.Recipe.GroupsByDecay {
		decayed, rest := byDecay(ps)
		ps = append(decayed, rest...)
	}
	if u.First {
		u.Rms = u.Rms[:0]
	}
	for i, p := range ps {
		n := 4 * p.Numel
		rows, cols, _ := p.Factors()
		u.del(&grad)
		if p.Dtype.Half() {
			grad = u.Heap.Alloc(n)
		}
		if p.Matrix() {
			u.keep(4 * rows)
			u.keep(4 * cols)
		} else {
			u.keep(n)
		}
		u.del(&wide)
		if p.Dtype.Half() {
			wide = u.Heap.Alloc(n)
		}
		norm := u.reduce(4, step.OverAll, p.Numel, 1)
		rms := u.Heap.Alloc(4)
		u.Heap.Free(norm)
		if u.First {
			u.Rms = append(u.Rms, rms)
		} else {
			u.reassign(&u.Rms[i], rms)
		}
		square := u.Heap.Alloc(n)
		sum := u.Heap.Alloc(n)
		u.Heap.Free(square)
		u.reassign(&update, sum)
		if p.Matrix() {
			u.reassign(&update, u.approximateSquare(p))
		} else {
			u.reassign(&update, u.Heap.Alloc(n))
		}
		norm = u.reduce(4, step.OverAll, p.Numel, 1)
		root := u.Heap.Alloc(4)
		u.Heap.Free(norm)
		u.flash(4)
		u.Heap.Free(root)
		u.flash(n) // -update
	}
	u.del(&grad)
	u.del(&wide)
	u.del(&update)
}

// byDecay puts what weight decay reaches in front of the rest, as the Trainer's groups do: matrices, then norms and
// biases. Source: transformers/trainer.py (get_decay_parameter_names, create_optimizer), 4.57.
func byDecay(ps []*step.Parameter) (decays, rest []*step.Parameter) {
	for _, p := range ps {
		if p.Matrix() {
			decays = append(decays, p)
		} else {
			rest = append(rest, p)
		}
	}
	return decays, rest
}

// approximateSquare is the square of the gradient as its means over rows and columns give it.
func (u *Updater) approximateSquare(p *step.Parameter) int32 {
	rows, cols, matrices := p.Factors()
	u.Heap.Free(u.reduce(4*rows, step.OverCols, rows, p.Cols))
	u.Heap.Free(u.reduce(4*cols, step.OverRows, p.Rows, cols))
	mean := u.reduce(4*matrices, step.OverAll, p.Rows, 1)
	ofRows := u.Heap.Alloc(4 * rows)
	u.Heap.Free(mean)
	ofCols := u.Heap.Alloc(4 * cols)
	product := u.Heap.Alloc(4 * p.Numel)
	u.Heap.Free(ofRows)
	u.Heap.Free(ofCols)
	return product
}

// adafactorTorch is torch.optim.Adafactor, which runs as a loop unless foreach is asked for.
// Source: torch/optim/_adafactor.py (_single_tensor_adafactor), torch 2.9.
func (u *Updater) adafactorTorch(ps []*step.Parameter) {
	for _, p := range ps {
		if rows, cols, _ := p.Factors(); p.Matrix() {
			u.keep(rows * p.Dtype.Size())
			u.keep(cols * p.Dtype.Size())
		} else {
			u.keep(p.Bytes())
		}
	}
	rowMean, colMean, squared, update := alloc.None, alloc.None, alloc.None, alloc.None
	for _, p := range ps {
		size := p.Dtype.Size()
		u.Heap.Free(u.reduce(size, step.OverAll, p.Numel, 1))
		var estimate int32
		if rows, cols, matrices := p.Factors(); p.Matrix() {
			u.reassign(&rowMean, u.reduce(size*rows, step.OverCols, rows, p.Cols))
			u.reassign(&colMean, u.reduce(size*cols, step.OverRows, p.Rows, cols))
			estimate = u.Heap.Alloc(p.Bytes())
			u.product(false)
			u.Heap.Free(u.reduce(size*matrices, step.OverAll, p.Rows, 1))
		} else {
			u.reassign(&squared, u.Heap.Alloc(p.Bytes()))
			estimate = u.Heap.Alloc(p.Bytes())
		}
		u.reassign(&update, estimate)
		u.Heap.Free(u.reduce(size, step.OverAll, p.Numel, 1))
	}
	for _, variable := range [...]*int32{&rowMean, &colMean, &squared, &update} {
		u.del(variable)
	}
}
