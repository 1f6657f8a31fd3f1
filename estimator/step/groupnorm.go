package step

// Grouped is how a GroupNorm's input lies.
type Grouped struct {
	// Groups are the groups that the channels make.
	Groups int64
	// Scattered says that the input does not lie channel by channel, so that it is copied first.
	Scattered bool
	// GradientScattered says the same of the gradient of the output.
	GradientScattered bool
}

// GroupNorm is nn.GroupNorm over x, a picture for each sequence of the batch, with as many channels as w has rows;
// float32 under autocast, which casts the arguments from the last to the first. It keeps its input, the gain and two
// statistics of each group, in the type of the input. Forward takes a factor and a summand of each channel in float32
// besides, backward five sums: two of each channel, two of each group, and again one of each channel.
// Sources: aten/src/ATen/native/cuda/group_norm_kernel.cu (GroupNormKernelImplInternal,
// GroupNormBackwardKernelImplInternal), aten/src/ATen/autocast_mode.h (AT_FORALL_FP32), torch 2.9.
func (t *Tape) GroupNorm(x T, w, b Weight, g Grouped) T {
	bias := t.autocastTo(t.Parameter(b), F32, LabelWeightCopy)
	weight := t.autocastTo(t.Parameter(w), F32, LabelWeightCopy)
	input := t.wholeCast(x)
	batch := t.Shape.Batch
	dense := NoTensor
	if g.Scattered {
		dense = t.fresh(input.numel, input.dtype, LabelContiguous)
	}
	y := t.fresh(input.numel, input.dtype, LabelNormOutput)
	mean := t.fresh(batch*g.Groups, input.dtype, LabelNormStatistics)
	rstd := t.fresh(batch*g.Groups, input.dtype, LabelNormStatistics)
	factor := t.fresh(batch*w.Rows, F32, LabelNormStatistics)
	summand := t.fresh(batch*w.Rows, F32, LabelNormStatistics)
	t.Drop(summand, factor)
	o := t.op(input, weight, bias).save(input, weight, mean, rstd)
	o.groupNormGradient(input, weight, bias, batch, g)
	y = o.out(y, 0)
	t.Drop(mean, rstd, dense, input, weight, bias)
	return y
}

// wholeCast is x in float32 where autocast asks for it. Its gradient has as many elements as x, whatever part of a
// wider tensor it may be added to.
func (t *Tape) wholeCast(x T) T {
	if !t.autocast || x.dtype == F32 {
		return t.Hold(x)
	}
	y := t.fresh(x.numel, F32, LabelCast)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).sendSized(0, 0, x.bytes()).out(y, 0)
}

// sendSized hands register r to input k, which has so many bytes.
func (o op) sendSized(r, k int, bytes int64) op {
	return o.act(act{verb: actSend, route: route{uint8(r), uint8(k)}, bytes: bytes})
}

// groupNormGradient is native_group_norm_backward.
func (o op) groupNormGradient(input, weight, bias T, batch int64, g Grouped) {
	const gradInput, gradWeight, gradBias, copied, scratch = 0, 1, 2, 3, 4
	if o.i == None {
		return
	}
	if g.GradientScattered {
		o.alloc(copied, input.bytes(), LabelContiguous)
	}
	ins := [3]T{input, weight, bias}
	for k, label := range [...]Label{LabelInputGradient, LabelWeightGradient, LabelWeightGradient} {
		if o.needs(k) {
			o.alloc(k, ins[k].bytes(), label)
		}
	}
	perChannel, perGroup := batch*weight.numel*F32.Size(), batch*g.Groups*F32.Size()
	for k, bytes := range [...]int64{perChannel, perChannel, perGroup, perGroup, perChannel} {
		o.alloc(scratch+k, bytes, LabelReduction)
	}
	for _, k := range [...]int{3, 2, 4, 1, 0} {
		o.free(scratch + k)
	}
	if g.GradientScattered {
		o.free(copied)
	}
	for _, k := range [...]int{gradInput, gradWeight, gradBias} {
		if o.needs(k) {
			o.sendSized(k, k, ins[k].bytes())
		}
	}
}
