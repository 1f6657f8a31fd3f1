package step

// GemmaRMSNorm is the norm of the Gemma family: all of it in float32, and the weight counts from 1.
// Source: transformers/models/gemma/modeling_gemma.py (GemmaRMSNorm), 4.57.
func (t *Tape) GemmaRMSNorm(x T, w Weight) T {
	return t.exec.norm(t, gemmaRMSNorm, x, w, NoWeight, w.Rows)
}

func (t *Tape) gemmaRMSNorm(x T, w, _ Weight, width int64) T {
	if t.Recipe.Kernels.RMSNorm {
		return t.fusedRMSNorm(x, w)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	mean := t.MeanRows(square, width, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(mean, LabelNormStatistics)
	t.Drop(mean)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normalised := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd, x32)
	w32 := t.Float(t.Parameter(w), LabelCast)
	gain := t.AddScalar(w32, LabelCast)
	t.Drop(w32)
	output := t.Mul(normalised, gain, false, LabelNormOutput)
	t.Drop(gain, normalised)
	y := t.Cast(output, x.dtype, LabelNormOutput)
	t.Drop(output)
	return y
}

// SoftCap is cap · tanh(x / cap). It takes over x.
// Source: transformers/models/gemma2/modeling_gemma2.py (eager_attention_forward), 4.57.
func (t *Tape) SoftCap(x T) T {
	divided := t.MulScalar(x, LabelAttentionScores)
	t.Drop(x)
	tanh := t.Tanh(divided, LabelAttentionScores)
	t.Drop(divided)
	y := t.MulScalar(tanh, LabelAttentionScores)
	t.Drop(tanh)
	return y
}

// SoftCapLogits is SoftCap for logits (Gemma2ForCausalLM.forward).
func (t *Tape) SoftCapLogits(x T) T { return t.exec.softCapLogits(t, x) }

func (eager) softCapLogits(t *Tape, x T) T {
	divided := t.ScaleLogits(x)
	tanh := t.wide(divided.numel, divided.dtype, LabelLogits)
	tanh = t.wideGradient(t.op(divided).save(tanh), divided).out(tanh, 0)
	t.Drop(divided)
	return t.ScaleLogits(tanh)
}

// ScaleLogits is the logits times or over a number. It takes them over.
func (t *Tape) ScaleLogits(x T) T { return t.exec.scaleLogits(t, x) }

func (eager) scaleLogits(t *Tape, x T) T {
	y := t.wide(x.numel, x.dtype, LabelLogits)
	y = t.wideGradient(t.op(x), x).out(y, 0)
	t.Drop(x)
	return y
}

// ScaledEmbedding is an embedding whose forward multiplies its rows by a buffer.
// Source: transformers/models/gemma3/modeling_gemma3.py (Gemma3TextScaledWordEmbedding), 4.57.
func (t *Tape) ScaledEmbedding(ids T, w, scale Weight, l Label) T {
	return t.embeddingThen(ids, w, l, func(x T) T { return t.Mul(x, t.Parameter(scale), false, l) })
}

// NumberedEmbedding is an embedding whose forward multiplies its rows by a number, which may be one.
// Source: transformers/models/bart/modeling_bart.py (BartScaledWordEmbedding), 5.23.
func (t *Tape) NumberedEmbedding(ids T, w Weight, l Label) T {
	return t.embeddingThen(ids, w, l, func(x T) T { return t.MulScalar(x, l) })
}

// embeddingThen is an embedding whose forward ends with scale.
func (t *Tape) embeddingThen(ids T, w Weight, l Label, scale func(x T) T) T {
	inner := w
	inner.Embeds = 0
	x := t.Embedding(ids, inner, l)
	y := scale(x)
	t.Drop(x)
	if w.Embeds == OfInputHooked && t.Recipe.InputGradients {
		y = t.requireGrad(y)
	}
	return t.noised(w, y, l)
}
