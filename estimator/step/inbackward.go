package step

import "github.com/vramplan/vramplan/estimator/step/alloc"

// An optimizer in backward updates each parameter as soon as its gradient is there, and lets go of it: what it
// allocates is part of the micro-step's program. Source: torch/csrc/autograd/functions/accumulate_grad.cpp (the hooks
// after accumulation), torch 2.9; torchtune 0.6 (training/memory.py, register_optim_in_bwd_hooks) runs an optimizer for
// each parameter in them.

// Updates is an optimizer that can update one parameter by itself.
type Updates interface {
	// UpdateOne allocates on heap what the update of p takes; states go to heap's Keep.
	UpdateOne(heap alloc.Keeping, r *Recipe, p *Parameter)
}

// recordingHeap writes what an optimizer asks for into a tape's program.
type recordingHeap struct{ t *Tape }

func (h recordingHeap) Alloc(bytes int64) int32 {
	return h.t.Alloc(bytes, Temporaries, LabelOptimizerScratch)
}

func (h recordingHeap) Free(handle int32) { h.t.Release(handle) }

// Keep is state, which is allocated once.
func (h recordingHeap) Keep(bytes int64) {
	t := h.t
	t.Prog.Slots[t.slot(AllocOnce, bytes, OptimizerState, LabelOptimizerState)].Part = 0
}

// updateNow runs the optimizer on parameter p, whose gradient is storage s, and lets go of that.
func (t *Tape) updateNow(p, s int32) {
	st := &t.storages[s]
	grad := s
	switch {
	case st.part:
	case st.refs == 1:
		t.Prog.Slots[st.slot].Component = Gradients
	default:
		grad = t.Alloc(t.params[p].numel*t.params[p].dtype.Size(), Gradients, LabelGradient)
		t.Release(s)
	}
	t.Recipe.Updates.UpdateOne(recordingHeap{t}, &t.Recipe, &t.Parameters[p])
	t.Release(grad)
}
