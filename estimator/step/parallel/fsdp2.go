package parallel

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// FSDP2 is fully_shard: of every parameter each GPU holds a part of the first dimension.
// Source: torch/distributed/fsdp/_fully_shard, 2.9.
type FSDP2 struct{ Sharding }

// part is how many elements of p a GPU holds: the rows of the first dimension are dealt out in equal numbers, and the
// first GPU has never fewer than another.
// Source: _fsdp_param.py (FSDPParam._init_sharded_param).
func (s Sharding) part(p *step.Parameter) int64 {
	if p.Quantised != step.NotQuantised { // in one column
		return step.CeilDiv(extent(p), s.World)
	}
	if s.InnerColumns && p.Inner { // which divide evenly
		return p.Numel / s.InnerWorld
	}
	rows := p.FirstDim()
	return step.CeilDiv(rows, s.worldOf(p)) * (p.Numel / rows)
}

// Parts are a part of every parameter. Buffers are not divided.
func (s FSDP2) Parts(whole step.Parameters, list *[]step.Parameter) step.Parameters {
	parts := whole
	*list = append((*list)[:0], whole.List...)
	parts.List = *list
	for i := range parts.List {
		p := &parts.List[i]
		if p.Buffer {
			continue
		}
		if s.Offloaded {
			elsewhere(p)
			continue
		}
		held(p, s.part(p))
		if p.DealtOut {
			continue
		}
		switch {
		case p.Matrices == 0:
			p.Rows = p.Numel / max(p.Cols, 1)
		case s.InnerColumns && p.Inner:
			p.Rows = max(p.Numel/max(p.Matrices*p.Cols, 1), 1)
		default:
			p.Matrices = max(p.Numel/max(p.Rows*p.Cols, 1), 1)
		}
		p.Dtype = s.stored(p)
	}
	return parts
}

// Load is fully_shard on a model in the CPU's memory, layer by layer and then the rest: the parameters come to the GPU
// whole, the buffers beside them, every part is copied out of its parameter, and the whole ones go.
// Source: _fully_shard.py (fully_shard), _fsdp_param.py (FSDPParam._init_sharded_param), torch 2.9.
func (s FSDP2) Load(r *step.Rank, heap alloc.Heap) {
	if s.Meta {
		s.OneGPU.Load(r, heap)
		return
	}
	list := r.Whole.List
	table(r.Whole, heap)
	eachGroup(r.Whole, func(group []int) {
		var whole []int32
		for _, i := range group {
			if !list[i].Buffer {
				whole = append(whole, heap.Alloc(extent(&list[i])*s.stored(&list[i]).Size()))
			}
		}
		for _, i := range group {
			if list[i].Buffer {
				heap.Alloc(list[i].Bytes())
			}
		}
		for _, i := range group {
			switch p := &list[i]; {
			case p.Buffer:
			case s.Offloaded: // copied out here, and then brought to the CPU
				heap.Free(heap.Alloc(s.part(p) * s.stored(p).Size()))
			default:
				place(&r.Parts.List[i], heap)
			}
		}
		for _, h := range whole {
			heap.Free(h)
		}
	})
}

// LoadPeak is the largest group whole, beside the parts.
func (s FSDP2) LoadPeak(r *step.Rank, _ int64) int64 {
	var c alloc.Tally
	s.Load(r, &c)
	return c.Most
}

// Clip is the arithmetic where the norm is that of parts: the sum over the GPUs is a tensor of its own, and so is what
// is computed from it. Read off a trace; the arithmetic is that of DTensor.
// Source: torch/nn/utils/clip_grad.py (_clip_grads_with_norm_), torch/distributed/tensor/_redistribute.py, 2.9.
func (FSDP2) Clip(heap alloc.Heap, total int32, size int64) {
	summed := heap.Alloc(size)
	root := heap.Alloc(size)
	wide := heap.Alloc(size)
	sum := heap.Alloc(size)
	heap.Free(root)
	heap.Free(wide)
	inverse := heap.Alloc(size)
	heap.Free(sum)
	coefficient := heap.Alloc(size)
	heap.Free(inverse)
	heap.Free(summed)
	clamped := heap.Alloc(size)
	heap.Free(coefficient)
	heap.Free(clamped)
	heap.Free(total)
}

