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

// ShortCumulativeSum is torch.cumsum of one row of n whole numbers into integers of 32 bits, which they are made first.
// CUB's scan asks for 8 bytes for each tile and for 32 more. Source: cub/device/dispatch/dispatch_scan.cuh, CUDA 12.8.
func (t *Tape) ShortCumulativeSum(n int64) T {
	const tile = 1792
	y := t.Input(n, F32) // 32 bits
	short := t.Input(n, F32)
	t.Drop(t.fresh(roundUp(8*(CeilDiv(n, tile)+32), 256)+t.scanAlignment(), Bool, LabelInput))
	t.Drop(short)
	return y
}
