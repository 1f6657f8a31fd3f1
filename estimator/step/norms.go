package step

// WideRMSNorm is the RMSNorm of OLMo 2, which multiplies by its weight before it casts back.
// Source: transformers/models/olmo2/modeling_olmo2.py (Olmo2RMSNorm), 4.57.
func (t *Tape) WideRMSNorm(x T, w Weight) T {
	if t.Recipe.Kernels.RMSNorm {
		return t.fusedRMSNorm(x, w)
	}
	if t.compiled {
		return t.fusedNorm(x, w, NoWeight, true)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	variance := t.MeanRows(square, w.Rows, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(variance, LabelNormStatistics)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normalised := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd)
	t.Drop(x32)
	scaled := t.Mul(t.Parameter(w), normalised, false, LabelNormOutput)
	y := t.Cast(scaled, x.dtype, LabelNormOutput)
	t.Drop(scaled)
	t.Drop(normalised)
	t.Drop(variance)
	return y
}

// PlainLayerNorm is F.layer_norm in float32 over rows of width elements, without gain and bias.
// Source: transformers/models/olmo/modeling_olmo.py (OlmoLayerNorm), 4.57.
func (t *Tape) PlainLayerNorm(x T, width int64) T {
	if t.compiled {
		return t.fusedRows(x, width, false)
	}
	x32 := t.Float(x, LabelNormScaled)
	rows := x.numel / width
	normed := t.fresh(x32.numel, F32, LabelNormOutput)
	mean := t.fresh(rows, F32, LabelNormStatistics)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	normed = t.op(x32).save(x32, mean, rstd).alloc(0, x32.bytes(), LabelInputGradient).send(0, 0).out(normed, 0)
	t.Drop(mean)
	t.Drop(rstd)
	t.Drop(x32)
	y := t.Cast(normed, x.dtype, LabelNormOutput)
	t.Drop(normed)
	return y
}

// CohereLayerNorm is a LayerNorm without bias as Cohere writes it in Python, over rows of width elements.
// Source: transformers/models/cohere/modeling_cohere.py (CohereLayerNorm), 4.57.
func (t *Tape) CohereLayerNorm(x T, w Weight, width int64) T {
	if t.compiled {
		return t.fusedRows(x, width, false, t.Parameter(w))
	}
	x32 := t.Float(x, LabelNormScaled)
	mean := t.MeanRows(x32, width, LabelNormStatistics)
	centred := t.SubRows(x32, mean, LabelNormScaled)
	square := t.Pow(centred, LabelElementwise)
	t.Drop(centred)
	variance := t.MeanRows(square, width, LabelNormStatistics)
	t.Drop(square)
	centred = t.SubRows(x32, mean, LabelNormScaled)
	eps := t.AddScalar(variance, LabelNormStatistics)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normalised := t.Mul(centred, rstd, true, LabelNormScaled)
	t.Drop(centred)
	t.Drop(rstd)
	t.Drop(x32)
	w32 := t.Float(t.Parameter(w), LabelCast)
	scaled := t.Mul(w32, normalised, false, LabelNormOutput)
	t.Drop(w32)
	t.Drop(normalised)
	y := t.Cast(scaled, x.dtype, LabelNormOutput)
	t.Drop(scaled)
	t.Drop(mean)
	t.Drop(variance)
	return y
}

// SubRows is x − rows, where rows has one value for each row of x.
func (t *Tape) SubRows(x, rows T, l Label) T {
	y := t.fresh(x.numel, x.dtype, l)
	o := t.op(x, rows)
	if o.i == None {
		return y
	}
	if o.needs(1) {
		o.alloc(1, y.bytes(), LabelInputGradient)
	}
	o.pass(0, 0)
	if o.needs(1) {
		o.validate().alloc(2, rows.bytes(), LabelReduction).free(1).send(2, 1)
	}
	return o.out(y, 0)
}

// ClampInPlace is x.clamp_(min, max), which keeps a copy of what it overwrites. It takes over x.
func (t *Tape) ClampInPlace(x T) T {
	if !t.grads(x) {
		return x
	}
	former := t.fresh(x.numel, x.dtype, LabelElementwise)
	y := t.op(x).save(former).
		alloc(1, x.dtype.Size(), LabelElementwise).alloc(2, x.numel, LabelElementwise).alloc(3, x.numel,
		LabelElementwise).
		alloc(0, x.bytes(), LabelInputGradient).free(3).free(2).free(1).send(0, 0).out(x, 0)
	t.Drop(former)
	return y
}
