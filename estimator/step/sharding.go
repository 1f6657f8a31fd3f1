package step

import "slices"

// Sharding is how fully_shard (FSDP2) spreads the parameters, their gradients and the optimizer's state over GPUs: of every
// parameter each GPU holds a part of the first dimension. A layer is put together when its forward or its backward comes, and
// its gradients are summed, each GPU keeping its part, as soon as its backward is over.
// Source: torch/distributed/fsdp/_fully_shard, 2.9.
type Sharding struct {
	// World is how many GPUs there are; nothing is sharded below two.
	World int64
	// Stored is the type of the parts, Reduced that in which gradients are summed. Recipe.Stored is the type in which
	// parameters are gathered and computed with.
	Stored, Reduced DType
	// KeepsLayers and KeepsRoot are reshard_after_forward=False: gathered parameters stay from forward to backward.
	KeepsLayers, KeepsRoot bool
	// Flat is FSDP1: the parameters of a group are one flat tensor that is dealt out as it is. Prefetches asks for the group before
	// while the backward of one runs, as FSDP2 always does.
	Flat, Prefetches bool
	// Unsynced sums gradients over the GPUs in the last micro-step only; until then every GPU accumulates whole ones.
	Unsynced bool
	// CastsOutputs is output_dtype: what the model returns is brought to the type that it computes in.
	CastsOutputs bool
}

func (s Sharding) on() bool { return s.World > 1 }

// part is how many elements of p a GPU holds: the rows of the first dimension are dealt out in equal numbers, and the first GPU has
// never fewer than another.
// Source: _fsdp_param.py (FSDPParam._init_sharded_param).
func (s Sharding) part(p *Parameter) int64 {
	rows := p.outer()
	return ceilDiv(rows, s.World) * (p.Numel / rows)
}

// Parts are the parameters as one GPU holds them, in the storage of list. Buffers are not divided.
func (s Sharding) Parts(whole Parameters, list []Parameter) Parameters {
	parts := whole
	parts.List = append(list[:0], whole.List...)
	if s.Flat {
		s.flatParts(parts.List)
		return parts
	}
	for i := range parts.List {
		p := &parts.List[i]
		if p.Buffer {
			continue
		}
		p.Numel = s.part(p)
		if p.Matrices == 0 {
			p.Rows = p.Numel / p.Cols
		}
		p.Dtype = s.Stored
	}
	return parts
}

// Streams besides the one that computes. The allocator gives memory that was allocated on a stream to that stream alone.
const (
	gatherStream = 1 + iota
	reduceStream
)

// shardGroup is the parameters that are gathered together: those of a layer, or of everything outside the layers.
type shardGroup struct {
	params []int32 // in the list of parameters
	whole  []int32 // the gathered parameters, empty while there are none
	output int32   // what an all-gather has brought and what is not copied out yet
	turn   int     // where in the order of the forward it stands
	summed bool    // its gradients are on their way
}

// shards are the groups of a model while a micro-step is recorded.
type shards struct {
	Sharding
	groups []shardGroup // the root's first, then the layers'
	grads  []int32      // by parameter: its whole gradient
	order  []int        // the groups in the order in which their forward ended
	hooks  []hook
	former int32 // what the last all-gather of the forward brought
	input  int32 // of the last reduce-scatter
}

// hook says which group's parameters the backward of a node needs.
type hook struct {
	node  int32
	group int
}

// newShards puts the parameters into groups.
func newShards(s Sharding, parameters []Parameter) *shards {
	f := &shards{Sharding: s, groups: []shardGroup{{output: none}}, former: none, input: none}
	for i := range parameters {
		p := &parameters[i]
		f.grads = append(f.grads, none)
		if p.First {
			f.groups = append(f.groups, shardGroup{output: none})
		}
		if p.Buffer {
			continue
		}
		g := &f.groups[0]
		if p.InLayer {
			g = &f.groups[len(f.groups)-1]
		}
		g.params = append(g.params, int32(i))
	}
	return f
}

// aside allocates on another stream than the one that computes.
func (t *Tape) aside(stream uint8, bytes int64, c Component, l Label) int32 {
	s := t.alloc(bytes, c, l)
	if i := t.storages[s].slot; i != none {
		t.prog.Slots[i].Stream = stream
		t.prog.Events[len(t.prog.Events)-1].Op = AllocAside
	}
	return s
}

