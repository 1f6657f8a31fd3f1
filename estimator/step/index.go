package step

// IndexRows is w[ids], which autograd turns into index_put: the rows of the gradient are added to zeros.
// Source: torch/csrc/autograd/FunctionsManual.cpp (index_backward), torch 2.9.
func (t *Tape) IndexRows(w Weight, ids T, l Label) T {
	p := t.Parameter(w)
	y := t.fresh(ids.numel*w.Cols, p.dtype, l)
	o := t.op(p).save(ids)
	o.alloc(0, p.bytes(), LabelGradient).scatterScratch(ids.numel, w.Rows, 1)
	return o.send(0, 0).out(y, 0)
}
