package model

import "github.com/vramplan/vramplan/estimator/step"

// gatedMLP is down(activation(gate(x)) · up(x)).
type gatedMLP struct{ gate, up, down linear }

// buildGatedMLP declares an MLP under the names that Llama and its likes use.
func buildGatedMLP(b *builder, path string, ffn int64, bias bool) gatedMLP {
	d := b.a.Hidden
	gate, up, down := "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"
	if path != "mlp" { // joining names for every layer shows in the time of an estimate
		gate, up, down = path+".gate_proj", path+".up_proj", path+".down_proj"
	}
	return gatedMLP{gate: b.linear(gate, d, ffn, bias), up: b.linear(up, d, ffn, bias),
		down: b.linear(down, ffn, d, bias)}
}

// onMatrices is the MLP where it runs on matrices of tokens, not on batches of sequences.
func (m gatedMLP) onMatrices() gatedMLP {
	m.gate.matrix, m.up.matrix, m.down.matrix = true, true, true
	return m
}

func (m *gatedMLP) forward(t *step.Tape, a *Architecture, x step.T) step.T {
	gate := m.gate.forward(t, x)
	if t.Recipe.Kernels.SwiGLU && a.Activation == "silu" {
		up := m.up.forward(t, x)
		product := t.SwiGLU(gate, up)
		t.Drop(gate, up)
		down := m.down.forward(t, product)
		t.Drop(product)
		return down
	}
	act := activation(t, a.Activation, gate)
	t.Drop(gate)
	up := m.up.forward(t, x)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act, up)
	down := m.down.forward(t, product)
	t.Drop(product)
	return down
}
