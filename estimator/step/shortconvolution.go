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
	input := t.autocastTo(wide, t.Recipe.Compute, LabelCast)
	channels := w.Rows
	rows := x.numel / channels
	longer := (rows + t.Shape.Batch*(kernel-1)) * channels
	y := T{storage: None, edge: noEdge, form: plain(input.dtype), numel: longer}
	if !t.lastSaves(2) {
		laid := t.fresh(input.numel, input.dtype, LabelContiguous)
		y = t.fresh(longer, input.dtype, LabelConvolution)
		t.Drop(laid)
	}
	ins := []T{input, weight}
	if b.Exists() {
		ins = append(ins, bias)
	}
	o := t.op(ins...).save(input, weight)
	const gradInput, gradWeight, gradBias, laid = 0, 1, 2, 3
	if o.i != None {
		o.alloc(laid, input.bytes(), LabelContiguous)
		if o.needs(1) {
			o.alloc(gradWeight, weight.bytes(), LabelWeightGradient)
		}
		if o.needs(0) {
			o.alloc(gradInput, input.bytes(), LabelInputGradient)
		}
		if b.Exists() && o.needs(2) {
			o.sumChannels(gradBias, y, channels)
		}
		o.free(laid)
		if o.needs(0) {
			o.send(gradInput, 0)
		}
		if o.needs(1) {
			o.send(gradWeight, 1)
		}
		if b.Exists() && o.needs(2) {
			o.send(gradBias, 2)
		}
	}
	y = o.out(y, 0)
	t.Drop(input, weight, bias, wide)
	cut := t.Slice(y, x.numel)
	t.Drop(y)
	return cut
}
