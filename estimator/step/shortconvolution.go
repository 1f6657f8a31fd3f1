package step

// CausalConvolution is transformers' causal_conv1d_fn without the package of its name: every channel is convolved by
// itself with a kernel of so many tokens, and what it makes behind the last token is cut off. The input, whose channels
// lie side by side, is cast to the type of the parameters and laid out for cuDNN; the kernel is a view of the
// parameter, and autocast keeps no copy of that.
// Source: transformers/models/lfm2/modeling_lfm2.py (causal_conv1d_fn), 5.23; aten/src/ATen/native/Convolution.cpp,
// torch 2.15.
func (t *Tape) CausalConvolution(x T, w, b Weight, kernel int64) T {
	squeezed := t.View(t.Parameter(w))
	wide := t.Cast(x, squeezed.dtype, LabelCast)
	bias := NoTensor
	if b.Exists() {
		bias = t.weight(b)
	}
	weight := t.autocastTo(squeezed, t.Recipe.Compute, LabelWeightCopy)
	defer t.Drop(wide)
	return t.causalConvolution(t.autocastTo(wide, t.Recipe.Compute, LabelCast), weight, bias, w, kernel)
}

// CausalConvolutionModule is the same by nn.Conv1d itself, on what arrives and with its own weight.
// Source: transformers/models/lfm2/modeling_lfm2.py (Lfm2ShortConv.slow_forward), 4.57.6, 5.0.0 and 5.10.0.
func (t *Tape) CausalConvolutionModule(x T, w, b Weight, kernel int64) T {
	bias := NoTensor
	if b.Exists() {
		bias = t.weight(b)
	}
	weight := t.weight(w)
	return t.causalConvolution(t.autocastTo(x, t.Recipe.Compute, LabelCast), weight, bias, w, kernel)
}

// leastDepthwise is from how many channels on cuDNN convolves them in float16, gradient of the input first; elsewhere
// PyTorch's own kernels do, gradient of the weight first.
// Source: aten/src/ATen/native/Convolution.cpp (use_cudnn_depthwise), torch 2.9 and 2.15.
const leastDepthwise = 32

// causalConvolution is both, of operands in the type of the product, which it takes over; there is no bias where that
// is NoTensor.
func (t *Tape) causalConvolution(input, weight, bias T, w Weight, kernel int64) T {
	biased := bias != NoTensor
	channels := w.Rows
	rows := input.numel / channels
	longer := (rows + t.Shape.Batch*(kernel-1)) * channels
	y := T{storage: None, edge: noEdge, form: plain(input.dtype), numel: longer}
	if !t.lastSaves(2) {
		laid := t.fresh(input.numel, input.dtype, LabelContiguous)
		y = t.fresh(longer, input.dtype, LabelConvolution)
		t.Drop(laid)
	}
	ins := []T{input, weight}
	if biased {
		ins = append(ins, bias)
	}
	o := t.op(ins...).save(input, weight)
	const gradInput, gradWeight, gradBias, laid = 0, 1, 2, 3
	if o.i != None {
		o.alloc(laid, input.bytes(), LabelContiguous)
		order := [...]int{gradWeight, gradInput}
		if input.dtype == F16 && channels >= leastDepthwise {
			order = [...]int{gradInput, gradWeight}
		}
		for _, k := range order {
			if o.needs(k) {
				o.alloc(k, [...]int64{input.bytes(), weight.bytes()}[k],
					[...]Label{LabelInputGradient, LabelWeightGradient}[k])
			}
		}
		if biased && o.needs(2) {
			o.sumChannels(gradBias, y, channels)
		}
		o.free(laid)
		if o.needs(0) {
			o.send(gradInput, 0)
		}
		if o.needs(1) {
			o.send(gradWeight, 1)
		}
		if biased && o.needs(2) {
			o.send(gradBias, 2)
		}
	}
	y = o.out(y, 0)
	t.Drop(input, weight, bias)
	cut := t.Slice(y, rows*channels)
	t.Drop(y)
	return cut
}
