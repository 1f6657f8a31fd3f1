package step

// Kernels are the fused kernels that stand in for operations of the model's own code and save fewer tensors.
// A fused sum of bias, dropout and residual keeps what the operations apart keep, and so has no switch here.
type Kernels struct {
	RMSNorm, LayerNorm, Rotary, SwiGLU, BiasGELU, Softmax, LoRA, DeltaRule bool
}

// Applied is what of a recipe a recorded program made use of.
type Applied struct {
	Kernels Kernels
	// Dropout says that some operation dropped elements outside of attention's own kernels.
	Dropout bool
	// CuDNN says that attention was cuDNN's.
	CuDNN bool
}

// fusedRMSNorm keeps its input and a float32 scale for every row, and writes the gradient of its input over that of its
// output. Where the gain is trained, every multiprocessor sums up a part of its gradient.
// Sources: liger_kernel/ops/rms_norm.py (rms_norm_forward, rms_norm_backward), Liger-Kernel 0.6;
// unsloth/kernels/rms_layernorm.py (Fast_RMS_Layernorm, main branch), which leaves the gain untrained and, for Gemma
// alone, writes the gradient to a tensor of its own, which is not followed here.
func (t *Tape) fusedRMSNorm(x T, w Weight) T {
	t.Applied.Kernels.RMSNorm = true
	gain := t.Parameter(w)
	y := t.fresh(x.numel, x.dtype, LabelNormOutput)
	rstd := t.fresh(x.numel/w.Rows, F32, LabelNormStatistics)
	o := t.op(x, gain).save(x, rstd)
	if o.needs(1) {
		o.alloc(1, t.Recipe.Multiprocessors*w.Rows*4, LabelReduction).sumRows(2, F32, t.Recipe.Multiprocessors, w.Rows,
			LabelReduction)
		if gain.dtype != F32 {
			o.alloc(3, gain.bytes(), LabelWeightGradient).free(2)
		}
		o.free(1)
	}
	if o.needs(0) {
		o.act(act{verb: actPassView})
	}
	switch {
	case o.needs(1) && gain.dtype != F32:
		o.send(3, 1)
	case o.needs(1):
		o.send(2, 1)
	}
	y = o.out(y, 0)
	t.Drop(rstd)
	return y
}

// fusedLayerNorm is LayerNorm in the type of its input also under autocast.
// Source: liger_kernel/ops/layer_norm.py (layer_norm_forward, layer_norm_backward), Liger-Kernel 0.6.
func (t *Tape) fusedLayerNorm(x T, w, b Weight) T {
	t.Applied.Kernels.LayerNorm = true
	ins := []T{x, t.Parameter(w)}
	if b.Exists() {
		ins = append(ins, t.Parameter(b))
	}
	rows := x.numel / w.Rows
	y := t.fresh(x.numel, x.dtype, LabelNormOutput)
	mean, rstd := t.fresh(rows, F32, LabelNormStatistics), t.fresh(rows, F32, LabelNormStatistics)
	o := t.op(ins...).save(x, mean, rstd)
	if o.needs(0) {
		o.alloc(0, x.bytes(), LabelInputGradient)
	}
	for k := 1; k < len(ins); k++ {
		if o.needs(k) {
			o.alloc(k+2, t.Recipe.Multiprocessors*ins[k].bytes(), LabelReduction).
				alloc(k, ins[k].bytes(), LabelWeightGradient).free(k + 2)
		}
	}
	for k := range ins {
		if o.needs(k) {
			o.send(k, k)
		}
	}
	y = o.out(y, 0)
	t.Drop(mean, rstd)
	return y
}

// FusedRope turns queries and keys where they lie, and their gradients likewise; copyQueries and copyKeys say which of
// these arrive in another layout. It keeps the tables. Sources: liger_kernel/ops/rope.py (rope_forward, rope_backward),
// Liger-Kernel 0.6; unsloth/kernels/rope_embedding.py (Fast_RoPE_Embedding).
func (t *Tape) FusedRope(q, k, cos, sin T, copyQueries, copyKeys bool) (qr, kr T) {
	t.Applied.Kernels.Rotary = true
	o := t.op(q, k).save(cos, sin)
	copied := [...]bool{copyQueries, copyKeys}
	for i, x := range [...]T{q, k} {
		if copied[i] {
			o.alloc(i, x.bytes(), LabelContiguous)
		}
	}
	for i := range copied {
		if copied[i] {
			o.send(i, i)
		} else {
			o.act(act{verb: actPassView, route: route{uint8(i), uint8(i)}})
		}
	}
	return o.out(t.Hold(q), 0), o.out(t.Hold(k), 1)
}

