package step

// LayerNorm is nn.LayerNorm over rows of d elements; float32 under autocast, which casts the arguments from the last
// to the first. It keeps its input, gain and bias, and two float32 statistics a row.
func (t *Tape) LayerNorm(x T, w, b Weight) T { return t.exec.norm(t, layerNorm, x, w, b, w.Rows) }

// TransposedLayerNorm is nn.LayerNorm of rows whose elements do not lie side by side: the kernel copies them before it
// starts, in forward and again in backward.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous), torch 2.9.
func (t *Tape) TransposedLayerNorm(x T, w, b Weight) T {
	return t.exec.norm(t, transposedLayerNorm, x, w, b, w.Rows)
}

// LayerNormBetweenTransposed is the same where the gradient of what it returns is transposed, too, and copied.
func (t *Tape) LayerNormBetweenTransposed(x T, w, b Weight) T {
	return t.exec.norm(t, layerNormBetweenTransposed, x, w, b, w.Rows)
}

// norm is a kind of norm over rows of width elements of x, with the gain w and the bias b where they exist.
type norm struct {
	// rms says that it leaves the mean where it is.
	rms bool
	// written is how its library writes it.
	written func(t *Tape, x T, w, b Weight, width int64) T
}

// The norms, each as its library writes it.
var (
	layerNorm                  = &norm{written: (*Tape).layerNorm}
	transposedLayerNorm        = &norm{written: (*Tape).transposedLayerNorm}
	layerNormBetweenTransposed = &norm{written: (*Tape).layerNormBetweenTransposed}
	layerNormFromOne           = &norm{written: (*Tape).layerNormFromOne}
	headsNorm                  = &norm{written: (*Tape).headsNorm}
	plainLayerNorm             = &norm{written: (*Tape).plainLayerNorm}
	cohereLayerNorm            = &norm{written: (*Tape).cohereLayerNorm}
	rmsNorm                    = &norm{rms: true, written: (*Tape).rmsNorm}
	wideRMSNorm                = &norm{rms: true, written: (*Tape).wideRMSNorm}
	gemmaRMSNorm               = &norm{rms: true, written: (*Tape).gemmaRMSNorm}
)

func (eager) norm(t *Tape, n *norm, x T, w, b Weight, width int64) T {
	return n.written(t, x, w, b, width)
}

func (t *Tape) layerNorm(x T, w, b Weight, width int64) T {
	return t.layerNormOf(x, w, b, width, rowsDense)
}

func (t *Tape) transposedLayerNorm(x T, w, b Weight, width int64) T {
	return t.layerNormOf(x, w, b, width, rowsTransposed)
}

func (t *Tape) layerNormBetweenTransposed(x T, w, b Weight, width int64) T {
	return t.layerNormOf(x, w, b, width, bothTransposed)
}

// rowLayout is how the rows of a norm's input, and of the gradient of its output, lie.
type rowLayout uint8

const (
	rowsDense rowLayout = iota
	rowsTransposed
	bothTransposed
)

func (t *Tape) layerNormOf(x T, w, b Weight, width int64, rows rowLayout) T {
	if t.Recipe.Kernels.LayerNorm {
		return t.fusedLayerNorm(x, w, b)
	}
	bias := NoTensor
	if b.Exists() {
		bias = t.autocastTo(t.Parameter(b), F32, LabelWeightCopy)
	}
	weight := t.autocastTo(t.Parameter(w), F32, LabelWeightCopy)
	input := t.autocastTo(x, F32, LabelCast)
	y := t.normRows([3]T{input, weight, bias}, b.Exists(), width, rows)
	t.Drop(input, weight, bias)
	return y
}

// normRows is the kernel of a LayerNorm on input, gain and, if biased, bias, over rows of width elements.
func (t *Tape) normRows(ins [3]T, biased bool, width int64, lie rowLayout) T {
	input, n, transposed := ins[0], 2, lie != rowsDense
	if biased {
		n = 3
	}
	rows := input.numel / width
	dense := NoTensor
	if transposed {
		dense = t.fresh(input.numel, input.dtype, LabelContiguous)
	}
	y := t.fresh(input.numel, input.dtype, LabelNormOutput)
	mean := t.fresh(rows, F32, LabelNormStatistics)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	t.Drop(dense)
	o := t.op(ins[:n]...).save(input, mean, rstd).save(ins[1:n]...)
	const copied, gradient = 4, 10
	if transposed {
		o.alloc(copied, input.bytes(), LabelContiguous)
	}
	if o.needs(0) {
		o.alloc(0, input.bytes(), LabelInputGradient).send(0, 0)
	}
	for k := 1; k < n; k++ {
		if o.needs(k) {
			o.alloc(k, ins[k].bytes(), LabelWeightGradient).send(k, k)
		}
	}
	if lie == bothTransposed {
		o.alloc(gradient, input.bytes(), LabelContiguous)
	}
	o.tallNorm(n, rows, width, input.dtype)
	if lie == bothTransposed {
		o.free(gradient)
	}
	if transposed {
		o.free(copied)
	}
	y = o.out(y, 0)
	t.Drop(mean, rstd)
	return y
}

// LayerNormFromOne is NVIDIA's LayerNorm whose gain counts from 1: under autocast it casts its arguments to half
// precision itself, past autocast's copies.
// Source: transformers/models/nemotron/modeling_nemotron.py (NemotronLayerNorm1P), 5.23.
func (t *Tape) LayerNormFromOne(x T, w, b Weight) T {
	return t.exec.norm(t, layerNormFromOne, x, w, b, w.Rows)
}

