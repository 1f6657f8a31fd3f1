package arch

import "github.com/vramplan/vramplan/estimator/step"

// GatedMLP is down(activation(gate(x)) · up(x)).
type GatedMLP struct{ Gate, Up, Down Linear }

// BuildGatedMLP declares an MLP under the names that Llama and its likes use.
func BuildGatedMLP(b *Builder, path string, ffn int64, bias bool) GatedMLP {
	d := b.A.Hidden
	gate, up, down := "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"
	if path != "mlp" { // joining names for every layer shows in the time of an estimate
		gate, up, down = path+".gate_proj", path+".up_proj", path+".down_proj"
	}
	return GatedMLP{Gate: b.Linear(gate, d, ffn, bias), Up: b.Linear(up, d, ffn, bias),
		Down: b.Linear(down, ffn, d, bias)}
}

// OnMatrices is the MLP where it runs on matrices of tokens, not on batches of sequences.
func (m GatedMLP) OnMatrices() GatedMLP {
	m.Gate.Matrix, m.Up.Matrix, m.Down.Matrix = true, true, true
	return m
}

// Forward is the MLP applied to x.
func (m *GatedMLP) Forward(t *step.Tape, a *Architecture, x step.T) step.T {
	gate := m.Gate.Forward(t, x)
	if t.Recipe.Kernels.SwiGLU && a.Activation == "silu" {
		up := m.Up.Forward(t, x)
		product := t.SwiGLU(gate, up)
		t.Drop(gate, up)
		down := m.Down.Forward(t, product)
		t.Drop(product)
		return down
	}
	act := Activation(t, a.Activation, gate)
	t.Drop(gate)
	up := m.Up.Forward(t, x)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act, up)
	down := m.Down.Forward(t, product)
	t.Drop(product)
	return down
}
