package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// What both FSDPs do where every GPU's part is in the CPU's memory: a part comes to the GPU when its group is gathered,
// the sums of gradients go back, and the optimizer runs on the CPU.

// Update is the CPU's where it has the parts, and nothing on the GPU then.
func (s Sharding) Update(_ *step.Rank, _ alloc.Heap, u step.Updating) bool {
	if s.Offloaded {
		u.Started()
	}
	return s.Offloaded
}

// elsewhere leaves nothing of p on this GPU.
func elsewhere(p *step.Parameter) {
	if p.Quantised != step.NotQuantised {
		p.DealtOut, p.PackedPart = true, 0
	}
	p.Numel, p.Rows, p.Matrices, p.Absent = 0, 0, 0, true
}

// leave is what loading leaves on heap of a part, whose tensors go with the whole ones where the CPU has it.
func (s Sharding) leave(p *step.Parameter, heap alloc.Heap) {
	if !s.Offloaded {
		place(p, heap)
	}
}

// bring brings the parts of a group to the GPU one by one, each in a tensor of its own that is cast where it is
// gathered in another type, and returns those that are gathered.
// Source: _fsdp_param.py (FSDPParam.all_gather_inputs), torch 2.9.
func (f *fsdp2) bring(g *shardGroup) (inputs []int32) {
	t := f.Tape
	t.EachExpert(g.params, func(i int32) {
		p := &f.parameters[i]
		brought := t.Aside(gatherStream, f.part(p)*f.stored(p).Size(), step.Communication, step.LabelGatherInput)
		if p.Dtype != f.stored(p) {
			cast := t.Aside(gatherStream, f.part(p)*p.Dtype.Size(), step.Communication, step.LabelGatherInput)
			t.Release(brought)
			brought = cast
		}
		inputs = append(inputs, brought)
	})
	return inputs
}

// gatherOffloaded is gather where the CPU has the parts.
func (f *fsdp2) gatherOffloaded(g *shardGroup) {
	inputs, parts := f.bring(g), int64(0)
	for _, s := range inputs {
		parts += f.Tape.Bytes(s)
	}
	g.output = f.Tape.Aside(gatherStream, parts*f.world(g), step.Communication, step.LabelGatherOutput)
	for _, s := range slices.Backward(inputs) {
		f.Tape.Release(s)
	}
}

// lowPrecision allocates the part of a flat tensor as it is gathered; where the CPU has it, it comes in its own type
// first.
// Source: _flat_param.py (FlatParamHandle.pre_unshard, _use_low_precision_shard, flat_param_to), torch 2.9.
func (f *fsdp1) lowPrecision(flat flatTensor, d step.DType) int32 {
	t := f.Tape
	cast := step.None
	if d != flat.stored {
		cast = t.Aside(f.onCast, flat.part*d.Size(), step.Communication, step.LabelGatherInput)
	}
	if !f.Offloaded {
		return cast
	}
	brought := t.Aside(f.onCast, flat.part*flat.stored.Size(), step.Communication, step.LabelGatherInput)
	if cast == step.None {
		return brought
	}
	t.Release(brought)
	return cast
}

// keepPart lets go of what lowPrecision returned once it is gathered: at once where mixed precision made it, otherwise
// when the group is dealt out again.
// Source: _flat_param.py (FlatParamHandle.post_unshard), torch 2.9.
func (f *fsdp1) keepPart(g *shardGroup, flat flatTensor, part int32) {
	if part != step.None && flat.whole == flat.stored {
		g.brought = append(g.brought, part)
		return
	}
	f.Tape.Release(part)
}

// again brings parts that the CPU has once more for flat tensors that are together still: whether they are is looked
// at behind it.
// Source: _flat_param.py (FlatParamHandle.pre_unshard), torch 2.9.
func (f *fsdp1) again(g *shardGroup) {
	d := f.Tape.Recipe.Stored
	for _, flat := range f.flat(f.parameters, g.params, d) {
		if f.Offloaded && flat.numel > 0 {
			f.keepPart(g, flat, f.lowPrecision(flat, d))
		}
	}
}

// sendBack lets go of the parts that came to the GPU.
func (f *fsdp) sendBack(g *shardGroup) {
	for _, s := range g.brought {
		f.Tape.Release(s)
	}
	g.brought = g.brought[:0]
}
