package step

// SquaredReLU is F.relu(x) squared. Source: transformers/activations.py (ReLUSquaredActivation), 4.57.
func (t *Tape) SquaredReLU(x T) T {
	positive := t.ReLU(x)
	y := t.Pow(positive, LabelActivation)
	t.Drop(positive)
	return y
}