// SwiGLU is silu(gate) · up in one kernel, which writes the gradients of both over what it kept of them.
// Source: liger_kernel/ops/swiglu.py (LigerSiLUMulFunction), Liger-Kernel 0.6.
func (t *Tape) SwiGLU(gate, up T) T {
	t.Applied.Kernels.SwiGLU = true
	y := t.fresh(gate.numel, gate.dtype, LabelActivation)
	return t.op(gate, up).save(gate, up).sendSaved(0, 0).sendSaved(1, 1).out(y, 0)
}

// fusedSoftmax is the softmax of scaled and masked scores in half precision; its gradient is written over the one that
// arrives. It takes over scores.
// Source: megatron/core/fusions/fused_softmax.py (ScaledMaskedSoftmax, main branch), which keeps the result. That its
// CUDA extension writes over the gradient is assumed, and so is that it takes every size: Megatron-LM falls back for
// lengths above 4,096 or no multiple of 4.
func (t *Tape) fusedSoftmax(scores T) T {
	t.Applied.Kernels.Softmax = true
	p := t.fresh(scores.numel, scores.dtype, LabelAttentionProbabilities)
	p = t.op(scores).save(p).pass(0, 0).out(p, 0)
	t.Drop(scores)
	return p
}

// FusedAdapter is x·W + scaling·dropout(x)·A·B in one autograd function, which casts A and B for the moment only and
// keeps x and, with dropout, what that left of x. q says how the layer's own weight is stored. Source:
// fms_acceleration_foak/fused_ops/unsloth_lora/bnb/fast_lora.py (LoRA_W) and utils.py (matmul_lora), which took them
// from unsloth and added the dropout.
func (t *Tape) FusedAdapter(x T, base Weight, q Quantisation, down, up Weight, dropout float64) T {
	t.Applied.Kernels.LoRA = true
	a, b := t.Parameter(down), t.Parameter(up)
	rank, in, out := down.Rows, down.Cols, up.Rows
	rows := x.numel / in
	bytes, scaleBytes := t.unpacked(base, q)
	d := x.dtype
	if t.autocast {
		d = t.Recipe.Compute
	}
	scale := T{storage: t.Alloc(scaleBytes, t.component(), LabelDequantised)}
	w := T{storage: t.Alloc(bytes, t.component(), LabelDequantised)}
	t.Drop(scale)
	xc := t.castInside(x, d)
	y := t.fresh(rows*out, d, LabelLinear)
	t.workspace()
	t.Drop(xc, w)
	input := t.Hold(x)
	if dropout > 0 {
		t.Drop(input)
		mask := t.fresh(x.numel, Bool, LabelDropoutMask)
		input = t.fresh(x.numel, x.dtype, LabelDropout)
		t.Drop(mask)
	}
	downCopy := t.fresh(a.numel, d, LabelWeightCopy)
	xc = t.castInside(input, d)
	low := t.fresh(rows*rank, d, LabelAdapter)
	upCopy := t.fresh(b.numel, d, LabelWeightCopy)
	delta := t.fresh(rows*out, d, LabelAdapter)
	t.Drop(downCopy, xc, low, upCopy, delta)
	size := d.Size()
	o := t.op(x, a, b).save(x, input)
	o.alloc(3, rows*rank*size, LabelAdapter).alloc(1, a.bytes(), LabelGradient).free(3).
		alloc(3, rows*rank*size, LabelAdapter).alloc(2, b.bytes(), LabelGradient).free(3)
	o.alloc(4, scaleBytes, LabelDequantised).alloc(5, bytes, LabelDequantised).free(4).
		alloc(0, x.bytes(), LabelInputGradient).workspace().free(5)
	if dropout > 0 { // (dropped != 0) · delta
		o.alloc(6, x.numel, LabelDropoutMask).alloc(7, x.bytes(), LabelAdapter).alloc(8, x.bytes(), LabelAdapter).
			free(8).free(7).free(6)
	} else {
		o.alloc(7, x.bytes(), LabelAdapter).free(7)
	}
	y = o.send(0, 0).send(1, 1).send(2, 2).out(y, 0)
	t.Drop(input)
	return y
}

// castInside is x in the type d inside an autograd function, which records nothing.
func (t *Tape) castInside(x T, d DType) T {
	if x.dtype == d {
		return t.Hold(x)
	}
	return t.fresh(x.numel, d, LabelCast)
}

// unpacked is the bytes that the weight w takes when it is dequantised, and those of its scales meanwhile, which double
// quantisation makes from theirs.
func (t *Tape) unpacked(w Weight, q Quantisation) (bytes, scale int64) {
	p := t.Parameter(w)
	switch q {
	case NotQuantised:
		return 0, 0
	case NF4Double:
		scale = 4 * scales(p.numel)
	}
	return p.bytes(), scale
}
