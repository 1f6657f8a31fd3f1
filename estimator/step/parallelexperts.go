package step

// What mixtures do whose experts are one tensor, of which each expert's product takes its matrix (Granite before
// transformers 5.23).

// ParallelProducts is ParallelExperts: the rows of x, of in elements, are dealt out to count experts one after the
// other, as evenly as they go, and what their matrices of w, with a row for each output, make of them is put together
// again. Of a part of a parameter autocast caches no copy; the gradient of each part is written into zeros as large as
// the parameter, and is added up there.
// Source: transformers/models/granitemoe/modeling_granitemoe.py (GraniteMoeParallelExperts), 4.57.6 and 5.10.0;
// torch/csrc/autograd/FunctionsManual.cpp (split_with_sizes_backward), aten/src/ATen/native/TensorShape.cpp
// (select_backward), aten/src/ATen/autocast_mode.cpp (cached_cast), torch 2.9.
func (t *Tape) ParallelProducts(x T, w Weight, count, in int64, l Label) T {
	rows, out := x.numel/in, w.Rows/count
	pieces := t.Pieces(x)
	results := make([]T, count)
	for i := range count {
		share := (i+1)*rows/count - i*rows/count
		part := pieces.Next(share * in)
		weight := t.autocastTo(t.matrixOf(w, count), t.Recipe.Compute, LabelWeightCopy)
		input := t.autocastTo(part, t.Recipe.Compute, LabelCast)
		results[i] = t.product(input, weight, NoTensor, false, false, in, out, l)
		t.Drop(part)
	}
	y := t.Stack(results)
	t.Drop(results...)
	return y
}

// matrixOf is w[i], one of count matrices in a parameter.
func (t *Tape) matrixOf(w Weight, count int64) T {
	p := t.Parameter(w)
	y := p
	y.numel /= count
	return t.op(p).alloc(0, p.bytes(), LabelWeightGradient).send(0, 0).out(y, 0)
}

// RowsAdded is zeros.index_add(0, indices, x), not in place, for zeros of numel elements, which stay.
func (t *Tape) RowsAdded(zeros, indices, x T) T {
	o := t.op(x).save(x, indices)
	y := t.fresh(zeros.numel, zeros.dtype, LabelExpertOutput)
	return o.alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}
