package model

import "github.com/vramplan/vramplan/estimator/step"

// chunked is out(act(gate)·up) on the halves of what in returns, which stay to the end.
func chunked(t *step.Tape, act string, in, out linear, x step.T) step.T {
	both := in.forward(t, x)
	gate, up := t.SplitHalves(both)
	t.Drop(both)
	opened := activation(t, act, gate)
	product := t.Mul(opened, up, false, step.LabelActivation)
	t.Drop(opened)
	y := out.forward(t, product)
	t.Drop(product, gate, up)
	return y
}
