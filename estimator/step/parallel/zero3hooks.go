package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// zero3 is what ZeRO-3 does while a micro-step is recorded.
type zero3 struct {
	step.NoHooks
	ZeRO3
	grads    []int32           // by parameter: a whole gradient that is in no bucket
	saved    map[int32][]int32 // by node: the parameters that its backward needs
	kept     map[int32][]int32 // by node: gathered parameters that it saved
	using    []use             // what the operation that runs has used
	within   bool              // a module computes by itself
	began    int               // the first use of such a module
	quiet    map[int32]bool    // nodes of such a module that use nothing that is dealt out
	pending  []int32           // parameters whose gradients are in the bucket
	elements int64

	own    coordinator
	beside coordinator  // of an engine that a model beside the trained one has
	now    *coordinator // whose model a pass runs through
	// generates says that everything is there, and nobody looks at what is used.
	generates bool
	interruption
}

// interruption is what a forward leaves that comes between the forward of a graph and its backward: modules count the
// gradients of their inputs, each forward begins the count anew, and a module that counts none is never done. What it
// used stays until backward has ended. So does what is frozen and used where a layer runs again, which is put down to
// the module that is at work, here one that is never done. Sources: parameter_offload.py
// (_post_backward_module_hook), partitioned_param_coordinator.py (_fetch_sub_module_impl, update_recompute_parameters,
// release_backward_leftovers).
type interruption struct {
	graphed, interrupted bool
	open                 map[int32]bool // nodes of modules that such a forward leaves undone
	stuck                map[int32]bool // parameters that stay
}

// begins is the beginning of a forward of the trained model's engine.
func (i *interruption) begins(graph bool) {
	i.interrupted = i.interrupted || i.graphed
	i.graphed = i.graphed || graph
}

// remembered is what the coordinators know when a micro-step has ended.
type remembered struct{ own, beside trace }

// Equal says that two of them know the same.
func (r remembered) Equal(other step.Rehearsed) bool {
	o, ok := other.(remembered)
	return ok && r.own.equal(&o.own) && r.beside.equal(&o.beside)
}

// BeginPass turns to the coordinator of the model that is passed through.
func (h *zero3) BeginPass(beside bool, first int32, parameters []step.Parameter) {
	h.leave()
	h.now = &h.own
	if beside {
		h.beside.deal(first, parameters)
		h.beside.prefetch, h.beside.persistence = h.BesidePrefetch, h.BesidePersistence
		h.now = &h.beside
	}
}

// EndPass lets go of what the last operation used.
func (h *zero3) EndPass() {
	h.leave()
	h.now = &h.own
}

// BeforeForward is a hook of every forward of the engine's module. Source: parameter_offload.py
// (_start_of_forward_hook).
func (h *zero3) BeforeForward(batch []step.T) []step.T {
	if !h.generates {
		h.leave()
		if h.now == &h.own {
			h.begins(h.Tape.Graphed())
		}
		h.reset(h.now)
		h.Bare(outerModules)
	}
	return h.NoHooks.BeforeForward(batch)
}

// BeginGeneration puts all parameters together, as trl does (GatheredParameters), and takes the hooks off the modules.
// Source: trl/models/utils.py (unwrap_model_for_generation), 0.26.
func (h *zero3) BeginGeneration() {
	h.leave()
	for p := range h.own.parameters {
		if h.away(&h.own, int32(p)) { // one by one, on the stream that computes (_allgather_params_coalesced)
			q := &h.own.parameters[p]
			h.own.whole[p] = h.Tape.Alloc(h.part(q)*h.World*q.Dtype.Size(), step.Weights, step.LabelGathered)
		}
	}
	h.generates = true
}

// EndGeneration deals them out again. Hooks that are put on anew forget the order of uses.
// Source: parameter_offload.py (_register_deepspeed_module).
func (h *zero3) EndGeneration() {
	h.generates = false
	for p := range h.own.parameters {
		h.letGo(&h.own, int32(p))
	}
	h.own.trace = trace{}
	h.remember()
}

