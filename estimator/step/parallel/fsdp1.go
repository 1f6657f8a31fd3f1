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
	// Syncs sends the first GPU's parameters and buffers to the others while modules are wrapped.
	Syncs bool
	// Lasting says that a frozen layer's parameters are there while others before it are put together.
	Lasting bool
	// KeepsReruns says that checkpointing runs the wrapper of a layer whose parameters are all frozen again, too: the
	// hook that it sets on the layer's detached input holds that input, and with it its gradient, until backward ends.
	// Sources: _runtime_utils.py (_register_post_backward_reshard_only_hook), torch/autograd/graph.py
	// (register_multi_grad_hook), 2.9.
	KeepsReruns bool
}

// flatTensor is the parameters of a group that are trained, or those that are not, which are flattened apart, but
// for those that are carried.
type flatTensor struct {
	// numel is how many elements it has, part how many of them a GPU holds.
	numel, part int64
	// stored is the type of the part, whole that in which it is put together.
	stored, whole step.DType
}

// flat are the flat tensors of a group, what is frozen first; computed is the type that parameters are computed with
// in.
func (s Sharding) flat(parameters []step.Parameter, params []int32, computed step.DType) [2]flatTensor {
	f := [2]flatTensor{{stored: s.Frozen, whole: computed}, {stored: s.Stored, whole: computed}}
	for _, i := range params {
		p := &parameters[i]
		if p.Frozen && !p.Carried {
			f[0].numel += extent(p)
		} else {
			f[1].numel += extent(p)
		}
	}
	for k := range f {
		f[k].part = step.CeilDiv(f[k].numel, s.World)
	}
	return f
}

// Parts are what the first GPU holds of each group's flat tensor: whole parameters, one of which only the first part is
// left, and nothing of the others.
func (s FSDP1) Parts(whole step.Parameters, list *[]step.Parameter) step.Parameters {
	parts := whole
	*list = append((*list)[:0], whole.List...)
	parts.List = *list
	all, _ := groups(parts.List, false)
	for _, g := range all {
		flat := s.flat(parts.List, g.params, s.Stored)
		for _, i := range g.params {
			p := &parts.List[i]
			f := &flat[1]
			if p.Frozen && !p.Carried {
				f = &flat[0]
			}
			if s.Offloaded {
				elsewhere(p)
				continue
			}
			n := min(extent(p), f.part)
			f.part -= n
			if p.Quantised == step.NotQuantised {
				p.Dtype, p.Absent = f.stored, n == 0
			}
			held(p, n)
		}
	}
	return parts
}

// Load brings the parameters of every group to heap, makes one tensor of them and leaves a part of it there.
func (s FSDP1) Load(r *step.Rank, heap alloc.Heap) {
	table(r.Whole, heap)
	eachGroup(r.Whole, func(group []int) {
		var whole []int32
		var params []int32
		for _, i := range group {
			p := &r.Whole.List[i]
			if p.Buffer {
				heap.Alloc(p.Bytes())
				continue
			}
			whole = append(whole, heap.Alloc(extent(p)*s.stored(p).Size()))
			params = append(params, int32(i))
		}
		if len(params) == 0 {
			return
		}
		if s.Syncs {
			s.send(r, group, heap)
		}
		for _, f := range s.flat(r.Whole.List, params, s.Stored) {
			if f.numel > 0 {
				whole = append(whole, heap.Alloc(f.numel*f.stored.Size()))
			}
		}
		for _, i := range group {
			if p := &r.Parts.List[i]; !p.Buffer {
				s.leave(p, heap)
			}
		}
		for _, f := range s.flat(r.Whole.List, params, s.Stored) {
			if s.Offloaded && f.numel > 0 {
				whole = append(whole, heap.Alloc(f.part*f.stored.Size()))
			}
		}
		for _, h := range whole {
			heap.Free(h)
		}
	})
}

// send sends the buffers and the parameters of a group.
// Source: torch/distributed/fsdp/_init_utils.py (_sync_module_params_and_buffers), 2.15.
func (s FSDP1) send(r *step.Rank, group []int, heap alloc.Heap) {
	var c coalesced
	for _, buffers := range []bool{true, false} {
		for _, i := range group {
			switch p := &r.Whole.List[i]; {
			case p.Buffer != buffers:
			case buffers:
				c.add(p.Bytes(), p.Dtype)
			default:
				c.add(extent(p)*s.stored(p).Size(), s.stored(p))
			}
		}
	}
	c.send(heap)
}

// LoadPeak is the largest group twice, beside the parts.
func (s FSDP1) LoadPeak(r *step.Rank, _ int64) int64 {
	var c alloc.Tally
	s.Load(r, &c)
	return c.Most
}

// BesideModel are the parts of every group of a model that stands beside, and the parameters outside its layers: its
// root is never trained, and FSDP1 leaves a root together for a backward that never comes.
// Source: _runtime_utils.py (_post_forward_reshard), 2.9.
func (s FSDP1) BesideModel(whole step.Parameters, computed step.DType) step.Parameters {
	var list []step.Parameter
	var groups [][]int
	eachGroup(whole, func(group []int) { groups = append(groups, slices.Clone(group)) })
	for k, group := range groups {
		numel := int64(0)
		for _, i := range group {
			if p := &whole.List[i]; p.Buffer {
				list = append(list, step.Parameter{Numel: p.Numel, Dtype: p.Dtype, Buffer: true})
			} else {
				numel += p.Numel
			}
		}
		if numel == 0 {
			continue
		}
		part := step.CeilDiv(numel, s.World)
		list = append(list, step.Parameter{Numel: part, Dtype: s.Beside, Frozen: true})
		if k == len(groups)-1 {
			list = append(list, step.Parameter{Numel: part * s.World, Dtype: computed, Frozen: true})
		}
	}
	return step.Parameters{List: list}
}

