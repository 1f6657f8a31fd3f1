package step

import "github.com/vramplan/vramplan/estimator/step/alloc"

// OneGPU is no strategy at all: the GPU holds the whole job, and every hook does what PyTorch does by itself.
type OneGPU struct{}

// Parts are all parameters.
func (OneGPU) Parts(whole Parameters, _ *[]Parameter) Parameters { return whole }

// Load moves the model module by module.
func (OneGPU) Load(r *Rank, heap alloc.Heap) { r.Parts.load(heap) }

// LoadPeak is what the weights take, or more where they are loaded otherwise than they are stored.
func (OneGPU) LoadPeak(r *Rank, _ int64) int64 { return r.Parts.loadPeak() }

// BeforeFirstForward does nothing.
func (OneGPU) BeforeFirstForward(*Rank, alloc.Heap) {}

// NextStep does nothing.
func (OneGPU) NextStep(*Rank, alloc.Heap) {}

// Stays is nothing.
func (OneGPU) Stays(*Rank, func(int64, Component)) {}

// SumsLast is false: there is nothing to sum.
func (OneGPU) SumsLast() bool { return false }

// Clip is the arithmetic of scalars in clip_grad_norm_.
// Source: torch/nn/utils/clip_grad.py (_clip_grads_with_norm_), torch 2.9.
func (OneGPU) Clip(heap alloc.Heap, total int32, size int64) {
	sum := heap.Alloc(size)
	inverse := heap.Alloc(size)
	coefficient := heap.Alloc(size)
	heap.Free(inverse)
	heap.Free(sum)
	clamped := heap.Alloc(size)
	heap.Free(coefficient)
	heap.Free(clamped)
	heap.Free(total)
}

// Update is none of its own.
func (OneGPU) Update(*Rank, alloc.Heap, Updating) bool { return false }

// Irregular is false.
func (OneGPU) Irregular() bool { return false }

// Rehearses is false.
func (OneGPU) Rehearses() bool { return false }

// LoadYields is false.
func (OneGPU) LoadYields() bool { return false }

// Hooks are those of a tape.
func (OneGPU) Hooks(t *Tape) Hooks {
	t.alone.Tape = t
	return &t.alone
}

// NoHooks do nothing but what a GPU alone does. Hooks of a strategy embed them for the moments that they leave alone.
type NoHooks struct{ Tape *Tape }

// BeforeForward is the batch itself.
func (h NoHooks) BeforeForward(batch []T) []T {
	for _, x := range batch {
		h.Tape.Hold(x)
	}
	return batch
}

// AfterForward is the loss.
func (NoHooks) AfterForward(loss T, _ []T) T { return loss }

// BeforeUnit is x.
func (h NoHooks) BeforeUnit(_ int, x T, _ bool) T { return h.Tape.Hold(x) }

// AfterUnit is y.
func (NoHooks) AfterUnit(_ int, y T, _ bool) T { return y }

// BeforeRerun is x.
func (h NoHooks) BeforeRerun(_ int, x T) T { return h.Tape.Hold(x) }

// AfterRerun is y.
func (NoHooks) AfterRerun(_ int, y T) T { return y }

// Returned is d.
func (NoHooks) Returned(d DType) DType { return d }

// BeforeBackward does nothing.
func (NoHooks) BeforeBackward(int32) {}

// AfterBackward does nothing.
func (NoHooks) AfterBackward(int) {}

// GradientReady is AccumulateGrad: a gradient that nobody else refers to is taken over as it is, another one is copied;
// from the second micro-step on it is added to the one that is there.
// Source: torch/csrc/autograd/functions/accumulate_grad.h, torch 2.9.
func (h NoHooks) GradientReady(p, s int32) {
	t := h.Tape
	st := &t.storages[s]
	switch {
	case st.part:
		t.Release(s)
	case st.refs == 1:
		t.Gradient(s)
		t.Stays(s)
	default:
		t.slot(AllocFirst, t.params[p].numel*t.params[p].dtype.Size(), Gradients, LabelGradient)
		t.Release(s)
	}
}

// GradientStream is the one that computes.
func (NoHooks) GradientStream() uint8 { return 0 }

// EndBackward does nothing.
func (NoHooks) EndBackward() {}
