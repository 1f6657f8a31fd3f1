package arch

import "github.com/vramplan/vramplan/estimator/step"

// decomposed is DoRA, which trains the length of every row of a weight apart from its direction: result, to which it
// adds (magnitude/norm − 1)·base(x) + magnitude/norm·lora_B(lora_A(x))·scaling. In training with dropout the base is
// computed once more, from the input that is left. Sources: peft/tuners/lora/variants.py (DoraLinearVariant.forward),
// dora.py (DoraLinearLayer.forward), 0.21.
func (m *adapter) decomposed(t *step.Tape, base *Linear, x, result step.T) step.T {
	x = t.Dropout(x, m.dropout)
	delta, saved := t.AdapterProduct(m.down, m.up)
	delta = recast(t, delta, x.Dtype())
	weight := recast(t, t.Dequantised(base.W, base.Quantised), x.Dtype())
	norm := t.SumNorm(weight, delta, m.up.Rows, base.Transposed)
	scale := t.DivideBy(t.Parameter(m.magnitude), norm, step.LabelAdapter)
	update := m.update(t, t.Hold(x), base)

	var plain step.T
	switch {
	case m.dropout > 0 && !t.Recipe.Evaluation:
		plain = t.Times(x, weight, m.down.Cols, base.Matrix, step.LabelLinear)
	case base.B.Exists():
		plain = t.Add(result, t.Parameter(base.B), step.LabelLinear)
	default:
		plain = t.Hold(result)
	}
	excess := t.AddScalar(scale, step.LabelAdapter)
	direction := t.Mul(excess, plain, false, step.LabelAdapter)
	t.Drop(excess)
	broadcast := t.View(t.Hold(scale)) // what its gradient is summed into comes back as a view
	scaled := t.Mul(broadcast, update, false, step.LabelAdapter)
	t.Drop(broadcast)
	length := t.MulScalar(scaled, step.LabelAdapter)
	t.Drop(scaled)
	added := t.Add(direction, length, step.LabelAdapter)
	t.Drop(append(saved, direction, length, plain, update, scale, norm, weight, delta)...)
	sum := t.Add(result, added, step.LabelLinear)
	t.Drop(added, x)
	return sum
}

// recast is x = x.to(d).
func recast(t *step.Tape, x step.T, d step.DType) step.T {
	y := t.Cast(x, d, step.LabelAdapter)
	t.Drop(x)
	return y
}
