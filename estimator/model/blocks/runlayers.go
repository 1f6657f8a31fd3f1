package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// RunLayers takes over x and runs n layers on it; every layer gets besides, too.
func RunLayers(t *step.Tape, a *arch.Architecture, n int, x step.T, besides step.Besides,
	layer func(t *step.Tape, i int, x step.T) step.T) step.T {
	return RunLayersWith(t, a, n, x, func(int) step.Besides { return besides }, layer)
}

// RunLayersWith is RunLayers where layers differ in what they get.
func RunLayersWith(t *step.Tape, a *arch.Architecture, n int, x step.T, besides func(i int) step.Besides,
	layer func(t *step.Tape, i int, x step.T) step.T) step.T {
	unit := int(a.UnitLayers())
	for i := range n {
		x = t.Layer(int32(i/unit), x, func(t *step.Tape, x step.T) step.T { return layer(t, i, x) }, besides(i))
	}
	t.EndLayers()
	return x
}
