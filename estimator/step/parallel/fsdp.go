package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// Sharding is what both FSDPs have in common. Of every parameter each GPU holds a part. A layer is put together when
// its forward or its backward comes, and its gradients are summed, each GPU keeping its part, as soon as its backward
// is over.
type Sharding struct {
	step.OneGPU
	// World is how many GPUs there are; nothing is sharded below two.
	World int64
	// Stored is the type of the parts, Frozen that of the parts that are not trained, Reduced that in which gradients
	// are summed. Parameters are gathered in the type in which they are computed with.
	Stored, Frozen, Reduced step.DType
	// Beside is the type of the parts of a model that stands beside the trained one.
	Beside step.DType
	// KeepsLayers and KeepsRoot are reshard_after_forward=False: gathered parameters stay from forward to backward.
	KeepsLayers, KeepsRoot bool
	// Unsynced sums gradients over the GPUs in the last micro-step only; until then every GPU accumulates whole ones.
	Unsynced bool
	// Staged is a stage of a pipeline: parameters stay gathered from the first micro-batch to the last, and gradients
	// are accumulated whole until then.
	Staged bool
	// Meta says that the model is made without memory, so that no parameter is whole on the GPU while it is loaded.
	Meta bool
	// Apart deals sections out by themselves, as torchtitan and accelerate do.
	Apart bool
	// InnerWorld is over how many GPUs a unit inside a layer is dealt out, 0 where there is none. Layers are then told
	// which to ask for ahead.
	InnerWorld int64
	// InnerColumns deals the matrices of that unit out by their second dimension (Shard(1)).
	InnerColumns bool
	// CastsOutputs is output_dtype: what the model returns is brought to the type that it computes in.
	CastsOutputs bool
	// Offloaded keeps the parts in the CPU's memory, where the optimizer runs (CPUOffloadPolicy, CPUOffload).
	Offloaded bool
}

// SumsLast is whether gradients are accumulated whole.
func (s Sharding) SumsLast() bool { return s.Unsynced }

// stored is the type of a GPU's part of p. Quantised weights are packed into numbers of the type that they are
// dequantised to (bnb_4bit_quant_storage), for FSDP deals out nothing but floating point. Source:
// torch/distributed/fsdp/_flat_param.py (_validate_tensors_to_flatten), 2.9.
func (s Sharding) stored(p *step.Parameter) step.DType {
	if p.Quantised != step.NotQuantised {
		return p.Dtype
	}
	if p.Frozen {
		return s.Frozen
	}
	return s.Stored
}

// extent is how many numbers of p are dealt out.
func extent(p *step.Parameter) int64 {
	if p.Quantised != step.NotQuantised {
		return step.CeilDiv(p.Packed(), p.Dtype.Size())
	}
	return p.Numel
}

// held leaves so many numbers of p on this GPU.
func held(p *step.Parameter, n int64) {
	if p.Quantised != step.NotQuantised {
		p.DealtOut, p.PackedPart = true, n*p.Dtype.Size()
		return
	}
	p.Numel = n
}

// table brings the table to heap that every weight with nested scales copies.
func table(p step.Parameters, heap alloc.Heap) {
	if p.Nested() {
		heap.Alloc(step.DynamicCode)
	}
}

// place brings what this GPU holds of p to heap.
func place(p *step.Parameter, heap alloc.Heap) {
	if p.Buffer {
		heap.Alloc(p.Bytes())
		return
	}
	if !p.Absent {
		p.Tensors(func(bytes int64) { heap.Alloc(bytes) })
	}
}

// Streams besides the one that computes. The allocator gives memory that was allocated on a stream to that stream
// alone.
const (
	gatherStream = 1 + iota
	reduceStream
)

