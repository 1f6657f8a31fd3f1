package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// Chunked is out(act(gate)·up) on the halves of what in returns, which stay to the end.
func Chunked(t *step.Tape, act string, in, out arch.Linear, x step.T) step.T {
	both := in.Forward(t, x)
	gate, up := t.SplitHalves(both)
	t.Drop(both)
	opened := arch.Activation(t, act, gate)
	product := t.Mul(opened, up, false, step.LabelActivation)
	t.Drop(opened)
	y := out.Forward(t, product)
	t.Drop(product, gate, up)
	return y
}