// Hooks are fully_shard's.
func (s FSDP2) Hooks(t *step.Tape) step.Hooks {
	f := &fsdp2{fsdp: newFSDP(t, s.Sharding)}
	f.collectives = f
	for i := range t.Parameters {
		if t.Parameters[i].Trained() {
			f.whole = t.Parameters[i].Dtype
		}
	}
	return f
}

type fsdp2 struct {
	fsdp
	whole step.DType // of gradients before they are summed
}

// prefetches: always.
func (*fsdp2) prefetches() bool { return true }

// gather casts the parts that are of another type than the one that they are gathered in first.
// Source: _fsdp_collectives.py (foreach_all_gather).
func (f *fsdp2) gather(g *shardGroup) {
	if f.world(g) == 1 { // each parameter is cast when it is waited for
		return
	}
	if f.Offloaded {
		f.gatherOffloaded(g)
		return
	}
	parts, casts := int64(0), int64(0)
	for _, i := range g.params {
		p := &f.parameters[i]
		n := f.part(p) * p.Dtype.Size() * p.Times(f.Tape.Prog.ExpertCopies)
		if parts += n; p.Dtype != f.stored(p) {
			casts += n
		}
	}
	cast := step.None
	if casts > 0 {
		cast = f.Tape.Aside(gatherStream, casts, step.Communication, step.LabelGatherInput)
	}
	g.output = f.Tape.Aside(gatherStream, parts*f.world(g), step.Communication, step.LabelGatherOutput)
	f.Tape.Release(cast)
}

// copyOut keeps the buffer that the parameters came in until the next group's are copied out in forward, so that the
// two may overlap.
// Source: _fsdp_param_group.py (FSDPParamGroup.wait_for_unshard).
func (f *fsdp2) copyOut(g *shardGroup, forward bool) {
	t := f.Tape
	f.freeFormer(forward)
	var columns []int32
	t.EachExpert(g.params, func(p int32) {
		w := &f.parameters[p]
		bytes := f.part(w) * f.world(g) * w.Dtype.Size()
		g.whole = append(g.whole, t.Alloc(bytes, step.Weights, step.LabelGathered))
		if g.inside && f.InnerColumns {
			columns = append(columns, t.Alloc(bytes, step.Communication, step.LabelGatherOutput))
		}
	})
	t.Release(t.Alloc(f.copyOutScratch(g), step.Communication, step.LabelShardScratch))
	for _, s := range columns {
		t.Release(s)
	}
	brought := g.output
	g.output = step.None
	if forward {
		brought, f.former = f.former, brought
	}
	t.Release(brought)
}

// freesGathersFirst lets go of what the last group was gathered in before the parameters of the next are copied out.
var freesGathersFirst = release.Declare("frees-gathers-first", release.Change{
	Library: "torch", After: "2.14", From: "2.15",
	What: "fully_shard of torch 2.15 lets go of what the layer before was gathered in before it copies a layer's " +
		"parameters out; a variable held it until behind that",
	Source: "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (wait_for_unshard), 2.9.1, 2.12.1, 2.13.0, " +
		"2.14.1 and 2.15.0",
	Shown: "traced ranks of Gemma 3 under trl on 2.15",
})

// freeFormer lets go of what the group before was gathered in, where later releases do so first.
func (f *fsdp) freeFormer(forward bool) {
	if forward && f.Tape.Recipe.Software.Has(freesGathersFirst) {
		f.Tape.Release(f.former)
		f.former = step.None
	}
}

// again does nothing: they are there.
func (*fsdp2) again(*shardGroup) {}

