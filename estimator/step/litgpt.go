package step

// ConvolvedParts multiplies each of the parts of a token's values, which follow each other, by its own rows of w, as
// convolutions of width one over the sequence do: rows has how many each part gets. Parts of one width are one
// convolution in groups; others are one convolution each, whose results are joined. What comes is laid out anew for
// each. The results keep x and w. It is not known how much memory cuDNN takes besides.
// Sources: litgpt/lora.py (LoRAQKVLinear.conv1d), 0.5; aten/src/ATen/native/Convolution.cpp (_convolution: the input is
// made contiguous; convolution_backward: the gradient, too), torch 2.9.
func (t *Tape) ConvolvedParts(x T, w Weight, rows []int64) T {
	alike := true
	for _, n := range rows {
		alike = alike && n == rows[0]
	}
	tokens := x.numel / (w.Cols * int64(len(rows)))
	if alike {
		return t.convolvedPart(x, t.Parameter(w), x.numel, tokens*w.Rows)
	}
	chunks := t.views(x, len(rows), x.numel/int64(len(rows)))
	parameter := t.Parameter(w)
	split := t.op(parameter).alloc(0, parameter.bytes(), LabelWeightGradient).send(0, 0)
	parts := make([]T, len(rows))
	var whole int64
	for i, n := range rows {
		part := parameter
		part.numel = n * w.Cols
		part = split.out(part, i)
		parts[i] = t.convolvedPart(chunks[i], part, chunks[i].numel, tokens*n)
		whole += parts[i].numel
	}
	y := t.fresh(whole, x.dtype, LabelAdapter)
	o := t.op(parts...)
	for i := range parts {
		o.pass(0, i)
	}
	y = o.out(y, 0)
	for i := range parts {
		t.Drop(parts[i], chunks[i])
	}
	return y
}

// convolvedPart is one convolution over as much of x as is its input.
func (t *Tape) convolvedPart(x, w T, input, output int64) T {
	size := x.dtype.Size()
	dense := t.fresh(input, x.dtype, LabelContiguous)
	y := t.fresh(output, x.dtype, LabelAdapter)
	t.Drop(dense)
	const denseInput, denseGradient = 2, 3
	return t.op(x, w).save(x, w).
		alloc(denseInput, input*size, LabelContiguous).alloc(denseGradient, output*size, LabelContiguous).
		alloc(0, input*size, LabelInputGradient).alloc(1, w.bytes(), LabelWeightGradient).
		free(denseGradient).free(denseInput).send(0, 0).send(1, 1).out(y, 0)
}

// views are n parts of x of numel elements each, whose gradients meet in one tensor (torch.split, chunk).
func (t *Tape) views(x T, n int, numel int64) []T {
	each := make([]int64, n)
	for i := range each {
		each[i] = numel
	}
	return t.SplitParts(x, each...)
}

// SplitParts is x.split(numels, dim): views, whose gradients are put together in one tensor.
func (t *Tape) SplitParts(x T, numels ...int64) []T {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	parts := make([]T, len(numels))
	for i, n := range numels {
		part := t.Hold(x)
		part.numel = n
		parts[i] = o.out(part, i)
	}
	return parts
}

// IndexCopy puts x into zeros of numel elements at columns indices, which the module makes once and clones every time.
// It keeps x and the clone. Sources: tools/autograd/derivatives.yaml (index_copy), torch 2.9; litgpt/lora.py
// (LoRAQKVLinear.lora_ind, zero_pad), 0.5.
func (t *Tape) IndexCopy(x T, numel, columns int64) T {
	y := t.fresh(numel, x.dtype, LabelAdapter)
	t.Once(columns, I64, LabelAdapter)
	index := t.fresh(columns, I64, LabelAdapter)
	y = t.op(x).save(x, index).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	t.Drop(index)
	return y
}

// ProductRMSNorm is litgpt's RMSNorm: all of it in float32, the square as a product of x with itself, and the weight
// made float32. Source: litgpt/model.py (RMSNorm), 0.5.
func (t *Tape) ProductRMSNorm(x T, w Weight) T {
	x32 := t.Float(x, LabelNormScaled)
	square := t.Mul(x32, x32, false, LabelElementwise)
	mean := t.MeanRows(square, w.Rows, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(mean, LabelNormStatistics)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normed := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd)
	w32 := t.Float(t.Parameter(w), LabelCast)
	scaled := t.Mul(normed, w32, false, LabelNormOutput)
	t.Drop(w32)
	y := t.Cast(scaled, x.dtype, LabelNormOutput)
	t.Drop(scaled, x32, mean, normed)
	return y
}

// TurnedInFloat turns x by cosines and sines in float32 and casts back. It returns what turned parts litgpt's function
// joins. Source: litgpt/model.py (apply_rope), 0.5.
func (t *Tape) TurnedInFloat(x, cos, sin T) T {
	half := x.numel / 2
	first, second := t.Slice(x, half), t.Slice(x, half)
	negated := t.fresh(half, x.dtype, LabelRotary)
	negated = t.op(second).alloc(0, half*x.dtype.Size(), LabelRotary).send(0, 0).out(negated, 0)
	rotated := t.fresh(x.numel, x.dtype, LabelRotary)
	rotated = t.op(negated, first).pass(0, 0).pass(0, 1).out(rotated, 0)
	t.Drop(negated)
	direct := t.mulBroadcast(x, cos)
	shifted := t.mulBroadcast(rotated, sin)
	sum := t.Add(direct, shifted, LabelRotary)
	t.Drop(direct, shifted)
	y := t.Cast(sum, x.dtype, LabelRotary)
	t.Drop(first, second, rotated, sum)
	return y
}

// RepeatInterleave is x.repeat_interleave(Query/KV, dim=1), a copy even of one head.
func (t *Tape) RepeatInterleave(x T, h Heads) T { return t.interleaveKV(x, h) }
