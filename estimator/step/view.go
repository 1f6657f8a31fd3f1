package step

// View is x.view(...) with a node of its own in the graph: the gradient that flows back through it is a view, which is
// never added to in place. It takes over x.
func (t *Tape) View(x T) T {
	return t.op(x).act(act{verb: actPassView}).out(x, 0)
}

// CumulativeSum is torch.cumsum along rows of whole numbers; one row takes CUB's scan.
// Source: aten/src/ATen/native/cuda/ScanUtils.cuh (scan_dim), torch 2.9.
func (t *Tape) CumulativeSum(rows, columns int64) T {
	y := t.Input(rows*columns, I64)
	if rows == 1 {
		t.Drop(t.fresh(t.scanScratch(columns), Bool, LabelInput))
	}
	return y
}

// CumulativeSumOf is torch.cumsum along rows of truth values, which are made whole numbers first.
func (t *Tape) CumulativeSumOf(rows, columns int64) T {
	y := t.Input(rows*columns, I64)
	whole := t.Input(rows*columns, I64)
	if rows == 1 {
		t.Drop(t.fresh(t.scanScratch(columns), Bool, LabelInput))
	}
	t.Drop(whole)
	return y
}