// reduce copies the whole gradients into one buffer, of which every GPU gets the sum of its part.
// Source: _fsdp_param_group.py (post_backward), _fsdp_collectives.py (foreach_reduce).
func (f *fsdp2) reduce(g *shardGroup) {
	t := f.Tape
	f.reshard(g)
	if f.Unsynced && f.Reduced != f.whole {
		f.widen(g)
	}
	from := t.Mark()
	with := f.withGradients(g)
	if len(with) == 0 {
		return
	}
	var columns []int32
	if g.inside && f.InnerColumns {
		columns = f.joinColumns(with)
	}
	numel := int64(0)
	for _, p := range with {
		numel += f.part(&f.parameters[p]) * f.parameters[p].Times(t.Prog.ExpertCopies)
	}
	t.Release(f.input)
	f.input = t.Alloc(numel*f.world(g)*f.Reduced.Size(), step.Communication, step.LabelReduceInput)
	t.Release(t.Alloc(f.copyInScratch(with), step.Communication, step.LabelShardScratch))
	// The list of gradients is cleared from its end, and a variable of the loop still holds the last of them.
	last := with[len(with)-1]
	for _, s := range slices.Backward(columns) {
		t.Release(s)
	}
	if columns == nil {
		for _, p := range slices.Backward(with[:len(with)-1]) {
			f.drop(p)
		}
	}
	sum := t.Aside(reduceStream, numel*f.Reduced.Size(), step.Gradients, step.LabelGradient)
	if f.Reduced != f.Stored {
		wide := t.Aside(reduceStream, numel*f.Stored.Size(), step.Gradients, step.LabelGradient)
		t.Release(sum)
		sum = wide
	}
	if f.Offloaded {
		f.drop(last)
		t.Release(sum)
	} else {
		t.Stays(sum)
		f.drop(last)
	}
	if f.Unsynced {
		t.Lastly(from)
	}
}

// joinColumns puts the columns of gradients that belong to one GPU side by side, each gradient in a tensor of its own.
// A variable of the loop holds a gradient until the next one's turn, and the last for longer.
// Source: _fsdp_collectives.py (foreach_reduce), torch 2.9.
func (f *fsdp2) joinColumns(with []int32) []int32 {
	var joined []int32
	for i, p := range with {
		if i > 0 {
			f.drop(with[i-1])
		}
		joined = append(joined, f.Tape.Alloc(f.parameters[p].Bytes(), step.Gradients, step.LabelGradient))
	}
	return joined
}

// GradientReady keeps a whole gradient until its group is summed: a copy where somebody else refers to it, and the one
// of the first micro-step where gradients are accumulated whole in the type that they came in.
func (f *fsdp2) GradientReady(p, s int32) {
	t := f.Tape
	if f.Staged && f.grads[p] != step.None { // which AccumulateGrad adds to
		t.Release(s)
		return
	}
	bytes := f.parameters[p].Bytes()
	held := f.Unsynced && f.Reduced == f.whole
	if held && t.SharedStorage(s) {
		f.grads[p] = t.HeldGradient(bytes)
		t.Release(s)
		return
	}
	if !t.Owned(s) {
		fresh := t.Alloc(bytes, step.Gradients, step.LabelGradient)
		t.Release(s)
		s = fresh
	}
	t.Gradient(s)
	if held {
		t.Becomes(s, step.Hold)
	}
	f.grads[p] = s
}

// drop lets go of the whole gradient of parameter p.
func (f *fsdp2) drop(p int32) {
	if s := f.grads[p]; f.Unsynced {
		f.Tape.Event(s, step.FreeHeld)
	} else {
		f.Tape.Release(s)
	}
	f.grads[p] = step.None
}

// widen brings the whole gradients of a group to the type that they are summed in, in which they are accumulated.
// Source: _fsdp_param.py (to_accumulated_grad_if_needed, accumulate_unsharded_grad_if_needed).
func (f *fsdp2) widen(g *shardGroup) {
	f.Tape.EachExpert(f.withGradients(g), func(p int32) {
		wide := f.Tape.HeldGradient(f.parameters[p].Numel * f.Reduced.Size())
		f.Tape.Release(f.grads[p])
		f.grads[p] = wide
	})
}
