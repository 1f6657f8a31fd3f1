package step

// PlainLayerNorm is F.layer_norm over rows of width elements without gain and bias, in float32 and back, as OLMo has it.
// Source: transformers/models/olmo/modeling_olmo.py (OlmoLayerNorm), 4.57.
func (t *Tape) PlainLayerNorm(x T, width int64) T {
	input := t.Float(x, LabelCast)
	rows := input.numel / width
	y := t.fresh(input.numel, F32, LabelNormOutput)
	mean, rstd := t.fresh(rows, F32, LabelNormStatistics), t.fresh(rows, F32, LabelNormStatistics)
	y = t.op(input).save(input, mean, rstd).alloc(0, input.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	t.Drop(mean)
	t.Drop(rstd)
	t.Drop(input)
	back := t.Cast(y, x.dtype, LabelNormOutput)
	t.Drop(y)
	return back
}

// SquaredReLU is F.relu(x) squared. Source: transformers/activations.py (ReLUSquaredActivation), 4.57.
func (t *Tape) SquaredReLU(x T) T {
	positive := t.ReLU(x)
	y := t.Pow(positive, LabelActivation)
	t.Drop(positive)
	return y
}
