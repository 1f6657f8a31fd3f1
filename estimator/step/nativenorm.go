package step

// NativeRMSNorm is nn.RMSNorm, which PyTorch computes in one kernel since 2.9. It keeps its input, the gain and one
// float32 statistic a row. Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (_fused_rms_norm_cuda), torch 2.9.
func (t *Tape) NativeRMSNorm(x T, w Weight) T { return t.nativeRMSNorm(x, w, false) }

// StridedRMSNorm is the same of x that does not lie densely: the kernel copies it before it starts, in forward and
// again in backward.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous), torch 2.9.
func (t *Tape) StridedRMSNorm(x T, w Weight) T { return t.nativeRMSNorm(x, w, true) }

func (t *Tape) nativeRMSNorm(x T, w Weight, copies bool) T {
	gain := t.Parameter(w)
	rows := x.numel / w.Rows
	if copies {
		defer t.Drop(t.fresh(x.numel, x.dtype, LabelContiguous))
	}
	y := t.fresh(x.numel, x.dtype, LabelNormOutput)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	o := t.op(x, gain).save(x, rstd)
	const copied = 9
	if copies {
		o.alloc(copied, x.bytes(), LabelContiguous)
	}
	if o.needs(0) {
		o.alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	}
	if o.needs(1) {
		o.alloc(1, gain.bytes(), LabelWeightGradient).send(1, 1)
	}
	o.tallNorm(2, rows, w.Rows, x.dtype)
	if copies {
		o.free(copied)
	}
	y = o.out(y, 0)
	t.Drop(rstd)
	return y
}