// allGather starts the all-gather of group k, unless its parameters are there or on their way.
// Source: _fsdp_collectives.py (foreach_all_gather).
func (t *Tape) allGather(k int) {
	f := t.shards
	g := &f.groups[k]
	if g.output != none || len(g.whole) > 0 || len(g.params) == 0 {
		return
	}
	if f.Flat {
		t.gatherFlat(g)
		return
	}
	numel, d := int64(0), t.Recipe.Stored
	for _, p := range g.params {
		numel += f.part(&t.parameters[p])
	}
	cast := none
	if d != f.Stored {
		cast = t.aside(gatherStream, numel*d.Size(), Communication, LabelGatherInput)
	}
	g.output = t.aside(gatherStream, numel*f.World*d.Size(), Communication, LabelGatherOutput)
	t.release(cast)
}

// unshard waits for the parameters of group k and copies them out. The buffer that they came in is kept in forward until the next
// group's are copied out, so that the two may overlap.
// Source: _fsdp_param_group.py (FSDPParamGroup.wait_for_unshard).
func (t *Tape) unshard(k int, forward bool) {
	t.allGather(k)
	f := t.shards
	g := &f.groups[k]
	if g.output == none || f.Flat {
		return
	}
	for _, p := range g.params {
		g.whole = append(g.whole, t.alloc(f.part(&t.parameters[p])*f.World*t.Recipe.Stored.Size(), Weights, LabelGathered))
	}
	t.release(t.alloc(t.copyOutScratch(g), Communication, LabelShardScratch))
	brought := g.output
	g.output = none
	if forward {
		brought, f.former = f.former, brought
	}
	t.release(brought)
}

// reshard lets go of the gathered parameters of group k.
func (t *Tape) reshard(k int) {
	g := &t.shards.groups[k]
	for _, s := range g.whole {
		t.release(s)
	}
	g.whole = g.whole[:0]
}

// beforeLayer is the pre-forward hook of the layer that comes next; it returns the layer's input as backward will see it.
func (t *Tape) beforeLayer(x T) T {
	k := int(t.layersRun)
	t.unshard(k, true)
	if every := t.Recipe.CheckpointEvery; t.Recipe.Reentrant && every > 0 && t.layersRun%every == 0 {
		return x // without a graph there is no backward to wait for
	}
	return t.sumAfter(k, x)
}

// sumAfter is x as the input of group k, whose gradients are summed when that of x is there.
func (t *Tape) sumAfter(k int, x T) T {
	return t.op(x).pass(0, 0).act(act{verb: actReduce, bytes: int64(k)}).out(x, 0)
}

// afterLayer is the post-forward hook of a layer that returned y. Its group is given as a negative number where it ran without
// a graph.
func (t *Tape) afterLayer(group int, y T) {
	if group < 0 {
		y.edge, group = noEdge, -group
	}
	t.afterForward(group, y, t.shards.KeepsLayers)
}

// beforeRerun is the pre-forward hook of a layer that reentrant checkpointing runs again, on its detached input x.
func (t *Tape) beforeRerun(k int, x T) T {
	t.unshard(k, true)
	return t.sumAfter(k, x)
}

// afterRerun is its post-forward hook. The layer is taken for the root of a forward of its own; and since it counts as
// one that ran after all others, its backward will ask for the layer that was run again before it, which nobody waits for.
func (t *Tape) afterRerun(k int, y T) {
	if t.shards.Flat { // keeps them for the backward that follows
		return
	}
	t.afterForward(k, y, t.shards.KeepsLayers)
	t.release(t.shards.former)
	t.shards.former = none
}

// afterForward is the post-forward hook of group k, which returned x.
func (t *Tape) afterForward(k int, x T, keeps bool) {
	f := t.shards
	if !keeps {
		t.reshard(k)
	}
	f.groups[k].turn = len(f.order)
	f.order = append(f.order, k)
	if x.edge >= 0 {
		n := int32(x.edge >> 2)
		t.nodes[n].hooked = true
		f.hooks = append(f.hooks, hook{n, k})
	}
}