// remember leaves what the coordinators know to the hooks of the next recording.
func (h *zero3) remember() {
	h.Tape.Rehearsed = remembered{h.own.known(), h.beside.known()}
}

// Use fetches parameter p for an operation; what the one before used may go.
func (h *zero3) Use(p int32) {
	if h.generates {
		return
	}
	if !h.within {
		h.leave()
	}
	h.fetch(p)
	h.using = append(h.using, use{p: p})
	if h.interrupted && h.Tape.Reruns() && h.now.of(p).Frozen {
		h.stuck[p] = true
	}
}

// leave releases what the last operation of a forward used.
func (h *zero3) leave() {
	for _, u := range h.using {
		h.release(u.p, u.node)
	}
	h.using = h.using[:0]
}

// Saves notes the node that needs parameters again.
func (h *zero3) Saves(node int32, params []int32) {
	h.saved[node] = append(h.saved[node][:0], params...)
	delete(h.kept, node)
	keeps := h.Keeps
	if h.within {
		keeps = true
		h.quiet[node] = !slices.ContainsFunc(params, h.dealt)
	}
	for i := range h.using {
		if keeps && slices.Contains(params, h.using[i].p) {
			h.using[i].node = node + 1
		}
	}
	h.open[node] = !h.Tape.Reruns() && !h.Tape.Checkpointed()
}

// BeforeBackward fetches what the backward of a node needs.
func (h *zero3) BeforeBackward(node int32) {
	h.leave()
	for _, p := range h.saved[node] {
		h.fetch(p)
	}
	if !h.quiet[node] {
		h.Operated()
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
		if h.interrupted && h.open[node] {
			h.stuck[p] = true
		}
		h.release(p, 0)
	}
	delete(h.saved, node)
}

// fetch puts p together, and starts to do so with those that come next.
// Source: partitioned_param_coordinator.py (fetch_sub_module).
func (h *zero3) fetch(p int32) {
	c := h.now
	if c.mode == complete && (c.at >= len(c.order) || c.order[c.at] != p) { // another order than the one that it knows
		h.land(c)
		c.trace = trace{}
	}
	if c.mode == recording {
		c.order, c.ends = append(c.order, p), append(c.ends, false)
	}
	h.gather(c, p)
	h.await(c, p)
	if c.mode == complete {
		c.at++
		if c.ends[c.at-1] {
			h.ahead()
		}
	}
}

// away says that p is dealt out, and not on its way.
func (h *zero3) away(c *coordinator, p int32) bool {
	q := c.of(p)
	return c.whole[p-c.first] == step.None && c.flying[p-c.first] == nil && q.Numel >= c.persistence && !q.Buffer
}

// aside allocates on a stream of its own where communication overlaps, and else on the one that computes.
// Source: parameter_offload.py (__allgather_stream), stage3.py (reduce_and_partition_stream).
func (h *zero3) aside(stream uint8, bytes int64, c step.Component, l step.Label) int32 {
	if h.Overlaps {
		return h.Tape.Aside(stream, bytes, c, l)
	}
	return h.Tape.Alloc(bytes, c, l)
}

// gather starts to put those of params together that are away: one in a tensor that is the parameter, several in one
// buffer. Source: partition_parameters.py (_all_gather_sequential, _all_gather_dtype).
func (h *zero3) gather(c *coordinator, params ...int32) {
	b := &bundle{buffer: step.None, part: step.None}
	bytes := int64(0)
	for _, p := range params {
		if h.away(c, p) {
			q := c.of(p)
			b.params = append(b.params, p)
			bytes += h.part(q) * h.World * q.Dtype.Size()
			c.live += q.Numel
		}
	}
	switch len(b.params) {
	case 0:
		return
	case 1:
		c.whole[b.params[0]-c.first] = h.aside(gatherStream, bytes, step.Weights, step.LabelGathered)
		b.landed = true
		b.part = h.fromCPU(c.of(b.params[0]))
	default:
		b.buffer = h.aside(gatherStream, bytes, step.Communication, step.LabelGatherOutput)
		var parts []int32
		for _, p := range b.params {
			parts = append(parts, h.fromCPU(c.of(p)))
		}
		for _, s := range parts { // which are put one behind the other
			h.Tape.Release(s)
		}
	}
	b.left = len(b.params)
	for _, p := range b.params {
		c.flying[p-c.first] = b
	}
}

