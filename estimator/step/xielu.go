package step

import "github.com/vramplan/vramplan/estimator/release"

// XIELU is XIELUActivation as PyTorch's own operations run it, which is where the package xielu is not installed:
//
//	where(x > 0, p·x·x + beta·x, (expm1(min(x, eps)) - x)·n + beta·x)
//
// with p = softplus(alpha_p) and n = beta + softplus(alpha_n), parameters of one element. Under autocast softplus and
// expm1 are float32, and with them what they are multiplied with.
// Source: transformers/activations.py (XIELUActivation._xielu_python), 4.57 and 5.23.
func (t *Tape) XIELU(x T, alphaP, alphaN Weight) T {
	p := t.softplus(t.Parameter(alphaP))
	soft := t.softplus(t.Parameter(alphaN))
	n := t.AddScalar(soft, LabelElementwise)
	t.Drop(soft)
	positive := t.fresh(x.numel, Bool, LabelActivation)
	above := t.aboveZero(x, p)
	below := t.belowZero(x, n)
	y := t.choice(positive, above, below)
	t.Drop(positive, above, below, p, n)
	return y
}

// softplus keeps its input.
func (t *Tape) softplus(x T) T {
	x32 := t.autocastTo(x, F32, LabelCast)
	y := t.exec.pointwise(t, x32, activation(x32))
	t.Drop(x32)
	return y
}

func (t *Tape) aboveZero(x, p T) T {
	scaled := t.Mul(p, x, false, LabelActivation)
	square := t.Mul(scaled, x, false, LabelActivation)
	t.Drop(scaled)
	linear := t.MulScalar(x, LabelActivation)
	y := t.Add(square, linear, LabelActivation)
	t.Drop(square, linear)
	return y
}

func (t *Tape) belowZero(x, n T) T {
	least := t.atMost(x)
	e := t.expm1(least)
	t.Drop(least)
	less := t.Subtract(e, x, LabelActivation)
	t.Drop(e)
	scaled := t.Mul(less, n, false, LabelActivation)
	t.Drop(less)
	linear := t.MulScalar(x, LabelActivation)
	y := t.Add(scaled, linear, LabelActivation)
	t.Drop(scaled, linear)
	return y
}

// masksMinimumFirst makes the mask of what is not the least first in the backward of torch.minimum.
var masksMinimumFirst = release.Declare("masks-minimum-first", release.Change{
	Library: "torch", After: "2.9", From: "2.15",
	What:   "the backward of torch.minimum makes the mask of what is not the least first in torch 2.15, before it last",
	Source: "tools/autograd/derivatives.yaml (minimum), as traces of 2.9.1 and 2.15.0 order its operations",
	Shown:  "traces of Apertus",
})

// atMost is torch.min(x, c) with a tensor c, which keeps x: where they are equal the gradient is halved.
func (t *Tape) atMost(x T) T {
	y := t.fresh(x.numel, x.dtype, LabelActivation)
	const result, above, half, equal = 0, 1, 2, 3
	o := t.op(x).save(x)
	if t.Recipe.Software.Has(masksMinimumFirst) {
		o.alloc(above, x.numel, LabelElementwise)
	}
	o.alloc(half, x.bytes(), LabelInputGradient).alloc(equal, x.numel, LabelElementwise).
		alloc(result, x.bytes(), LabelInputGradient)
	if t.Recipe.Software.Has(masksMinimumFirst) {
		o.free(equal).free(half).free(above)
	} else {
		o.alloc(above, x.numel, LabelElementwise).free(above).free(equal).free(half)
	}
	return o.send(result, 0).out(y, 0)
}

// expm1 is torch.expm1(x), which keeps its result; float32 under autocast.
func (t *Tape) expm1(x T) T {
	x32 := t.autocastTo(x, F32, LabelCast)
	y := t.fresh(x32.numel, x32.dtype, LabelActivation)
	y = t.op(x32).save(y).alloc(1, x32.bytes(), LabelElementwise).alloc(0, x32.bytes(), LabelInputGradient).
		free(1).send(0, 0).out(y, 0)
	t.Drop(x32)
	return y
}

// choice is torch.where(mask, a, b), which keeps the mask: of the gradient zeros take the place of what was not chosen.
func (t *Tape) choice(mask, a, b T) T {
	y := t.fresh(a.numel, a.dtype, LabelActivation)
	o := t.op(a, b).save(mask)
	for k := range 2 {
		o.alloc(2, y.dtype.Size(), LabelElementwise).alloc(k, y.bytes(), LabelInputGradient).free(2)
	}
	return o.send(0, 0).send(1, 1).out(y, 0)
}
