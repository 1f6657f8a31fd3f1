package step

import "slices"

// FSDP1 (FullyShardedDataParallel) makes one flat tensor of the parameters of a group, of which every GPU holds an equal part.
// Gathered, it is the parameters: nothing is copied out. The gradients come together in one flat tensor, too.
// Sources: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py, 2.9.

// flat is how many elements the parameters of a group have, and how many of them a GPU holds.
func (f *shards) flat(parameters []Parameter, params []int32) (numel, part int64) {
	for _, p := range params {
		numel += parameters[p].Numel
	}
	return numel, ceilDiv(numel, f.World)
}

// flatParts cuts list to what the first GPU holds of each group's flat tensor: whole parameters, one of which only the first
// part is left, and nothing of the others.
func (s Sharding) flatParts(list []Parameter) {
	f := newShards(s, list)
	for _, g := range f.groups {
		_, left := f.flat(list, g.params)
		for _, i := range g.params {
			p := &list[i]
			p.Dtype = s.Stored
			p.Numel = min(p.Numel, left)
			left -= p.Numel
			if p.Numel == 0 {
				p.Absent = true
			}
		}
	}
}

// streams are those of the cast, the gather and the sum: a stream of its own for the cast only where there is one.
func (t *Tape) streams() (cast, gather, reduce uint8) {
	if t.Recipe.Stored != t.shards.Stored {
		return 1, 2, 3
	}
	return gatherStream, gatherStream, reduceStream
}

// sumAside lets the sum of a parameter's gradients, whose events begin with the given one, be made on the stream on which the flat tensor
// was taken apart, since what sums is the backward of that.
func (t *Tape) sumAside(from int) {
	if !t.shards.Flat {
		return
	}
	_, onGather, _ := t.streams()
	for i := from; i < len(t.prog.Events); i++ {
		if e := &t.prog.Events[i]; e.Op == Alloc {
			e.Op = AllocAside
			t.prog.Slots[e.Slot].Stream = onGather
		}
	}
}

// gatherFlat puts the flat tensor of a group together.
func (t *Tape) gatherFlat(g *shardGroup) {
	f, d := t.shards, t.Recipe.Stored
	_, part := f.flat(t.parameters, g.params)
	onCast, onGather, _ := t.streams()
	cast := none
	if d != f.Stored {
		cast = t.aside(onCast, part*d.Size(), Communication, LabelGatherInput)
	}
	g.whole = append(g.whole, t.aside(onGather, part*f.World*d.Size(), Weights, LabelGathered))
	t.release(cast)
}

// reduceFlat is the post-backward hook of group k.
func (t *Tape) reduceFlat(k int) {
	f, d := t.shards, t.Recipe.Stored
	g := &f.groups[k]
	with := g.params[:0:0]
	for _, p := range g.params {
		if f.grads[p] != none {
			with = append(with, p)
		}
	}
	if len(with) == 0 {
		t.reshard(k)
		return
	}
	numel, part := f.flat(t.parameters, g.params)
	_, onGather, onReduce := t.streams()
	flat := t.aside(onGather, numel*d.Size(), Gradients, LabelGradient)
	t.reshard(k)
	for _, p := range with {
		t.release(f.grads[p])
		f.grads[p] = none
	}
	if f.Unsynced {
		t.storages[flat].refs = 0
		t.prog.Events = append(t.prog.Events, Event{t.storages[flat].slot, Hold})
	}
	from := len(t.prog.Events)
	input := none
	if f.Reduced != d || part*f.World != numel {
		input = t.aside(onReduce, part*f.World*f.Reduced.Size(), Communication, LabelReduceInput)
	}
	sum := t.aside(onReduce, part*f.Reduced.Size(), Gradients, LabelGradient)
	if f.Reduced != f.Stored {
		wide := t.aside(onReduce, part*f.Stored.Size(), Gradients, LabelGradient)
		t.release(sum)
		sum = wide
	}
	t.storages[sum].refs = 0
	t.prog.Events = append(t.prog.Events, Event{t.storages[sum].slot, Keep})
	t.release(input)
	if !f.Unsynced {
		t.release(flat)
		return
	}
	t.prog.Events = append(t.prog.Events, Event{t.storages[flat].slot, FreeHeld})
	t.lastly(from)
}

// loadFlat brings the parameters of the given places to heap, makes one tensor of them and leaves a part of it there.
func (s *Session) loadFlat(heap Heap, group []int) {
	d := s.Recipe.Sharding.Stored
	var whole []int32
	numel := int64(0)
	for _, i := range group {
		p := &s.Whole.List[i]
		if p.Buffer {
			heap.Alloc(p.bytes())
			continue
		}
		whole = append(whole, heap.Alloc(p.Numel*d.Size()))
		numel += p.Numel
	}
	if numel == 0 {
		return
	}
	whole = append(whole, heap.Alloc(numel*d.Size()))
	for _, i := range group {
		if p := &s.Parameters.List[i]; !p.Buffer && !p.Absent {
			heap.Alloc(p.bytes())
		}
	}
	for _, h := range whole {
		heap.Free(h)
	}
}

// prepareFlat makes what FSDP1 gathers into when the first forward begins, and lets go of the memory at once.
// Source: _flat_param.py (FlatParamHandle.init_flat_param_attributes).
func (s *Session) prepareFlat(heap Heap) {
	sh, d := s.Recipe.Sharding, s.Recipe.Stored
	prepare := func(group []int) {
		numel := int64(0)
		for _, i := range group {
			if p := &s.Whole.List[i]; !p.Buffer {
				numel += p.Numel
			}
		}
		part := ceilDiv(numel, sh.World)
		sizes := []int64{part * sh.World * sh.Stored.Size()}
		if d != sh.Stored {
			sizes = []int64{part * d.Size(), part * sh.World * d.Size(), sizes[0]}
		}
		for _, bytes := range sizes {
			if numel > 0 {
				heap.Free(heap.Alloc(bytes))
			}
		}
	}
	var groups [][]int
	s.eachGroup(func(group []int) { groups = append(groups, slices.Clone(group)) })
	prepare(groups[len(groups)-1])
	for _, group := range groups[:len(groups)-1] {
		prepare(group)
	}
}
