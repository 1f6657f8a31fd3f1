package parallel

import "github.com/vramplan/vramplan/estimator/step"

// rankSlice is how much of a parameter a GPU updates.
type rankSlice struct{ rank, numel int64 }

// zero is what ZeRO does while a micro-step is recorded.
type zero struct {
	step.NoHooks
	ZeRO
	ranks    [][]rankSlice // by parameter
	order    []int32       // the trained parameters, as the optimizer has them
	held     int64         // bytes of the gradients that this GPU keeps
	grads    []int32       // by parameter: a whole gradient that is in no bucket
	cloned   []bool        // by parameter: that is a copy, made in the last micro-step
	pending  []int32       // parameters whose gradients are to be summed
	elements int64
	buffers  []int32
	ready    bool
	part     int32   // the gradients that this GPU keeps
	previous []int32 // parameters whose gradients go when the next bucket is summed
}

// place deals the parameters out.
func (h *zero) place(l zeroLayout) {
	index := map[*step.Parameter]int32{}
	for i := range h.Tape.Parameters {
		index[&h.Tape.Parameters[i]] = int32(i)
	}
	numel, d := l.held()
	h.held = numel * d.Size()
	for k := range l.groups {
		g := &l.groups[k]
		part := l.part(g)
		for i, at := range g.params {
			p := index[l.all[at]]
			h.order = append(h.order, p)
			for from, end := g.starts[i], g.starts[i]+l.all[at].Numel; from < end; {
				rank := from / part
				to := min(end, (rank+1)*part)
				h.ranks[p] = append(h.ranks[p], rankSlice{rank, to - from})
				from = to
			}
		}
	}
}

// late says that gradients are summed when backward is over.
func (h *zero) late() bool { return h.Whole && !h.Overlaps }

// GradientReady puts a gradient into the bucket, or keeps it until it may go there.
// Source: stage_1_and_2.py (process_gradients).
func (h *zero) GradientReady(p, s int32) {
	t := h.Tape
	h.begin()
	bytes := t.Parameters[p].Bytes()
	switch {
	case h.SumsLast() && t.SharedStorage(s):
		whole := t.HeldGradient(bytes)
		t.Release(s)
		s = whole
	case !t.Owned(s):
		fresh := t.Alloc(bytes, step.Gradients, step.LabelGradient)
		t.Release(s)
		s = fresh
		fallthrough
	default:
		t.Gradient(s)
		if h.SumsLast() {
			t.Becomes(s, step.Hold)
		}
	}
	h.grads[p] = s
	if !h.late() {
		h.lastly(func() { h.bucket(p) })
	}
}

// lastly lets f happen in the last micro-step only, where gradients stay whole until then.
func (h *zero) lastly(f func()) {
	from := h.Tape.Mark()
	f()
	if h.SumsLast() {
		h.Tape.Lastly(from)
	}
}

// begin makes the buffers before the first gradient.
// Source: stage_1_and_2.py (setup_buckets).
func (h *zero) begin() {
	if h.ready {
		return
	}
	h.ready = true
	n := 0
	if h.Contiguous {
		n = 1
		if h.Overlaps {
			n = 2
		}
	}
	t := h.Tape
	bytes := h.Bucket * t.Recipe.Stored.Size()
	for range n {
		if h.SumsLast() {
			h.buffers = append(h.buffers, t.Held(bytes, step.Communication, step.LabelReduceInput))
		} else {
			h.buffers = append(h.buffers, t.Alloc(bytes, step.Communication, step.LabelReduceInput))
		}
	}
}

// drop lets go of the whole gradient of parameter p.
func (h *zero) drop(p int32) {
	if s := h.grads[p]; s == step.None {
		return
	} else if h.SumsLast() && !h.cloned[p] {
		h.Tape.Event(s, step.FreeHeld)
	} else {
		h.Tape.Release(s)
	}
	h.grads[p], h.cloned[p] = step.None, false
}

// bucket copies the gradient of parameter p into the bucket, which is summed before where it has no room left. A larger
// one is summed as it is.
// Source: stage_1_and_2.py (reduce_independent_p_g_buckets_and_remove_grads).
func (h *zero) bucket(p int32) {
	n := h.Tape.Parameters[p].Numel
	if h.elements+n > h.Bucket {
		h.reduce()
	}
	switch {
	case h.Contiguous && n <= h.Bucket:
		h.drop(p)
	case h.Contiguous && h.OffloadsOptimizer:
		h.clone(p)
	}
	h.elements += n
	h.pending = append(h.pending, p)
}