// collectives are what tells the two FSDPs apart.
type collectives interface {
	// gather starts the all-gather of a group, copyOut waits for it and makes the parameters of what it has brought.
	gather(g *shardGroup)
	copyOut(g *shardGroup, forward bool)
	// prefetches says whether backward asks for the group before while that of one runs.
	prefetches() bool
	// reduce sums the whole gradients of a group.
	reduce(g *shardGroup)
	// again is what waiting for a group does whose parameters have stayed since the forward.
	again(g *shardGroup)
}

// fsdp is the groups of a model while a micro-step is recorded, and the hooks that both FSDPs share.
type fsdp struct {
	step.NoHooks
	collectives
	dealtModel
	grads []int32 // by parameter: its whole gradient
	sums  []int32 // by parameter: those of the micro-batches so far, where they are accumulated here
	marks []marked
	input int32      // of the last reduce-scatter
	stage step.Stage // of a pipeline, that runs
	// other is the model that stands beside the trained one while that one's passes run, and the trained one while that
	// one's do.
	other dealtModel
	// within says that a pass runs through the model that stands beside.
	within bool
}

// dealtModel is a model that is dealt out, and where its forward stands.
type dealtModel struct {
	Sharding
	parameters []step.Parameter
	groups     []shardGroup
	inner      []int // by layer, from 1: the group of the unit inside it, 0 where there is none
	order      []int // the groups in the order in which their forward ended
	former     int32 // what the last all-gather of the forward brought
	// rootDone says that the post-forward hook of what is dealt out with the root has run.
	rootDone bool
}

// marked says which group's parameters the backward of a node needs.
type marked struct {
	node  int32
	group int
}

func newFSDP(t *step.Tape, s Sharding) fsdp {
	f := fsdp{NoHooks: step.NoHooks{Tape: t}, dealtModel: dealt(s, t.Parameters), input: step.None}
	f.grads = make([]int32, len(t.Parameters))
	for i := range f.grads {
		f.grads[i] = step.None
	}
	f.sums = slices.Clone(f.grads)
	return f
}

// dealt is a model of these parameters.
func dealt(s Sharding, parameters []step.Parameter) dealtModel {
	m := dealtModel{Sharding: s, parameters: parameters, former: step.None}
	m.groups, m.inner = groups(parameters, s.Apart)
	return m
}

// BeginPass turns to the model that is passed through. One that stands beside is never trained, so that what is dealt
// out with its root stays gathered from its first forward on.
// Source: torch/distributed/fsdp/_runtime_utils.py (_post_forward_reshard), 2.9.
func (f *fsdp) BeginPass(beside bool, _ int32, parameters []step.Parameter) {
	if !beside {
		return
	}
	if f.other.groups == nil {
		s := f.Sharding
		s.Stored, s.Frozen = s.Beside, s.Beside
		f.other = dealt(s, parameters)
		f.other.groups[0].whole = []int32{step.None} // which FSDP1.Beside counts
	}
	f.dealtModel, f.other, f.within = f.other, f.dealtModel, true
}

// EndPass turns back to the trained model.
func (f *fsdp) EndPass() {
	if f.within {
		f.dealtModel, f.other, f.within = f.other, f.dealtModel, false
	}
}

// allGather starts the all-gather of group k, unless its parameters are there or on their way.
func (f *fsdp) allGather(k int) {
	if g := &f.groups[k]; g.output == step.None && len(g.whole) == 0 && len(g.params) > 0 {
		f.gather(g)
	}
}

// ask is allGather for a group that may have stayed since the forward.
func (f *fsdp) ask(k int) {
	if g := &f.groups[k]; g.kept {
		g.kept = false
		f.again(g)
	}
	f.allGather(k)
}

// unshard waits for the parameters of group k.
func (f *fsdp) unshard(k int, forward bool) {
	f.ask(k)
	switch g := &f.groups[k]; {
	case g.output != step.None:
		f.copyOut(g, forward)
	case f.world(g) == 1 && len(g.whole) == 0 && len(g.params) > 0:
		f.castWhole(g, forward)
	}
}

