package step

// What is added to scores: masks, and biases of positions that are learned, as kernels take them.

// WhereMask is torch.where(mask, bias, c) with numel elements, over which either may be broadcast. It keeps the mask.
func (t *Tape) WhereMask(mask, bias T, numel int64) T { return t.exec.whereMask(t, mask, bias, numel) }

func (eager) whereMask(t *Tape, mask, bias T, numel int64) T {
	least := t.fresh(1, bias.dtype, LabelAttentionMask)
	y := t.fresh(numel, bias.dtype, LabelAttentionMask)
	t.Drop(least)
	o := t.op(bias).save(mask)
	last := 0 // the register that holds the gradient
	o.alloc(1, bias.dtype.Size(), LabelAttentionMask).alloc(0, y.bytes(), LabelInputGradient).free(1)
	if bias.numel < numel {
		o.sumRows(2, y.dtype, numel/bias.numel, bias.numel, LabelReduction).free(0)
		last = 2
	}
	return o.send(last, 0).out(y, 0)
}

// attentionBias is a mask as the memory-efficient kernel adds it to scores of the type d, and autocast's copy of it,
// which lives as long as the call.
func (eager) attentionBias(t *Tape, mask T, d DType, h Heads) (bias, cast T) {
	n, keys := t.lengths(h)
	given, cast := mask, NoTensor
	if given.dtype != Bool {
		given = t.Cast(given, d, LabelAttentionMask)
		cast = given
	}
	bias = t.additive(given, d)
	if bias.RequiresGrad() {
		plain := bias
		bias = t.alignedBias(plain, n, keys, h.Query)
		t.Drop(plain)
	} else if keys%maskAlignment != 0 {
		// the kernel wants rows of a multiple of eight elements; others are padded and cut
		padded := t.fresh(mask.numel/keys*roundUp(keys, maskAlignment), d, LabelAttentionMask)
		t.Drop(bias)
		bias = padded
	}
	return bias, cast
}

// alignedBias is a bias with a gradient as the memory-efficient kernel takes it: rows of a multiple of eight elements,
// of which the padding is cut off again, shown to every sequence.
// Source: aten/src/ATen/native/transformers/attention.cpp (preprocess_mask, pad_bias), torch 2.9 and 2.15.
func (t *Tape) alignedBias(bias T, queries, keys, heads int64) T {
	x := t.Hold(bias)
	if keys%maskAlignment != 0 {
		wide := bias.numel / keys * roundUp(keys, maskAlignment)
		padded := t.fresh(wide, bias.dtype, LabelAttentionMask)
		padded = t.op(bias).alloc(0, bias.bytes(), LabelInputGradient).send(0, 0).out(padded, 0)
		t.Drop(x)
		padded.numel = bias.numel
		x = t.op(padded).alloc(0, wide*bias.dtype.Size(), LabelInputGradient).send(0, 0).out(padded, 0)
	}
	if every := t.Shape.Batch * heads * queries * keys; x.numel < every {
		x = t.op(x).sumRows(0, x.dtype, every/x.numel, x.numel, LabelReduction).send(0, 0).out(x, 0)
	}
	return x
}

// biasAlignment is to a multiple of how many elements the rows of a bias's gradient are padded.
// Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu (_efficient_attention_backward, alignTo),
// torch 2.9 and 2.15.
const biasAlignment = 16