// endForward is the post-forward hook of the root. It may bring what the model returned to the type that it computes in; a variable
// holds the last gathered buffer until then.
// Source: _fsdp_state.py (_post_forward).
func (t *Tape) endForward(loss T, outputs []T) T {
	f := t.shards
	t.afterForward(0, loss, f.KeepsRoot)
	if d := t.Recipe.Compute; f.CastsOutputs && loss.dtype != d {
		cast := t.Cast(loss, d, LabelLoss)
		for i := range outputs {
			if outputs[i].storage == loss.storage {
				t.Drop(outputs[i])
				outputs[i] = t.Hold(cast)
			}
		}
		t.Drop(loss)
		loss = cast
	}
	for i, x := range outputs {
		if d := t.Recipe.Compute; f.CastsOutputs && x.dtype == F32 && d != F32 && t.label(x) != LabelCache {
			outputs[i] = t.Cast(x, d, t.label(x))
			t.Drop(x)
		}
	}
	t.release(f.former)
	f.former = none
	return loss
}

// beforeBackward is the pre-backward hook of the group that node i belongs to: its parameters have to be there, and those of the
// group that ran before it in forward are asked for.
// Source: _fsdp_param_group.py (pre_backward, _backward_prefetch).
func (t *Tape) beforeBackward(i int32) {
	f := t.shards
	at := slices.IndexFunc(f.hooks, func(h hook) bool { return h.node == i })
	k := f.hooks[at].group
	f.hooks = slices.Delete(f.hooks, at, at+1) // the number of a node may be used again
	t.unshard(k, false)
	if turn := f.groups[k].turn; turn > 0 && (f.Prefetches || !f.Flat) {
		t.allGather(f.order[turn-1])
	}
}

// reduce is the post-backward hook of group k: the whole gradients are copied into one buffer, of which every GPU gets the sum of
// its part.
// Source: _fsdp_param_group.py (post_backward), _fsdp_collectives.py (foreach_reduce).
func (t *Tape) reduce(k int) {
	f := t.shards
	g := &f.groups[k]
	if g.summed {
		return
	}
	g.summed = true
	if f.Flat {
		t.reduceFlat(k)
		return
	}
	t.reshard(k)
	if f.Unsynced && f.Reduced != t.Recipe.Stored {
		t.widenWhole(g)
	}
	from := len(t.prog.Events)
	numel := int64(0)
	var with []int32
	for _, p := range g.params {
		if f.grads[p] != none {
			with = append(with, p)
			numel += f.part(&t.parameters[p])
		}
	}
	if len(with) == 0 {
		return
	}
	t.release(f.input)
	f.input = t.alloc(numel*f.World*f.Reduced.Size(), Communication, LabelReduceInput)
	t.release(t.alloc(t.copyInScratch(with), Communication, LabelShardScratch))
	// The list of gradients is cleared from its end, and a variable of the loop still holds the last of them.
	last := with[len(with)-1]
	for _, p := range slices.Backward(with[:len(with)-1]) {
		t.dropWhole(p)
	}
	sum := t.aside(reduceStream, numel*f.Reduced.Size(), Gradients, LabelGradient)
	if f.Reduced != f.Stored {
		wide := t.aside(reduceStream, numel*f.Stored.Size(), Gradients, LabelGradient)
		t.release(sum)
		sum = wide
	}
	t.storages[sum].refs = 0
	t.prog.Events = append(t.prog.Events, Event{t.storages[sum].slot, Keep})
	t.dropWhole(last)
	if f.Unsynced {
		t.lastly(from)
	}
}

func (t *Tape) dropWhole(p int32) {
	f := t.shards
	if s := f.grads[p]; f.Unsynced {
		t.prog.Events = append(t.prog.Events, Event{t.storages[s].slot, FreeHeld})
	} else {
		t.release(s)
	}
	f.grads[p] = none
}

// lastly lets the events from the given one on happen in the last micro-step only.
func (t *Tape) lastly(from int) {
	for i := from; i < len(t.prog.Events); i++ {
		e := &t.prog.Events[i]
		switch e.Op {
		case Alloc:
			e.Op = AllocLast
		case AllocAside:
			e.Op = AllocAsideLast
		case Free:
			e.Op = FreeLast
		case Keep:
			e.Op = KeepLast
		}
	}
}

