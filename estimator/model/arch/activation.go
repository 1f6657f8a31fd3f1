package arch

import "github.com/vramplan/vramplan/estimator/step"

// Activation is ACT2FN[name](x).
func Activation(t *step.Tape, name string, x step.T) step.T {
	switch name {
	case "gelu_new":
		return t.NewGELU(x)
	case "relu":
		return t.ReLU(x)
	case "relu2":
		return t.SquaredReLU(x)
	case "silu":
		return t.SiLU(x)
	case "quick_gelu":
		return t.QuickGELU(x)
	}
	return t.GELU(x)
}
