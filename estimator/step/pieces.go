package step

// Pieces is x.split(lengths): views one after the other, whose gradients are copied together into a tensor as large as
// x. There may be any number of them.
type Pieces struct {
	t *Tape
	x T
}

// Pieces cuts x.
func (t *Tape) Pieces(x T) Pieces { return Pieces{t, t.op(x).collect(x.bytes()).out(x, 0)} }

// Next is the next view, of numel elements.
func (p Pieces) Next(numel int64) T {
	part := p.t.Hold(p.x)
	part.numel = numel
	return part
}

// VolumeConvolution is nn.Conv3d, without a bias, over patches that are as large as its kernel: w has a row for every
// output. In half precision a loop over the patches takes the columns of one at a time and a matrix product: torch 2.9
// leaves cuDNN out, whose three-dimensional half-precision kernels of 9.8 to 9.14 were slow. Otherwise cuDNN works in a
// buffer of its own choice, which is taken for none. Source: aten/src/ATen/native/Convolution.cpp (use_cudnn),
// cuda/ConvolutionMM3d.cu, torch 2.9.
func (t *Tape) VolumeConvolution(x T, w Weight) T {
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	y := t.fresh(input.numel/w.Cols*w.Rows, input.dtype, LabelEmbedding)
	columns := int64(0)
	if input.dtype.Half() {
		columns = w.Cols * input.dtype.Size()
		buffer := t.fresh(w.Cols, input.dtype, LabelElementwise)
		t.workspace()
		t.Drop(buffer)
	}
	const gradient, buffer = 0, 1
	o := t.op(input, weight).save(input, weight).alloc(gradient, w.Rows*w.Cols*y.dtype.Size(), LabelWeightGradient)
	if columns > 0 {
		o.alloc(buffer, columns, LabelElementwise).workspace().free(buffer)
	}
	y = o.send(gradient, 1).out(y, 0)
	t.Drop(input, weight)
	return y
}

// RowsByHost is x[indices] of rows of d elements by numbers that lie on the host: they are moved for the call, and once
// more for its backward, which sorts them and adds the rows of the gradient to zeros.
// Source: aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel), torch 2.9.
func (t *Tape) RowsByHost(x T, d int64) T {
	n := x.numel / d
	moved := t.Input(n, I64)
	y := t.fresh(x.numel, x.dtype, LabelEmbedding)
	t.Drop(moved)
	const indices, sorted, places, numbers = 1, 2, 3, 4
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient)
	for _, r := range [...]int{indices, sorted, places, numbers} {
		o.alloc(r, n*I64.Size(), LabelRouting)
	}
	o.scratch(t.indexSortScratch(n, n), LabelRouting)
	return o.free(indices).free(sorted).free(places).free(numbers).send(0, 0).out(y, 0)
}