// reshard lets go of the gathered parameters of a group.
func (f *fsdp) reshard(g *shardGroup) {
	f.sendBack(g)
	for _, s := range g.whole {
		f.Tape.Release(s)
	}
	g.whole, g.kept = g.whole[:0], false
}

// castForward is x in the type that MixedPrecisionPolicy lets the inputs and outputs of every module that is dealt out
// have.
// Source: _fsdp_state.py (_pre_forward, cast_forward_inputs; _post_forward, output_dtype).
func (f *fsdp) castForward(x step.T) step.T {
	if d := x.Dtype(); f.CastsOutputs && x.Numel() > 0 && (d == step.F32 || d.Half()) {
		return f.Tape.Cast(x, f.Tape.Recipe.Compute, f.Tape.Label(x))
	}
	return f.Tape.Hold(x)
}

// BeforeForward is the pre-forward hook of the root.
func (f *fsdp) BeforeForward(batch []step.T) []step.T {
	seen := make([]step.T, len(batch))
	for i, x := range batch {
		seen[i] = f.castForward(x)
	}
	f.rootDone = false
	f.unshard(0, true)
	return seen
}

// AfterForward is the post-forward hook of the root. It may bring what the model returned to the type that it computes
// in; a variable holds the last gathered buffer until then.
// Source: _fsdp_state.py (_post_forward).
func (f *fsdp) AfterForward(loss step.T, outputs []step.T) step.T {
	t := f.Tape
	if !f.rootDone {
		first := loss
		if loss.Numel() == 0 && len(outputs) > 0 { // a trainer computes the loss of what is returned
			first = outputs[0]
		}
		f.afterForward(0, first, f.KeepsRoot)
	}
	d := t.Recipe.Compute
	if f.CastsOutputs && loss.Numel() > 0 && loss.Dtype() != d {
		cast := t.Cast(loss, d, step.LabelLoss)
		for i := range outputs {
			if outputs[i].Shares(loss) {
				t.Drop(outputs[i])
				outputs[i] = t.Hold(cast)
			}
		}
		t.Drop(loss)
		loss = cast
	}
	for i, x := range outputs {
		if f.CastsOutputs && x.Dtype() == step.F32 && d != step.F32 && t.Label(x) != step.LabelCache {
			outputs[i] = t.Cast(x, d, t.Label(x))
			t.Drop(x)
		}
	}
	t.Release(f.former)
	f.former = step.None
	return loss
}

// BeforeUnit is the pre-forward hook of a layer.
func (f *fsdp) BeforeUnit(unit int, x step.T, graph bool) step.T {
	if !graph { // then there is no backward to wait for
		x = f.Tape.WithoutGraph(func() step.T { return f.castForward(x) })
		f.unshard(unit, true)
		return x
	}
	return f.BeforeRerun(unit, x)
}

// AfterUnit is the post-forward hook of a layer.
func (f *fsdp) AfterUnit(unit int, y step.T, graph bool) step.T {
	f.endInner(unit)
	if graph {
		f.afterForward(unit, y, f.KeepsLayers)
		return f.castOutput(y)
	}
	f.afterForward(unit, y.Detached(), f.KeepsLayers)
	return f.Tape.WithoutGraph(func() step.T { return f.castOutput(y.Detached()) }).Attached(y)
}

// castOutput takes over y, which a layer returns, and casts it and the second output.
func (f *fsdp) castOutput(y step.T) step.T {
	t := f.Tape
	cast := f.castForward(y)
	t.ReplaceSecond(f.castForward)
	t.Drop(y)
	return cast
}

// BeforeRerun is the pre-forward hook of a layer that reentrant checkpointing runs again.
func (f *fsdp) BeforeRerun(unit int, x step.T) step.T {
	x = f.castForward(x)
	f.unshard(unit, true)
	f.askAhead(unit)
	return f.Tape.MarkInput(unit, x)
}

