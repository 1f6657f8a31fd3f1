package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// FSDP1 is FullyShardedDataParallel: it makes one flat tensor of the parameters of a group, of which every GPU holds an
// equal part. Gathered, it is the parameters: nothing is copied out. The gradients come together in one flat tensor,
// too.
// Sources: torch/distributed/fsdp/_flat_param.py, _runtime_utils.py, 2.9.
type FSDP1 struct {
	Sharding
	// Prefetches asks for the group before while the backward of one runs (BackwardPrefetch.BACKWARD_PRE).
	Prefetches bool
}

// flat is how many elements the parameters of a group have, and how many of them a GPU holds.
func (s Sharding) flat(parameters []step.Parameter, params []int32) (numel, part int64) {
	for _, p := range params {
		numel += parameters[p].Numel
	}
	return numel, step.CeilDiv(numel, s.World)
}

// Parts are what the first GPU holds of each group's flat tensor: whole parameters, one of which only the first part is
// left, and nothing of the others.
func (s FSDP1) Parts(whole step.Parameters, list *[]step.Parameter) step.Parameters {
	parts := whole
	*list = append((*list)[:0], whole.List...)
	parts.List = *list
	for _, g := range groups(parts.List) {
		_, left := s.flat(parts.List, g.params)
		for _, i := range g.params {
			p := &parts.List[i]
			p.Dtype = s.Stored
			p.Numel = min(p.Numel, left)
			left -= p.Numel
			if p.Numel == 0 {
				p.Absent = true
			}
		}
	}
	return parts
}

// Load brings the parameters of every group to heap, makes one tensor of them and leaves a part of it there.
func (s FSDP1) Load(r *step.Rank, heap alloc.Heap) {
	eachGroup(r.Whole, func(group []int) {
		var whole []int32
		numel := int64(0)
		for _, i := range group {
			p := &r.Whole.List[i]
			if p.Buffer {
				heap.Alloc(p.Bytes())
				continue
			}
			whole = append(whole, heap.Alloc(p.Numel*s.Stored.Size()))
			numel += p.Numel
		}
		if numel == 0 {
			return
		}
		whole = append(whole, heap.Alloc(numel*s.Stored.Size()))
		for _, i := range group {
			if p := &r.Parts.List[i]; !p.Buffer && !p.Absent {
				heap.Alloc(p.Bytes())
			}
		}
		for _, h := range whole {
			heap.Free(h)
		}
	})
}

// LoadPeak is the largest group twice, beside the parts.
func (s FSDP1) LoadPeak(r *step.Rank, _ int64) int64 {
	var c alloc.Tally
	s.Load(r, &c)
	return c.Most
}

// BeforeFirstForward makes what is gathered into, and lets go of the memory at once.
// Source: _flat_param.py (FlatParamHandle.init_flat_param_attributes).
func (s FSDP1) BeforeFirstForward(r *step.Rank, heap alloc.Heap) {
	d := r.Recipe.Stored
	prepare := func(group []int) {
		numel := int64(0)
		for _, i := range group {
			if p := &r.Whole.List[i]; !p.Buffer {
				numel += p.Numel
			}
		}
		part := step.CeilDiv(numel, s.World)
		sizes := []int64{part * s.World * s.Stored.Size()}
		if d != s.Stored {
			sizes = []int64{part * d.Size(), part * s.World * d.Size(), sizes[0]}
		}
		for _, bytes := range sizes {
			if numel > 0 {
				heap.Free(heap.Alloc(bytes))
			}
		}
	}
	var groups [][]int
	eachGroup(r.Whole, func(group []int) { groups = append(groups, slices.Clone(group)) })
	prepare(groups[len(groups)-1])
	for _, group := range groups[:len(groups)-1] {
		prepare(group)
	}
}

// Hooks are FullyShardedDataParallel's.
func (s FSDP1) Hooks(t *step.Tape) step.Hooks {
	f := &fsdp1{fsdp: newFSDP(t, s.Sharding), ahead: s.Prefetches, onCast: gatherStream, onGather: gatherStream, onReduce: reduceStream}
	f.collectives = f
	if t.Recipe.Stored != s.Stored { // a stream of its own for the cast only where there is one
		f.onCast, f.onGather, f.onReduce = 1, 2, 3
	}
	return f
}

type fsdp1 struct {
	fsdp
	ahead                      bool
	onCast, onGather, onReduce uint8 // the streams of the cast, the gather and the sum
}

func (f *fsdp1) prefetches() bool { return f.ahead }

// gather puts the flat tensor of a group together, which is its parameters.
func (f *fsdp1) gather(g *shardGroup) {
	t, d := f.Tape, f.Tape.Recipe.Stored
	_, part := f.flat(f.parameters, g.params)
	cast := step.None
	if d != f.Stored {
		cast = t.Aside(f.onCast, part*d.Size(), step.Communication, step.LabelGatherInput)
	}
	g.whole = append(g.whole, t.Aside(f.onGather, part*f.World*d.Size(), step.Weights, step.LabelGathered))
	t.Release(cast)
}

func (*fsdp1) copyOut(*shardGroup, bool) {}

// AfterRerun keeps the parameters for the backward that follows.
func (*fsdp1) AfterRerun(_ int, y step.T) step.T { return y }

// GradientStream is that on which the flat tensor was taken apart: what sums a parameter's gradients is the backward of
// that.
func (f *fsdp1) GradientStream() uint8 { return f.onGather }

// GradientReady keeps a gradient as it is: it is copied into the flat one anyway.
func (f *fsdp1) GradientReady(p, s int32) {
	f.Tape.Owned(s)
	f.Tape.Gradient(s)
	f.grads[p] = s
}

// reduce puts the gradients of a group into a flat one, of which every GPU gets the sum of its part.
func (f *fsdp1) reduce(g *shardGroup) {
	t, d := f.Tape, f.Tape.Recipe.Stored
	with := f.withGradients(g)
	if len(with) == 0 {
		f.reshard(g)
		return
	}
	numel, part := f.flat(f.parameters, g.params)
	flat := t.Aside(f.onGather, numel*d.Size(), step.Gradients, step.LabelGradient)
	f.reshard(g)
	for _, p := range with {
		t.Release(f.grads[p])
		f.grads[p] = step.None
	}
	if f.Unsynced {
		t.Becomes(flat, step.Hold)
	}
	from := t.Mark()
	input := step.None
	if f.Reduced != d || part*f.World != numel {
		input = t.Aside(f.onReduce, part*f.World*f.Reduced.Size(), step.Communication, step.LabelReduceInput)
	}
	sum := t.Aside(f.onReduce, part*f.Reduced.Size(), step.Gradients, step.LabelGradient)
	if f.Reduced != f.Stored {
		wide := t.Aside(f.onReduce, part*f.Stored.Size(), step.Gradients, step.LabelGradient)
		t.Release(sum)
		sum = wide
	}
	t.Stays(sum)
	t.Release(input)
	if !f.Unsynced {
		t.Release(flat)
		return
	}
	t.Event(flat, step.FreeHeld)
	t.Lastly(from)
}