func (t *Tape) layerNormFromOne(x T, w, b Weight, width int64) T {
	gain := t.AddScalar(t.Parameter(w), LabelWeightCopy)
	d := x.dtype
	if t.autocast {
		d = t.Recipe.Compute
	}
	input := t.Cast(x, d, LabelCast)
	weight, bias := t.Hold(gain), t.Parameter(b)
	if t.autocast {
		t.Drop(weight)
		weight, bias = t.Cast(gain, d, LabelWeightCopy), t.Cast(bias, d, LabelWeightCopy)
		t.Drop(gain)
		gain = NoTensor
	}
	y := t.normRows([3]T{input, weight, bias}, true, width, rowsDense)
	t.Drop(input, weight, bias, gain)
	return y
}

// tallNorm is what the gradients of a LayerNorm's gain and bias take when there are very many rows of few
// elements: blocks of 32 rows are summed first, and then their sums.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (LayerNormBackwardKernelImplInternal), torch 2.9.
func (o op) tallNorm(n int, rows, width int64, d DType) {
	const manyRows, warp, maxBlocks = 64 * 1024, 32, 32 * 1024
	if !o.needs(1) || rows <= manyRows || width/warp >= o.t.Recipe.Multiprocessors/2 {
		return
	}
	blocks := min(CeilDiv(rows, 32), maxBlocks/CeilDiv(width, warp))
	for k := 1; k < n; k++ {
		o.alloc(k+4, blocks*width*d.Size(), LabelReduction)
	}
	for k := 1; k < n; k++ {
		o.sumRows(8, d, blocks, width, LabelReduction).free(8)
	}
	for k := 1; k < n; k++ {
		o.free(k + 4)
	}
}

// RMSNorm is the norm of the Llama family as transformers writes it, in Python: the input
// goes to float32, is scaled by its root mean square, comes back and is multiplied by the weight.
// Source: transformers/models/llama/modeling_llama.py (LlamaRMSNorm), 4.57.
func (t *Tape) RMSNorm(x T, w Weight) T {
	return t.exec.norm(t, rmsNorm, x, w, NoWeight, w.Rows)
}

func (t *Tape) rmsNorm(x T, w, _ Weight, width int64) T {
	if t.Recipe.Kernels.RMSNorm {
		return t.fusedRMSNorm(x, w)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	variance := t.MeanRows(square, width, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(variance, LabelNormStatistics)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normalised := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd, x32)
	back := t.Cast(normalised, x.dtype, LabelNormScaled)
	y := t.Mul(t.Parameter(w), back, false, LabelNormOutput)
	t.Drop(back, normalised, variance)
	return y
}

// WideRMSNorm is the RMSNorm of OLMo 2, which multiplies by its weight before it casts back.
// Source: transformers/models/olmo2/modeling_olmo2.py (Olmo2RMSNorm), 4.57.
func (t *Tape) WideRMSNorm(x T, w Weight) T {
	return t.exec.norm(t, wideRMSNorm, x, w, NoWeight, w.Rows)
}

func (t *Tape) wideRMSNorm(x T, w, _ Weight, width int64) T {
	if t.Recipe.Kernels.RMSNorm {
		return t.fusedRMSNorm(x, w)
	}
	x32 := t.Float(x, LabelNormScaled)
	square := t.Pow(x32, LabelElementwise)
	variance := t.MeanRows(square, width, LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(variance, LabelNormStatistics)
	rstd := t.Rsqrt(eps, LabelNormStatistics)
	t.Drop(eps)
	normalised := t.Mul(x32, rstd, true, LabelNormScaled)
	t.Drop(rstd, x32)
	scaled := t.Mul(t.Parameter(w), normalised, false, LabelNormOutput)
	y := t.Cast(scaled, x.dtype, LabelNormOutput)
	t.Drop(scaled, normalised, variance)
	return y
}

// PlainLayerNorm is F.layer_norm in float32 over rows of width elements, without gain and bias.
// Source: transformers/models/olmo/modeling_olmo.py (OlmoLayerNorm), 4.57.
func (t *Tape) PlainLayerNorm(x T, width int64) T {
	return t.exec.norm(t, plainLayerNorm, x, NoWeight, NoWeight, width)
}

func (t *Tape) plainLayerNorm(x T, _, _ Weight, width int64) T {
	x32 := t.Float(x, LabelNormScaled)
	rows := x.numel / width
	normed := t.fresh(x32.numel, F32, LabelNormOutput)
	mean := t.fresh(rows, F32, LabelNormStatistics)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	normed = t.op(x32).save(x32, mean, rstd).alloc(0, x32.bytes(), LabelInputGradient).send(0, 0).out(normed, 0)
	t.Drop(mean, rstd, x32)
	y := t.Cast(normed, x.dtype, LabelNormOutput)
	t.Drop(normed)
	return y
}

// CohereLayerNorm is a LayerNorm without bias as Cohere writes it in Python, over rows of width elements.
// Source: transformers/models/cohere/modeling_cohere.py (CohereLayerNorm), 4.57.
func (t *Tape) CohereLayerNorm(x T, w Weight, width int64) T {
	return t.exec.norm(t, cohereLayerNorm, x, w, NoWeight, width)
}

func (t *Tape) cohereLayerNorm(x T, w, _ Weight, width int64) T {
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
	t.Drop(centred, rstd, x32)
	w32 := t.Float(t.Parameter(w), LabelCast)
	scaled := t.Mul(w32, normalised, false, LabelNormOutput)
	t.Drop(w32, normalised)
	y := t.Cast(scaled, x.dtype, LabelNormOutput)
	t.Drop(scaled, mean, variance)
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
