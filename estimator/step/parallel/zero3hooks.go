package parallel

import "github.com/vramplan/vramplan/estimator/step"

// zero3 is what ZeRO-3 does while a micro-step is recorded.
type zero3 struct {
	step.NoHooks
	ZeRO3
	whole     []int32           // by parameter: the gathered one
	grads     []int32           // by parameter: a whole gradient that is in no bucket
	saved     map[int32][]int32 // by node: the parameters that its backward needs
	kept      map[int32][]int32 // by node: gathered parameters that it saved
	using     int32             // the parameter of the operation that runs, counted from 1
	usingNode int32
	live      int64   // elements that are gathered
	pending   []int32 // parameters whose gradients are in the bucket
	elements  int64

	rehearses bool
	order     []int32 // the uses of a step
	next      []int   // by use: the next of the same parameter
	before    []int64 // by use: elements of all uses before
	at        int     // the present use
	fetched   int     // up to where uses were looked at ahead
}

// plan takes over the order of uses.
func (h *zero3) plan(order []int32) {
	h.order, h.next, h.before = order, make([]int, len(order)), make([]int64, len(order)+1)
	later := map[int32]int{}
	for i := len(order) - 1; i >= 0; i-- {
		h.next[i] = len(order)
		if k, ok := later[order[i]]; ok {
			h.next[i] = k
		}
		later[order[i]] = i
	}
	for i, p := range order {
		h.before[i+1] = h.before[i] + h.Tape.Parameters[p].Numel
	}
}

// Use fetches parameter p for an operation; what the one before used may go.
func (h *zero3) Use(p int32) {
	h.leave()
	h.fetch(p)
	h.using = p + 1
}

// leave releases what the last operation of a forward used.
func (h *zero3) leave() {
	if h.using > 0 {
		h.release(h.using-1, h.usingNode)
	}
	h.using, h.usingNode = 0, 0
}

// Saves notes the node that needs parameters again.
func (h *zero3) Saves(node int32, params []int32) {
	h.saved[node] = append(h.saved[node][:0], params...)
	delete(h.kept, node)
	h.usingNode = node + 1
}

// BeforeBackward fetches what the backward of a node needs.
func (h *zero3) BeforeBackward(node int32) {
	h.leave()
	for _, p := range h.saved[node] {
		h.fetch(p)
	}
}

// AfterNode releases it again.
func (h *zero3) AfterNode(node int32) {
	h.leave()
	for _, s := range h.kept[node] {
		h.Tape.Release(s)
	}
	delete(h.kept, node)
	for _, p := range h.saved[node] {
		h.release(p, 0)
	}
	delete(h.saved, node)
}

// fetch puts p together, and starts to do so with those that come next.
// Source: partitioned_param_coordinator.py (fetch_sub_module).
func (h *zero3) fetch(p int32) {
	if h.rehearses {
		h.Tape.Order = append(h.Tape.Order, p)
		return
	}
	h.gather(p)
	h.at++
	h.ahead()
}

// ahead starts to put together what comes next. Source: partitioned_param_coordinator.py (_fetch_sub_module_impl).
func (h *zero3) ahead() {
	h.fetched = max(h.fetched, h.at)
	most := min(h.Live-h.live, h.Prefetch)
	for ahead := int64(0); h.fetched < len(h.order) && ahead < most; h.fetched++ {
		if q := h.order[h.fetched]; h.gather(q) {
			ahead += h.Tape.Parameters[q].Numel
		}
	}
}

// bareModules are those of a layer without parameters, of which each starts to put together what comes next, too: the
// layer, attention, MLP and its activation. Source: transformers/models/llama/modeling_llama.py, transformers 4.57.
// GPT-2 and GPT-NeoX have more, dropouts among them, which are not counted: they look ahead more often than is
// replayed.
const bareModules = 4

// BeforeUnit is where those of a layer look ahead.
func (h *zero3) BeforeUnit(unit int, x step.T, graph bool) step.T {
	if !h.rehearses {
		for range bareModules {
			h.ahead()
		}
	}
	return h.NoHooks.BeforeUnit(unit, x, graph)
}

// gather puts p together unless it is; it says whether it was not.
func (h *zero3) gather(p int32) bool {
	q := &h.Tape.Parameters[p]
	if h.whole[p] != step.None || h.persists(q) || q.Buffer {
		return false
	}
	h.whole[p] = h.Tape.Aside(gatherStream, h.part(q)*h.World*q.Dtype.Size(), step.Weights, step.LabelGathered)
	h.live += q.Numel
	return true
}

// release lets go of p, unless it is needed again soon or was looked at already for what comes. node is that which
// saved the gathered parameter, counted from 1. Source: partitioned_param_coordinator.py (__params_to_release).
func (h *zero3) release(p, node int32) {
	if h.rehearses || h.whole[p] == step.None {
		return
	}
	if next := h.next[h.at-1]; h.order[h.at-1] == p && next < len(h.order) &&
		(next < h.fetched || h.before[next]-h.before[h.at] < h.Reuse) {
		return
	}
	if h.Keeps && node > 0 && h.Tape.Parameters[p].Matrix() {
		h.kept[node-1] = append(h.kept[node-1], h.whole[p])
	} else {
		h.Tape.Release(h.whole[p])
	}
	h.whole[p] = step.None
	h.live -= h.Tape.Parameters[p].Numel
}

// GradientReady puts a whole gradient into the bucket, which is summed before where it has no room left. A larger one
// is summed as it is. Source: stage3.py (reduce_independent_p_g_buckets_and_remove_grads, __add_grad_to_ipg_bucket).
func (h *zero3) GradientReady(p, s int32) {
	t := h.Tape
	n := t.Parameters[p].Numel
	if !t.Owned(s) {
		fresh := t.Alloc(t.Parameters[p].Bytes(), step.Gradients, step.LabelGradient)
		t.Release(s)
		s = fresh
	}
	t.Gradient(s)
	if h.elements+n > h.Bucket {
		h.reduce()
	}
	if h.Contiguous && h.elements+n <= h.Bucket {
		t.Release(s)
	} else {
		h.grads[p] = s
	}
	h.elements += n
	h.pending = append(h.pending, p)
}

// reduce sums the bucket: gradients of several parameters are dealt into one more buffer, by GPU.
// Source: stage3.py (__reduce_and_partition_ipg_grads), runtime/comm/coalesced_collectives.py
// (reduce_scatter_coalesced).
func (h *zero3) reduce() {
	t := h.Tape
	if len(h.pending) > 1 {
		t.Release(t.Aside(reduceStream, h.elements*t.Recipe.Stored.Size(), step.Communication, step.LabelReduceInput))
	}
	for _, p := range h.pending {
		t.Release(h.grads[p])
		h.grads[p] = step.None
	}
	h.pending, h.elements = h.pending[:0], 0
}

// EndEvaluation lets go of all parameters, which in fact stay until those of the next step go.
func (h *zero3) EndEvaluation() {
	h.leave()
	for p, s := range h.whole {
		h.Tape.Release(s)
		h.whole[p] = step.None
	}
}

// EndBackward sums what is left and lets go of all parameters.
func (h *zero3) EndBackward() {
	h.leave()
	h.reduce()
	for p, s := range h.whole {
		h.Tape.Release(s)
		h.whole[p] = step.None
	}
	for _, all := range h.kept {
		for _, s := range all {
			h.Tape.Release(s)
		}
	}
}
