package step

// execution is how the operations of a model run: one after the other, as PyTorch runs them by itself (eager), or in
// the kernels that Inductor makes of a graph of them (inductor). Operations ask it where the two differ, by kind; what
// they do alike is the tape's own.
type execution interface {
	elementwise
	// norm is n of rows of width elements.
	norm(t *Tape, n *norm, x T, w, b Weight, width int64) T
}

// eager runs every operation as it comes: each writes its result, keeps what its backward reads, and casts and copies
// are operations like others.
type eager struct{}

// inductor is torch.compile around the model. What it does not say of itself runs as it does eagerly.
type inductor struct{ eager }

// elementwise are the operations that Inductor fuses into the kernels that read their results.
type elementwise interface {
	// pointwise is p of x.
	pointwise(t *Tape, x T, p pointwise) T
	// inSteps is an activation of x that written writes out step by step.
	inSteps(t *Tape, x T, written func(*Tape, T) T) T
	// relu is F.relu.
	relu(t *Tape, x T) T
	// add is a + b; unbatched says that b has no batch dimension. addInPlace is a += b, and takes over a.
	add(t *Tape, a, b T, unbatched bool, l Label) T
	addInPlace(t *Tape, a, b T) T
	// mul is a * b of n elements, where rows says that the smaller one has a value for each row.
	mul(t *Tape, a, b T, n int64, rows bool, l Label) T
	// scaleInPlace is x *= c, and takes over x.
	scaleInPlace(t *Tape, x T) T
	// pow is x ** c.
	pow(t *Tape, x T, l Label) T
	// clamp is torch.clamp(x, min, max).
	clamp(t *Tape, x T) T
	// masked is p of x, which keeps the mask.
	masked(t *Tape, x, mask T, p pointwise) T
	// dropout is x without what mask leaves out.
	dropout(t *Tape, x, mask T) T
}

// pointwise is an operation whose elements each come from one element of its input. It says what the eager kernel
// writes and keeps; a fused one is made again wherever it is read, from whatever it was computed.
type pointwise struct {
	form
	label Label
	keeps keeps
	// gradient names the tensor that backward makes; where it names none, the arriving gradient goes on.
	gradient Label
}

// keeps is what the backward of a pointwise operation reads beside the arriving gradient.
type keeps uint8

const (
	keepsNothing keeps = iota
	keepsInput
	keepsResult
)

func (eager) pointwise(t *Tape, x T, p pointwise) T {
	y := t.fresh(x.numel, p.dtype, p.label)
	y.layout = p.layout
	o := t.op(x)
	switch p.keeps {
	case keepsInput:
		o.save(x)
	case keepsResult:
		o.save(y)
	}
	if p.gradient == LabelNone {
		return o.pass(0, 0).out(y, 0)
	}
	return o.alloc(0, x.bytes(), p.gradient).send(0, 0).out(y, 0)
}

func (eager) masked(t *Tape, x, mask T, p pointwise) T {
	y := t.fresh(x.numel, p.dtype, p.label)
	return t.op(x).save(mask).alloc(0, x.bytes(), p.gradient).send(0, 0).out(y, 0)
}

// execution is how the recipe runs what is in the model.
func (r *Recipe) execution() execution {
	if r.Compile {
		return inductor{}
	}
	return eager{}
}
