package step

// Sinks are what hooks do besides with what the model returns, where its class is wrapped in another.
type Sinks interface {
	// Sink is the loss as the loop gets it; it may put others into the outputs' places.
	Sink(loss T, outputs []T) T
}

// CloneOutputs copies the loss and the outputs, of which one may be the loss. The originals go when all copies are
// made. What is in a cache, an object that is not looked into, stays as it is.
func (t *Tape) CloneOutputs(loss T, outputs []T) T {
	clone := func(x T) T {
		y := t.fresh(x.numel, x.dtype, t.Label(x))
		y.layout = x.layout
		return t.op(x).pass(0, 0).out(y, 0)
	}
	old := append([]T{loss}, outputs...)
	loss = clone(loss)
	for i, x := range outputs {
		switch {
		case t.inCache(x):
			old[i+1] = NoTensor
		case x.Shares(old[0]):
			outputs[i] = t.Hold(loss)
		default:
			outputs[i] = clone(x)
		}
	}
	for _, x := range old {
		if x != NoTensor {
			t.Drop(x)
		}
	}
	return loss
}
