package step

// MaskedMean is (x · mask).sum(dim=1) / mask.sum(dim=1) over the tokens of each sequence, for rows of width elements.
func (t *Tape) MaskedMean(x, mask T, width int64) T {
	masked := t.fresh(x.numel, x.dtype, LabelElementwise)
	masked = t.op(x).save(mask).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(masked, 0)
	rows := t.Shape.Batch * width
	sum := t.fresh(rows, x.dtype, LabelElementwise)
	sum = t.op(masked).act(act{verb: actPassView}).out(sum, 0)
	t.Drop(masked)
	count := t.fresh(t.Shape.Batch, I64, LabelElementwise)
	y := t.fresh(rows, x.dtype, LabelElementwise)
	y = t.op(sum).save(count).alloc(0, sum.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	t.Drop(sum, count)
	return y
}
