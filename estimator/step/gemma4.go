package step

// Gemma4RMSNorm is the norm of Gemma 4 over rows of width elements: all of it in float32, with a power in the place of
// a root. w need not exist.
// Source: transformers/models/gemma4/modeling_gemma4.py (Gemma4RMSNorm), 5.23.
func (t *Tape) Gemma4RMSNorm(x T, w Weight, width int64) T {
	if t.Recipe.Kernels.RMSNorm && w.Exists() {
		return t.fusedRMSNorm(x, w)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	mean := t.MeanRows(square, width, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(mean, LabelNormStatistics)
	t.Drop(mean)
	rstd := t.Pow(eps, LabelNormStatistics)
	normed := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd, eps, x32)
	if w.Exists() {
		w32 := t.Float(t.Parameter(w), LabelCast)
		output := t.Mul(normed, w32, false, LabelNormOutput)
		t.Drop(w32, normed)
		normed = output
	}
	y := t.Cast(normed, x.dtype, LabelNormOutput)
	t.Drop(normed)
	return y
}

// ScaledInPlace is x *= c for a number c in memory that wants no gradient, which is saved. It takes over x.
func (t *Tape) ScaledInPlace(x, c T) T {
	return t.op(x).save(c).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(x, 0)
}
