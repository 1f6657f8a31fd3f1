package step

// Sharding is how fully_shard (FSDP2) spreads the parameters, their gradients and the optimizer's state over GPUs: of every
// parameter each GPU holds a part of the first dimension. A layer is put together when its forward or its backward comes, and
// its gradients are summed, each GPU keeping its part, as soon as its backward is over.
// Source: torch/distributed/fsdp/_fully_shard, 2.9.
type Sharding struct {
	// World is how many GPUs there are; nothing is sharded below two.
	World int64
	// Stored is the type of the parts, Frozen that of the parts that are not trained, Reduced that in which gradients are
	// summed. Parameters are gathered in the type in which they are computed with.
	Stored, Frozen, Reduced DType
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

// stored is the type of a GPU's part of p.
func (s Sharding) stored(p *Parameter) DType {
	if p.Frozen {
		return s.Frozen
	}
	return s.Stored
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
			p.Rows = p.Numel / max(p.Cols, 1)
		}
		p.Dtype = s.stored(p)
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
	whole  DType        // of gradients before they are summed
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
		if p.Trained() {
			f.whole = p.Dtype
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
	parts, casts := int64(0), int64(0) // those of another type than the one that they are gathered in are cast first
	for _, i := range g.params {
		p := &t.parameters[i]
		n := f.part(p) * p.Dtype.Size()
		if parts += n; p.Dtype != f.stored(p) {
			casts += n
		}
	}
	cast := none
	if casts > 0 {
		cast = t.aside(gatherStream, casts, Communication, LabelGatherInput)
	}
	g.output = t.aside(gatherStream, parts*f.World, Communication, LabelGatherOutput)
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
		w := &t.parameters[p]
		g.whole = append(g.whole, t.alloc(f.part(w)*f.World*w.Dtype.Size(), Weights, LabelGathered))
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
