package step

// Convolution is nn.Conv1d or nn.Conv2d over x: w has a row for each output channel and a column for each input that
// one output sees, positions is how many outputs a channel has. It keeps its input and the weight. Behind a convolution
// whose channels are put last, transposed, the gradient arrives as a view, and is laid out first.
//
// cuDNN works in a buffer of its own choice, which is taken for none. It has no bfloat16 for cards before Ampere, which
// take the columns of one input at a time and a matrix product. Source: aten/src/ATen/native/Convolution.cpp
// (use_cudnn), cuda/detail/CUDAHooks.cpp (supportsBFloat16ConvolutionWithCuDNNv8), cuda/ConvolutionMM2d.cu, torch 2.9
// and 2.15.
func (t *Tape) Convolution(x T, w, b Weight, positions int64, transposed bool) T {
	return t.convolution(x, w, b, positions, gradientLayout{transposed: transposed}, LabelEmbedding)
}

// PictureConvolution is nn.Conv2d inside a network of pictures. scattered says that the gradient arrives as a part of
// a wider one, so that each of the two products lays it out for itself.
// Source: aten/src/ATen/native/cudnn/ConvShared.cpp (cudnn_convolution_backward_input,
// cudnn_convolution_backward_weight), torch 2.9.
func (t *Tape) PictureConvolution(x T, w, b Weight, positions int64, scattered bool) T {
	return t.convolution(x, w, b, positions, gradientLayout{scattered: scattered}, LabelConvolution)
}

// gradientLayout is how the gradient of a convolution's output arrives: as a view that puts the channels last, as a
// part of a wider tensor, or as the output lies.
type gradientLayout struct{ transposed, scattered bool }

func (t *Tape) convolution(x T, w, b Weight, positions int64, arrives gradientLayout, l Label) T {
	bias := NoTensor
	if b.Exists() {
		bias = t.weight(b)
	}
	weight := t.weight(w)
	input := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	y := T{storage: None, edge: noEdge, form: plain(input.dtype), numel: t.Shape.Batch * w.Rows * positions}
	columns := int64(0)
	if !t.lastSaves(2) {
		y = t.fresh(y.numel, input.dtype, l)
		if input.dtype == BF16 && t.Recipe.ComputeCapability < ampere {
			columns = w.Cols * positions * input.dtype.Size()
			buffer := t.fresh(columns/input.dtype.Size(), input.dtype, LabelElementwise)
			t.workspace()
			t.Drop(buffer)
		}
	}
	ins := []T{input, weight}
	if b.Exists() {
		ins = append(ins, bias)
	}
	o := t.op(ins...).save(input, weight)
	o.convolutionGradient(input, y, w, b.Exists(), arrives, columns)
	y = o.out(y, 0)
	t.Drop(input, weight, bias)
	return y
}

// convolutionGradient is convolution_backward. columns is the size of the buffer of columns, 0 without.
func (o op) convolutionGradient(input, y T, w Weight, bias bool, arrives gradientLayout, columns int64) {
	const gradInput, gradWeight, gradBias, contiguous, buffer, part = 0, 1, 2, 3, 4, 5
	if o.i == None {
		return
	}
	bias = bias && o.needs(2)
	if arrives.transposed {
		o.alloc(contiguous, y.bytes(), LabelContiguous)
	}
	if o.needs(0) {
		o.alloc(gradInput, input.bytes(), LabelInputGradient)
		if arrives.scattered {
			o.alloc(part, y.bytes(), LabelContiguous).free(part)
		}
	}
	if columns > 0 {
		if o.needs(0) {
			o.alloc(buffer, columns, LabelElementwise).workspace()
		}
		if bias {
			o.sumChannels(gradBias, y, w.Rows)
		}
	}
	if o.needs(1) {
		if arrives.scattered {
			o.alloc(part, y.bytes(), LabelContiguous)
		}
		o.alloc(gradWeight, w.Rows*w.Cols*y.dtype.Size(), LabelWeightGradient)
		if arrives.scattered {
			o.free(part)
		}
	}
	if columns > 0 {
		if !o.needs(0) {
			o.workspace().alloc(buffer, columns, LabelElementwise)
		}
		o.free(buffer)
	}
	if arrives.transposed {
		o.free(contiguous)
	}
	switch {
	case columns > 0 || !bias:
	case arrives.transposed:
		o.sumRows(gradBias, y.dtype, y.numel/w.Rows, w.Rows, LabelWeightGradient)
	default:
		o.sumChannels(gradBias, y, w.Rows)
	}
	if o.needs(0) {
		o.sendSized(gradInput, 0, input.bytes())
	}
	if o.needs(1) {
		o.send(gradWeight, 1)
	}
	if bias {
		o.send(gradBias, 2)
	}
}

// sumChannels allocates register r for the sum of each channel of y, whose outputs lie side by side.
func (o op) sumChannels(r int, y T, channels int64) {
	o.alloc(r, channels*y.dtype.Size(), LabelWeightGradient)
	if scratch, semaphores := o.t.Recipe.Reduction(OverCols, channels, y.numel/channels); scratch > 0 {
		o.alloc(maxRegs-1, scratch, LabelReduction).alloc(maxRegs-2, semaphores,
			LabelReduction).free(maxRegs - 2).free(maxRegs - 1)
	}
}

// NoTensor is a tensor that does not exist.
var NoTensor = T{storage: None, edge: noEdge}

// Repeated is a parameter of one row, expanded to a row for every sequence: a view, whose gradient is summed again. The
// gradient of a single sequence is a view as it arrives, of more than the parameter's own, and is taken over so.
// Source: torch/csrc/autograd/functions/accumulate_grad.h (accumulateGrad), torch 2.9.
func (t *Tape) Repeated(w Weight) T {
	if t.Shape.Batch > 1 {
		return t.RepeatedVector(w)
	}
	p := t.Parameter(w)
	return t.op(p).act(act{verb: actPassPart}).out(p, 0)
}

// RepeatedVector is a parameter without a dimension for sequences, expanded to a row for each of them: its gradient is
// summed even where there is one.
func (t *Tape) RepeatedVector(w Weight) T {
	p := t.Parameter(w)
	y := p
	y.numel *= t.Shape.Batch
	return t.op(p).sumRows(0, p.dtype, t.Shape.Batch, p.numel, LabelReduction).send(0, 0).out(y, 0)
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
			o.act(act{verb: actPassView, route: route{edge: uint8(k)}})
		default:
			o.alloc(k, x.bytes(), LabelInputGradient).send(k, k)
		}
	}
	return o.out(y, 0)
}

// JoinParts is torch.cat of tensors of one type along their last dimension, whose gradients are views of the incoming
// one.
func (t *Tape) JoinParts(parts ...T) T {
	var numel int64
	for _, x := range parts {
		numel += x.numel
	}
	y := t.fresh(numel, parts[0].dtype, LabelContiguous)
	o := t.op(parts...)
	for k := range parts {
		if o.needs(k) {
			o.act(act{verb: actPassView, route: route{edge: uint8(k)}})
		}
	}
	return o.out(y, 0)
}
