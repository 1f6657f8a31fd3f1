package step

// Slice is x[..., a:b], numel elements of it: a view, whose gradient is put into zeros as large as x.
func (t *Tape) Slice(x T, numel int64) T {
	part := t.Hold(x)
	part.numel = numel
	return t.exec.slice(t, x, part)
}

func (eager) slice(t *Tape, x, part T) T {
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(part, 0)
}

// JoinHeads is torch.cat((a, b), dim=-1) of two parts of heads, which writes its result with the heads outermost. A
// part gets a view of the gradient, in its own type. Source: torch/csrc/autograd/FunctionsManual.cpp
// (cat_tensors_backward), torch 2.9.
func (t *Tape) JoinHeads(a, b T) T {
	return t.exec.combined(t, a, b, combination{a.numel + b.numel, promote(a.dtype, b.dtype), LabelRotary, joinHeads})
}

func joinHeads(t *Tape, a, b, y T) T {
	y.layout = headsFirst
	o := t.op(a, b)
	for k, x := range [...]T{a, b} {
		if x.dtype == y.dtype {
			o.pass(0, k)
		} else {
			o.alloc(k, x.bytes(), LabelInputGradient).send(k, k)
		}
	}
	return o.out(y, 0)
}

// SplitHalves is x.chunk(2, dim=-1): views, whose gradients meet in one tensor.
func (t *Tape) SplitHalves(x T) (first, second T) {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	half := func(i int) T {
		p := t.Hold(x)
		p.numel = x.numel / 2
		return o.out(p, i)
	}
	return half(0), half(1)
}

// HeadsNorm is nn.LayerNorm over the elements of each head of x, which is a transposed view: the kernel copies
// that before it starts, in forward and again in backward.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous), torch 2.9.
func (t *Tape) HeadsNorm(x T, w, b Weight) T { return t.exec.norm(t, headsNorm, x, w, b, w.Rows) }

func (t *Tape) headsNorm(x T, w, b Weight, width int64) T {
	input := t.autocastTo(x, F32, LabelCast)
	weight, bias := t.Parameter(w), t.Parameter(b)
	rows := input.numel / width
	dense := t.fresh(input.numel, input.dtype, LabelContiguous)
	y := t.fresh(input.numel, input.dtype, LabelNormOutput)
	mean := t.fresh(rows, F32, LabelNormStatistics)
	rstd := t.fresh(rows, F32, LabelNormStatistics)
	t.Drop(dense)
	o := t.op(input, weight, bias).save(input, mean, rstd)
	o.alloc(3, input.bytes(), LabelContiguous)
	if o.needs(0) {
		o.alloc(0, input.bytes(), LabelInputGradient).send(0, 0)
	}
	for k, p := range [...]T{1: weight, 2: bias} {
		if k > 0 && o.needs(k) {
			o.alloc(k, p.bytes(), LabelWeightGradient).send(k, k)
		}
	}
	o.tallNorm(3, rows, width, input.dtype)
	o.free(3)
	y = o.out(y, 0)
	t.Drop(mean, rstd, input)
	return y
}