// AfterRerun is its post-forward hook. The layer is taken for the root of a forward of its own; and since it counts as
// one that ran after all others, its backward will ask for the layer that was run again before it, which nobody waits
// for.
func (f *fsdp) AfterRerun(unit int, y step.T) step.T {
	f.afterForward(unit, y, f.KeepsLayers)
	y = f.castOutput(y)
	f.Tape.Release(f.former) // which a variable holds until then
	f.former = step.None
	return y
}

// Returned is the type of the policy.
func (f *fsdp) Returned(d step.DType) step.DType {
	if f.CastsOutputs {
		return f.Tape.Recipe.Compute
	}
	return d
}

// afterForward is the post-forward hook of group k, which returned x.
func (f *fsdp) afterForward(k int, x step.T, keeps bool) {
	if len(f.groups[k].params) == 0 { // everything is dealt out below
		return
	}
	if g := &f.groups[k]; !keeps {
		f.reshard(g)
	} else {
		f.sendBack(g)
		g.kept = len(g.whole) > 0
	}
	f.groups[k].turn = len(f.order)
	f.order = append(f.order, k)
	if node, ok := f.Tape.MarkBackward(x); ok {
		f.marks = append(f.marks, marked{node, k})
	}
}

// BeforeBackward is the pre-backward hook of the group that a node belongs to: its parameters have to be there, and
// those of the group that ran before it in forward are asked for.
// Source: _fsdp_param_group.py (pre_backward, _backward_prefetch).
func (f *fsdp) BeforeBackward(node int32) {
	at := slices.IndexFunc(f.marks, func(m marked) bool { return m.node == node })
	k := f.marks[at].group
	f.marks = slices.Delete(f.marks, at, at+1) // the number of a node may be used again
	f.unshard(k, false)
	// In a pipeline every group of the stage is there, and other stages are not this one's to ask for.
	if f.Staged || f.askBehind(k) {
		return
	}
	if turn := f.groups[k].turn; turn > 0 && f.prefetches() {
		f.ask(f.order[turn-1])
	}
}

// AfterBackward is the post-backward hook of group k.
func (f *fsdp) AfterBackward(k int) {
	g := &f.groups[k]
	if g.summed {
		return
	}
	g.summed = true
	if f.Staged {
		f.accumulate(g)
		return
	}
	f.reduce(g)
}

// EndBackward runs the post-backward hooks that no gradient of an input has run, the root's first.
// Source: _fsdp_state.py (_root_post_backward_final_callback).
func (f *fsdp) EndBackward() {
	for _, k := range f.inModuleOrder() {
		f.AfterBackward(k)
		f.Tape.Release(f.groups[k].output)
		f.groups[k].output = step.None
	}
	from := f.Tape.Mark()
	f.Tape.Release(f.input)
	f.input = step.None
	for k := range f.groups {
		f.Tape.Release(f.groups[k].sum)
		f.groups[k].sum = step.None
	}
	if f.Unsynced {
		f.Tape.Lastly(from)
	}
}

// inModuleOrder are the groups in the order of their modules: the root, the input embedding, and what comes behind it.
func (f *fsdp) inModuleOrder() []int {
	order := make([]int, 0, len(f.groups))
	input := 0
	if f.Apart {
		input = f.group(step.InputSection)
	}
	for k := range f.groups {
		if k == input && k > 0 {
			continue
		}
		order = append(order, k)
		if k == 0 && input > 0 {
			order = append(order, input)
		}
	}
	return order
}

// EndEvaluation lets go of what stays gathered for a backward. It stays, in fact, until that of the next step; no
// moment before that is larger for it than the end of the forward is without it.
func (f *fsdp) EndEvaluation() {
	for k := range f.groups {
		f.reshard(&f.groups[k])
		f.Tape.Release(f.groups[k].output)
		f.groups[k].output = step.None
	}
}
