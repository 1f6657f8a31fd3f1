package parallel

import "github.com/vramplan/vramplan/estimator/step"

// Ring is context parallelism as torchtitan takes it from torch.distributed.tensor: GPUs share each sequence, and the
// keys and values of all go around. Sources: torchtitan/train.py (forward_backward_step), 0.2.0;
// torch/distributed/tensor/experimental/_attention.py (context_parallel), torch 2.9.
type Ring struct {
	step.Strategy
	step.Ring
	// Table is the bytes of the rotary table of the whole sequence, of which each GPU needs its tokens'.
	Table int64
}

// Hooks are those of the embedded strategy and what is done where sequences are shared.
func (r Ring) Hooks(t *step.Tape) step.Hooks {
	return &ring{around: around{r.Strategy.Hooks(t), t}, cut: r}
}

type ring struct {
	around
	cut  Ring
	held []step.T // tokens, labels and table in the order of the GPUs, and what the table was
}

// BeforeForward puts the batch and the rotary table in the order in which GPUs have their pieces, and leaves this GPU's
// in their places, where a smaller one fits into the old one's memory; the table is new.
func (h *ring) BeforeForward(batch []step.T) []step.T {
	t, n := h.tape, h.cut.GPUs
	hold := func(bytes int64) {
		h.held = append(h.held, t.Input(bytes/step.F32.Size(), step.F32))
	}
	h.held = h.held[:0]
	hold(h.cut.Table)
	hold(t.Shape.Tokens * n * step.F32.Size()) // indices
	for _, x := range batch {
		h.held = append(h.held, t.Input(x.Numel(), x.Dtype()))
	}
	hold(h.cut.Table)
	for _, x := range batch {
		t.Drop(t.Input(x.Numel()/n, x.Dtype()))
	}
	hold(h.cut.Table / n)
	parts := make([]step.T, len(batch))
	for i, x := range batch {
		parts[i] = x.Part(n)
	}
	return h.around.BeforeForward(parts)
}

// EndBackward restores the table.
func (h *ring) EndBackward() {
	h.around.EndBackward()
	for i := range h.held {
		h.tape.Drop(h.held[(i+1)%len(h.held)])
	}
}

// Attend is the ring's.
func (h *ring) Attend(q, k, v step.T, heads step.Heads) step.T {
	return h.tape.RingAttention(q, k, v, heads, h.cut.Ring)
}
