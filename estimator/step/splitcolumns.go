package step

// SplitColumns is the two columns of x, each laid out densely: x.split(1, dim=-1), squeezed and made contiguous.
func (t *Tape) SplitColumns(x T) (first, second T) {
	a, b := t.SplitHalves(x)
	first, second = t.Contiguous(a), t.Contiguous(b)
	t.Drop(a, b)
	return first, second
}