// widenWhole brings the whole gradients of a group to the type that they are summed in, in which they are accumulated.
// Source: _fsdp_param.py (to_accumulated_grad_if_needed, accumulate_unsharded_grad_if_needed).
func (t *Tape) widenWhole(g *shardGroup) {
	f := t.shards
	for _, p := range g.params {
		if f.grads[p] == none {
			continue
		}
		wide := t.holdWhole(t.params[p].numel * f.Reduced.Size())
		t.release(f.grads[p])
		f.grads[p] = wide
	}
}

// holdWhole allocates a whole gradient that is accumulated, in the first micro-step.
func (t *Tape) holdWhole(bytes int64) int32 {
	t.storages = append(t.storages, storage{slot: t.slot(AllocHeld, bytes, Gradients, LabelGradient)})
	return int32(len(t.storages) - 1)
}

// endBackward runs the post-backward hooks that no gradient of an input has run, the root's first.
// Source: _fsdp_state.py (_root_post_backward_final_callback).
func (t *Tape) endBackward() {
	f := t.shards
	for k := range f.groups {
		t.reduce(k)
		t.release(f.groups[k].output)
		f.groups[k].output = none
	}
	from := len(t.prog.Events)
	t.release(f.input)
	f.input = none
	if f.Unsynced {
		t.lastly(from)
	}
}

// keepWhole makes storage s the whole gradient of parameter p.
func (t *Tape) keepWhole(p, s int32) {
	if t.shards.Flat { // which has them copied into its own anyway
		t.storages[s].part = false
		t.prog.Slots[t.storages[s].slot].Component = Gradients
		t.shards.grads[p] = s
		return
	}
	bytes := t.params[p].numel * t.params[p].dtype.Size()
	held := t.shards.Unsynced && t.shards.Reduced == t.Recipe.Stored && !t.shards.Flat
	if held && t.storages[s].refs > 1 {
		t.shards.grads[p] = t.holdWhole(bytes)
		t.release(s)
		return
	}
	if st := &t.storages[s]; st.part {
		st.part = false
	} else if st.refs > 1 {
		fresh := t.alloc(bytes, Gradients, LabelGradient)
		t.release(s)
		s = fresh
	}
	i := t.storages[s].slot
	if i != none {
		t.prog.Slots[i].Component = Gradients
	}
	if held {
		t.storages[s].refs = 0
		t.prog.Events = append(t.prog.Events, Event{i, Hold})
	}
	t.shards.grads[p] = s
}

// The blocks of the kernels that copy gathered parameters out and gradients in: how many threads each has, and how many bytes
// each thread takes at once.
// Source: aten/src/ATen/native/cuda/TensorShape.cu (BLOCK_SIZE, BYTES_PER_THREAD), torch 2.9.
const copiedPerBlock = 128 * 16

// copyOutScratch is where split_with_sizes_copy keeps its addresses, sizes and the block that each split begins with.
// Source: aten/src/ATen/native/cuda/TensorShape.cu (split_with_sizes_copy_out_cuda_contiguous_no_cast), torch 2.9.
func (t *Tape) copyOutScratch(g *shardGroup) int64 {
	f, size := t.shards, t.Recipe.Stored.Size()
	blocks := int64(0)
	for _, p := range g.params {
		blocks += ceilDiv(f.part(&t.parameters[p])*size, copiedPerBlock)
	}
	most := t.Recipe.Multiprocessors * t.Recipe.ThreadsPerMultiprocessor / 128 * 2
	factor := ceilDiv(blocks*f.World, most)
	chunks := min(ceilRoot(factor), f.World)
	rounds := ceilDiv(factor, chunks)
	blocks = 0
	for _, p := range g.params {
		blocks += ceilDiv(f.part(&t.parameters[p])*size, copiedPerBlock*rounds)
	}
	return 8 * (blocks + 4*int64(len(g.params)) + 1)
}

// copyInScratch is the same for _chunk_cat.
// Source: aten/src/ATen/native/cuda/TensorShape.cu (get_chunk_cat_metadata), torch 2.9.
func (t *Tape) copyInScratch(params []int32) int64 {
	f := t.shards
	blocks := int64(0)
	for _, p := range params {
		blocks += ceilDiv(f.part(&t.parameters[p])*f.Reduced.Size(), copiedPerBlock)
	}
	return 8 * (blocks + 6*int64(len(params)) + 2)
}

// ceilRoot is the smallest number whose square is at least n.
func ceilRoot(n int64) int64 {
	r := int64(1)
	for r*r < n {
		r++
	}
	return r
}
