package parallel

import "github.com/vramplan/vramplan/estimator/step"

// fromCPU brings this GPU's part of q from the CPU's memory, where it is there. NCCL has what it sends until somebody
// waits for it.
func (h *zero3) fromCPU(q *step.Parameter) int32 {
	if !h.OffloadsParameters {
		return step.None
	}
	return h.aside(gatherStream, h.part(q)*q.Dtype.Size(), step.Communication, step.LabelGatherInput)
}

// normed is how many elements of a gradient are brought to float64 at once for its norm.
const normed = 250_000_000

// toCPU is the copy on the GPU of this GPU's n elements of a gradient, which go to the CPU; in the last micro-step
// their norm is taken, and they follow in the type of the masters.
// Source: stage3.py (partition_grads, _offload_grad_partition_at_boundary, _constant_buffered_norm2).
func (h *zero3) toCPU(n int64) int32 {
	t := h.Tape
	held := h.aside(reduceStream, n*h.Sums.Size(), step.Gradients, step.LabelGradient)
	from := t.Mark()
	for left := n; left > 0; left -= normed {
		t.Release(h.aside(reduceStream, 8*min(left, normed), step.Communication, step.LabelReduceInput))
	}
	if h.Sums != step.F32 {
		t.Release(h.aside(reduceStream, 4*n, step.Communication, step.LabelReduceInput))
	}
	if h.Accumulates {
		t.Lastly(from)
	}
	return held
}
