package step

// Convolution is nn.Conv1d or nn.Conv2d over x: w has a row for each output channel and a column for each input that one
// output sees, positions is how many outputs a channel has. It keeps its input and the weight. The gradient arrives as
// the transposed view that comes behind a convolution over patches, and is laid out first.
//
// cuDNN works in a buffer of its own choice, which is taken for none. bfloat16 without cuDNN's second interface, as in
// the reference, takes the columns of one input at a time and a matrix product.
// Source: aten/src/ATen/native/Convolution.cpp (use_cudnn), cuda/ConvolutionMM2d.cu, torch 2.9.
func (t *Tape) Convolution(x T, w, b Weight, positions int64) T {
	bias := NoTensor
	if b.Exists() {
		bias = t.weight(b)
	}
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	y := t.fresh(t.Shape.Batch*w.Rows*positions, input.dtype, LabelEmbedding)
	columns := int64(0)
	if input.dtype == BF16 {
		columns = w.Cols * positions * input.dtype.Size()
		buffer := t.fresh(columns/input.dtype.Size(), input.dtype, LabelElementwise)
		t.workspace()
		t.Drop(buffer)
	}
	ins := []T{input, weight}
	if b.Exists() {
		ins = append(ins, bias)
	}
	o := t.op(ins...).save(input, weight)
	o.convolutionGradient(input, y, w, b.Exists(), columns)
	y = o.out(y, 0)
	t.Drop(input)
	t.Drop(weight)
	t.Drop(bias)
	return y
}

// convolutionGradient is convolution_backward.
func (o op) convolutionGradient(input, y T, w Weight, bias bool, columns int64) {
	const gradInput, gradWeight, gradBias, contiguous = 0, 1, 2, 3
	if o.i == none {
		return
	}
	o.alloc(contiguous, y.bytes(), LabelContiguous)
	if o.needs(0) {
		o.alloc(gradInput, input.bytes(), LabelInputGradient)
	}
	if columns > 0 && bias {
		o.alloc(gradBias, w.Rows*y.dtype.Size(), LabelWeightGradient)
	}
	o.alloc(gradWeight, w.Rows*w.Cols*y.dtype.Size(), LabelWeightGradient)
	if columns > 0 {
		o.workspace().scratch(columns, LabelElementwise)
	}
	o.free(contiguous)
	if columns == 0 && bias {
		o.sumRows(gradBias, y.dtype, y.numel/w.Rows, w.Rows, LabelWeightGradient)
	}
	if o.needs(0) {
		o.send(gradInput, 0)
	}
	o.send(gradWeight, 1)
	if bias {
		o.send(gradBias, 2)
	}
}

// NoTensor is a tensor that does not exist.
var NoTensor = T{storage: none, edge: noEdge}

// Repeated is a parameter of one row, expanded to a row for every sequence: a view, whose gradient is summed again. The
// gradient of a single sequence is a view as it arrives, of more than the parameter's own, and is taken over so.
// Source: torch/csrc/autograd/functions/accumulate_grad.h (accumulateGrad), torch 2.9.
func (t *Tape) Repeated(w Weight) T {
	p := t.Parameter(w)
	y := p
	y.numel *= t.Shape.Batch
	o := t.op(p)
	if t.Shape.Batch == 1 {
		return o.act(act{verb: actPassPart}).out(y, 0)
	}
	return o.sumRows(0, p.dtype, t.Shape.Batch, p.numel, LabelReduction).send(0, 0).out(y, 0)
}

// Concat is torch.cat((a, b), dim=1), in the wider type of the two under autocast. The gradients are views of the
// incoming one, and copies for what has another type.
func (t *Tape) Concat(a, b T, l Label) T {
	y := t.fresh(a.numel+b.numel, promote(a.dtype, b.dtype), l)
	o := t.op(a, b)
	for k, x := range [2]T{a, b} {
		switch {
		case !o.needs(k):
		case x.dtype == y.dtype:
			o.act(act{verb: actPassView, edge: uint8(k)})
		default:
			o.alloc(k, x.bytes(), LabelInputGradient).send(k, k)
		}
	}
	return o.out(y, 0)
}
