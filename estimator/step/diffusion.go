package step

// What the transformers of diffusion pipelines do otherwise than those of language.

// NormRows is nn.LayerNorm over rows of width elements, without gain and bias; float32 under autocast. It keeps its
// input and two float32 statistics a row. Rows whose elements do not lie side by side are copied before the kernel
// starts, in forward and again in backward.
// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous), torch 2.9.
func (t *Tape) NormRows(x T, width int64, transposed bool) T {
	input := t.autocastTo(x, F32, LabelCast)
	rows := input.numel / width
	dense := NoTensor
	if transposed {
		dense = t.fresh(input.numel, input.dtype, LabelContiguous)
	}
	y := t.fresh(input.numel, input.dtype, LabelNormOutput)
	mean, rstd := t.fresh(rows, F32, LabelNormStatistics), t.fresh(rows, F32, LabelNormStatistics)
	t.Drop(dense)
	o := t.op(input).save(input, mean, rstd)
	if transposed {
		o.alloc(1, input.bytes(), LabelContiguous)
	}
	o.alloc(0, input.bytes(), LabelInputGradient)
	if transposed {
		o.free(1)
	}
	y = o.send(0, 0).out(y, 0)
	t.Drop(mean, rstd, input)
	return y
}

// Chunks is x.chunk(n): views, whose gradients are joined in one tensor.
func (t *Tape) Chunks(x T, n int64) []T {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	parts := make([]T, n)
	for i := range parts {
		parts[i] = o.out(t.Hold(x).Part(n), i)
	}
	return parts
}

// Sinusoids are the sines and cosines of a number for each picture, with the cosines brought to the front.
// Source: diffusers/models/embeddings.py (get_timestep_embedding), 0.39.
func (t *Tape) Sinusoids(pictures, channels int64) T {
	half := pictures * channels / 2
	frequencies := t.Input(channels/2, F32)
	angles := t.Input(half, F32)
	sin, cos := t.Input(half, F32), t.Input(half, F32)
	both := t.Input(2*half, F32)
	t.Drop(cos, sin, angles)
	turned := t.Input(2*half, F32)
	t.Drop(both, frequencies)
	return turned
}

// SplitTokens is x.split([first, second], dim=1), each part laid out densely: of one picture they lie so already.
func (t *Tape) SplitTokens(x T, first, second, pictures int64) (a, b T) {
	o := t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	part := func(i int, tokens int64) T {
		p := t.Hold(x)
		p.numel = x.numel / (first + second) * tokens
		p = o.out(p, i)
		if pictures == 1 {
			return p
		}
		dense := t.Contiguous(p)
		t.Drop(p)
		return dense
	}
	a = part(0, first)
	return a, part(1, second)
}

// SliceTokens is x[:, :first] and x[:, first:]: views, each with a gradient as large as x, which is zero elsewhere.
// Source: torch/csrc/autograd/FunctionsManual.cpp (slice_backward), torch 2.9.
func (t *Tape) SliceTokens(x T, first, second int64) (a, b T) {
	part := func(tokens int64) T {
		p := t.Hold(x)
		p.numel = x.numel / (first + second) * tokens
		return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(p, 0)
	}
	a = part(first)
	return a, part(second)
}

// JoinHeadsOutermost is torch.cat of a and b, heads of two sequences, behind each other: a copy with the heads
// outermost.
func (t *Tape) JoinHeadsOutermost(a, b T) T {
	y := t.Concat(a, b, LabelContiguous)
	y.layout = headsFirst
	return y
}

// JoinColumns is torch.cat of what attention returned with b along the columns. The gradient of the former comes as
// columns of a wider tensor, and attention's backward lays it out densely first.
// Source: aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_bwd), torch 2.9.
func (t *Tape) JoinColumns(attended, b T) T {
	a := t.relaid(t.Hold(attended))
	y := t.Concat(a, b, LabelActivation)
	t.Drop(a)
	return y
}

// RotaryPairs turns neighbours of each head by the angles of the token's place, in float32.
// Source: diffusers/models/embeddings.py (apply_rotary_emb with use_real_unbind_dim -1), 0.39.
func (t *Tape) RotaryPairs(x, cos, sin T) T {
	negated := t.fresh(x.numel/2, x.dtype, LabelRotary)
	turned := t.fresh(x.numel, x.dtype, LabelRotary)
	t.Drop(negated)
	turned = t.op(x).alloc(0, x.bytes()/2, LabelElementwise).alloc(1, x.bytes(), LabelInputGradient).free(0).
		send(1, 0).out(turned, 0)
	wide := t.Float(x, LabelCast)
	a := t.Mul(wide, cos, false, LabelRotary)
	t.Drop(wide)
	wide = t.Float(turned, LabelCast)
	b := t.Mul(wide, sin, false, LabelRotary)
	t.Drop(wide)
	sum := t.Add(a, b, LabelRotary)
	t.Drop(a, b)
	y := t.Cast(sum, x.dtype, LabelRotary)
	t.Drop(sum, turned)
	return y
}

// AttendAll is scaled_dot_product_attention of so many pictures' tokens, each of which sees all others of its picture.
func (t *Tape) AttendAll(q, k, v T, h Heads, pictures int64) T {
	shape := t.Shape
	t.Shape = Shape{Batch: pictures, Tokens: h.Queries}
	y := t.TokensFirst(t.SDPA(q, k, v, h, nil, 0), h, false)
	t.Shape = shape
	return y
}

// Relaid is x with its elements in another order: a copy, whose gradient is copied back.
func (t *Tape) Relaid(x T) T {
	y := t.fresh(x.numel, x.dtype, LabelContiguous)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}