// clone puts a copy of the gradient of p in its place, which nothing else writes over while it goes to the CPU.
// Source: stage_1_and_2.py (reduce_independent_p_g_buckets_and_remove_grads, _offload_gradient_safety_enabled).
func (h *zero) clone(p int32) {
	t := h.Tape
	fresh := t.Alloc(t.Parameters[p].Bytes(), step.Gradients, step.LabelGradient)
	h.drop(p)
	h.grads[p], h.cloned[p] = fresh, true
}

// toCPU takes the norm of this GPU's n elements of a gradient, in float64, and sends them to the CPU in the type of the
// masters, when the last micro-step's gradient is there.
// Source: stage_1_and_2.py (copy_grads_in_partition, set_norm_for_param_grad_in_gpu,
// async_inplace_copy_grad_to_fp32_buffer_from_gpu), runtime/utils.py (get_norm_dtype).
func (h *zero) toCPU(n int64) {
	t := h.Tape
	from := t.Mark()
	t.Release(h.aside(8*n, step.Communication, step.LabelReduceInput))
	if t.Recipe.Stored != step.F32 {
		t.Release(h.aside(4*n, step.Communication, step.LabelReduceInput))
	}
	if h.Accumulates {
		t.Lastly(from)
	}
}

// aside allocates where buckets are summed.
func (h *zero) aside(bytes int64, c step.Component, l step.Label) int32 {
	if h.Overlaps {
		return h.Tape.Aside(reduceStream, bytes, c, l)
	}
	return h.Tape.Alloc(bytes, c, l)
}

// reduce sums the bucket. What goes to several GPUs is flattened again, up to a bucket at once; what belongs to this
// one is kept. Source: stage_1_and_2.py (reduce_ipg_grads, average_tensor, allreduce_and_scatter,
// copy_grads_in_partition).
func (h *zero) reduce() {
	t := h.Tape
	d := t.Recipe.Stored.Size()
	flatten := func(elements int64, tensors int) {
		if tensors > 1 {
			t.Release(h.aside(elements*d, step.Communication, step.LabelReduceInput))
		}
	}
	switch {
	case !h.Contiguous:
		flatten(h.elements, len(h.pending))
	case h.Scatters:
		h.scatter(flatten)
	}
	for _, p := range h.previous {
		h.drop(p)
	}
	h.previous = h.previous[:0]
	for _, p := range h.pending {
		own := len(h.ranks[p]) > 0 && h.ranks[p][0].rank == 0
		switch {
		case own && h.Contiguous:
			if h.OffloadsOptimizer {
				h.toCPU(h.ranks[p][0].numel)
			} else if h.part == step.None {
				h.part = h.aside(h.held, step.Gradients, step.LabelGradient)
			}
			h.drop(p)
		case own && !h.OffloadsOptimizer:
			h.keep(p)
		case h.Overlaps && !h.Contiguous:
			h.previous = append(h.previous, p)
		case h.Whole: // nobody clears a gradient larger than the bucket before backward is over
		default:
			h.drop(p)
		}
	}
	h.pending, h.elements = h.pending[:0], 0
}

// keep leaves the whole gradient of p for the optimizer.
func (h *zero) keep(p int32) {
	s := h.grads[p]
	h.grads[p] = step.None
	if s != step.None && !h.SumsLast() {
		h.Tape.Stays(s)
	} else if s != step.None {
		h.Tape.Event(s, step.FreeHeld)
	}
}

// scatter flattens what goes to the same GPU in a row.
func (h *zero) scatter(flatten func(elements int64, tensors int)) {
	var rows []rankSlice
	for _, p := range h.pending {
		for _, s := range h.ranks[p] {
			if n := len(rows); n > 0 && rows[n-1].rank == s.rank {
				rows[n-1].numel += s.numel
			} else {
				rows = append(rows, s)
			}
		}
	}
	elements, tensors := int64(0), 0
	for _, s := range rows {
		elements += s.numel
		if tensors++; elements > h.Bucket {
			flatten(elements, tensors)
			elements, tensors = 0, 0
		}
	}
	flatten(elements, tensors)
}

// EndBackward sums what is left, and lets go of the buffers.
// Source: stage_1_and_2.py (independent_gradient_partition_epilogue).
func (h *zero) EndBackward() {
	t := h.Tape
	h.lastly(func() {
		if h.late() {
			for _, p := range h.order {
				if h.grads[p] != step.None {
					h.bucket(p)
				}
			}
		}
		h.reduce()
		for _, p := range h.previous {
			h.drop(p)
		}
		if h.Whole {
			for _, p := range h.order {
				h.drop(p)
			}
		}
		for _, b := range h.buffers {
			if h.SumsLast() {
				t.Event(b, step.FreeHeld)
			} else {
				t.Release(b)
			}
		}
		if h.part != step.None {
			t.Stays(h.part)
		}
	})
}