// await waits for p. All that came in one buffer is copied out of it then; the buffer goes when everything in it was
// waited for. Source: partition_parameters.py (AllGatherCoalescedHandle.wait).
func (h *zero3) await(c *coordinator, p int32) {
	b := c.flying[p-c.first]
	if b == nil {
		return
	}
	h.Tape.Release(b.part)
	b.part = step.None
	if !b.landed {
		for _, q := range b.params {
			of := c.of(q)
			c.whole[q-c.first] = h.aside(gatherStream, of.Numel*of.Dtype.Size(), step.Weights, step.LabelGathered)
		}
		b.landed = true
	}
	c.flying[p-c.first] = nil
	if b.left--; b.left == 0 {
		h.Tape.Release(b.buffer)
	}
}

// letGo deals p out again.
func (h *zero3) letGo(c *coordinator, p int32) {
	h.await(c, p)
	h.Tape.Release(c.whole[p-c.first])
	c.whole[p-c.first] = step.None
}

// land lets go of what was brought and that nobody has waited for.
func (h *zero3) land(c *coordinator) {
	for i, b := range c.flying {
		if b != nil {
			h.letGo(c, c.first+int32(i))
			c.live -= c.parameters[i].Numel
		}
	}
}

// release lets go of p, unless it is needed again soon or was looked at already for what comes. node is that which
// saved the gathered parameter, counted from 1. Source: partitioned_param_coordinator.py (__params_to_release).
func (h *zero3) release(p, node int32) {
	c := h.now
	whole := c.whole[p-c.first]
	if whole == step.None || h.stuck[p] {
		return
	}
	if c.mode == complete && c.order[c.at-1] == p {
		next := c.next[c.at-1]
		if next < len(c.order) && (next < c.fetched || c.before[next]-c.before[c.at] < h.Reuse) {
			return
		}
	}
	if node > 0 && c.of(p).Matrix() {
		h.kept[node-1] = append(h.kept[node-1], whole)
		c.whole[p-c.first] = step.None
	} else {
		h.letGo(c, p)
	}
	c.live -= c.of(p).Numel
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
	buffer := step.None
	if len(h.pending) > 1 {
		buffer = h.aside(reduceStream, h.elements*t.Recipe.Stored.Size(), step.Communication,
			step.LabelReduceInput)
	}
	var parts []int32
	for _, p := range h.pending {
		if h.OffloadsOptimizer {
			parts = append(parts, h.toCPU(h.part(&t.Parameters[p])))
		}
		t.Release(h.grads[p])
		h.grads[p] = step.None
	}
	for _, s := range parts {
		t.Release(s)
	}
	t.Release(buffer)
	h.pending, h.elements = h.pending[:0], 0
}

// EndEvaluation lets go of all parameters, which in fact stay until those of the next step go.
func (h *zero3) EndEvaluation() {
	h.leave()
	h.releaseAll()
	h.remember()
}

// releaseAll lets go of all parameters of the trained model.
func (h *zero3) releaseAll() {
	for p := range h.own.parameters {
		h.letGo(&h.own, int32(p))
	}
}

// EndBackward sums what is left and lets go of all parameters.
func (h *zero3) EndBackward() {
	h.leave()
	h.reduce()
	h.releaseAll()
	for _, all := range h.kept {
		for _, s := range all {
			h.Tape.Release(s)
		}
	}
	h.remember()
}
