package step

// Inners are what hooks do besides where a module inside a layer is a unit of its own, as torchtitan deals out experts
// that GPUs share. Source: torchtitan/models/llama4/infra/parallelize.py (apply_fsdp), 0.2.0.
type Inners interface {
	// BeforeInner is the input x of the unit inside a layer as it sees it, which the caller lets go of; AfterInner
	// takes over what it returned. Layers are counted from 1.
	BeforeInner(layer int, x T) T
	AfterInner(layer int, y T) T
}

// InnerUnit runs the unit inside a layer on x, which it borrows.
func (t *Tape) InnerUnit(layer int, x T, run func(x T) T) T {
	h, ok := hooksAs[Inners](t.hooks)
	if !ok {
		return run(x)
	}
	seen := h.BeforeInner(layer, x)
	y := h.AfterInner(layer, run(seen))
	t.Drop(seen)
	return y
}

// Reruns says that a layer is run again for its backward.
func (t *Tape) Reruns() bool { return t.recompute }