// Irregular: layers reach into others but their neighbours.
func (s FSDP1) Irregular() bool { return s.Lasting }

// BeforeFirstForward makes what is gathered into, and lets go of the memory at once.
// Source: _flat_param.py (FlatParamHandle.init_flat_param_attributes).
func (s FSDP1) BeforeFirstForward(r *step.Rank, heap alloc.Heap) {
	d := r.Recipe.Stored
	prepare := func(group []int) {
		var params []int32
		for _, i := range group {
			if p := &r.Whole.List[i]; !p.Buffer {
				params = append(params, int32(i))
			}
		}
		for _, f := range s.flat(r.Whole.List, params, d) {
			if f.numel == 0 {
				continue
			}
			sizes := []int64{f.part * s.World * f.stored.Size()}
			if d != f.stored {
				sizes = []int64{f.part * d.Size(), f.part * s.World * d.Size(), sizes[0]}
			}
			for _, bytes := range sizes {
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
	f := &fsdp1{fsdp: newFSDP(t, s.Sharding), ahead: s.Prefetches, keepsReruns: s.KeepsReruns, onCast: gatherStream,
		onGather: gatherStream, onReduce: reduceStream, straight: map[int]bool{}}
	f.collectives = f
	if t.Recipe.Stored != s.Stored { // a stream of its own for the cast only where there is one
		f.onCast, f.onGather, f.onReduce = 1, 2, 3
	}
	return f
}

type fsdp1 struct {
	fsdp
	ahead, keepsReruns         bool
	inputs                     []step.T     // of layers that ran again, where a hook holds them
	inputGrads                 []int32      // their gradients
	straight                   map[int]bool // layers that a graph is made of in forward itself
	late                       []int        // groups that let go of their parameters when the one before has its own
	onCast, onGather, onReduce uint8        // the streams of the cast, the gather and the sum
}

func (f *fsdp1) prefetches() bool { return f.ahead }

// gather puts the flat tensor of a group together, which is its parameters.
func (f *fsdp1) gather(g *shardGroup) {
	t, d := f.Tape, f.Tape.Recipe.Stored
	for _, flat := range f.flat(f.parameters, g.params, d) {
		if flat.numel == 0 {
			continue
		}
		part := f.lowPrecision(flat, d)
		g.whole = append(g.whole, t.Aside(f.onGather, flat.part*f.World*d.Size(), step.Weights, step.LabelGathered))
		f.keepPart(g, flat, part)
	}
}

func (*fsdp1) copyOut(*shardGroup, bool) {}

// BeforeUnit notes whether the layer's backward is that of the forward itself. A forward without a graph, as that of a
// reference model, has none.
func (f *fsdp1) BeforeUnit(unit int, x step.T, graph bool) step.T {
	if rc := f.Tape.Recipe; f.Tape.Graphed() {
		f.straight[unit] = graph && rc.CheckpointEvery == 0 && !rc.SelectiveAttention
	}
	return f.fsdp.BeforeUnit(unit, x, graph)
}

// AfterBackward leaves a layer whose flat tensor is frozen whole until the layer before has been put together: both
// hang on the gradient of the same tensor, the hook of the layer that returned it first.
// Source: _runtime_utils.py (_register_pre_backward_hooks, _register_post_backward_reshard_only_hook), torch 2.9.
func (f *fsdp1) AfterBackward(k int) {
	g := &f.groups[k]
	frozen := slices.ContainsFunc(g.params, func(p int32) bool {
		return f.parameters[p].Frozen && !f.parameters[p].Carried
	})
	if g.summed || !frozen || !f.straight[k] || g.kept { // of layers that are there anyway nothing is put together
		f.fsdp.AfterBackward(k)
		return
	}
	g.late = g.whole
	g.whole = nil
	f.fsdp.AfterBackward(k)
	f.late = append(f.late, k)
}

// BeforeBackward lets go of what was left.
func (f *fsdp1) BeforeBackward(node int32) {
	f.fsdp.BeforeBackward(node)
	f.letGo()
}

func (f *fsdp1) letGo() {
	for _, k := range f.late {
		for _, s := range f.groups[k].late {
			f.Tape.Release(s)
		}
		f.groups[k].late = nil
	}
	f.late = f.late[:0]
}

// AfterRerun keeps the parameters for the backward that follows.
func (*fsdp1) AfterRerun(_ int, y step.T) step.T { return y }

// Reran keeps the input of a layer and its gradient, if a hook holds them.
func (f *fsdp1) Reran(input step.T, grad int32) {
	if f.keepsReruns {
		f.inputs, f.inputGrads = append(f.inputs, f.Tape.Hold(input)), append(f.inputGrads, f.Tape.Share(grad))
	}
}

// EndBackward lets go of them after the gradients of the groups.
func (f *fsdp1) EndBackward() {
	f.letGo()
	f.fsdp.EndBackward()
	for i := len(f.inputs) - 1; i >= 0; i-- {
		f.Tape.Release(f.inputGrads[i])
		f.Tape.Drop(f.inputs[i])
	}
	f.inputs, f.inputGrads = nil, nil
}

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
	trained := f.flat(f.parameters, g.params, d)[1]
	numel, part := trained.numel, trained.part
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
	if g.sum = sum; !f.Offloaded {
		t.Stays(sum)
		g.sum = step.None
	}
	t.Release(input)
	if !f.Unsynced {
		t.Release(flat)
		return
	}
	t.Event(flat, step.FreeHeld)
	t.Lastly(from)
}
