package step

import "github.com/vramplan/vramplan/estimator/step/alloc"

// Strategy is how a job is spread over GPUs, as the one that is planned for sees it: what it holds of every parameter,
// and what it does besides at the moments at which GPUs have something to send each other. A strategy is a comparable
// value that knows no state: jobs of equal recipes are replayed alike. It embeds [OneGPU] for everything that it leaves
// as it is there.
type Strategy interface {
	// Parts are the parameters as this GPU holds them between two steps, in the storage of list.
	Parts(whole Parameters, list *[]Parameter) Parameters
	// Hooks are what happens while t records a micro-step.
	Hooks(t *Tape) Hooks

	// Load brings the model to heap; LoadPeak is the most that this holds in blocks, where the weights take so many
	// bytes at its end.
	Load(r *Rank, heap alloc.Heap)
	LoadPeak(r *Rank, weights int64) int64
	// BeforeFirstForward follows the first batch, NextStep the first and every later optimizer step.
	BeforeFirstForward(r *Rank, heap alloc.Heap)
	NextStep(r *Rank, heap alloc.Heap)
	// Stays calls f with the bytes of everything that lasts from step to step besides what every job holds.
	Stays(r *Rank, f func(bytes int64, c Component))
	// SumsLast says that gradients are summed over the GPUs in the last micro-step of an optimizer step only, which is
	// unlike the others then.
	SumsLast() bool
	// Clip brings the gradients to the norm whose handle is total, a scalar of the given bytes, which it frees.
	Clip(heap alloc.Heap, total int32, size int64)
	// Update is the whole optimizer step where the strategy has one of its own; false where it has none, and gradients
	// are clipped and parts updated as on one GPU.
	Update(r *Rank, heap alloc.Heap, u Updating) bool
	// Irregular says that layers are not alike under it, so that every one has to be recorded.
	Irregular() bool
	// Rehearses says that its hooks have to know what happened in the step before, which a first recording gives
	// (Tape.Rehearsed).
	Rehearses() bool
	// LoadYields says that loading takes less memory where less is free, so that its peak keeps no job from running.
	LoadYields() bool
}

// Aligning is a strategy whose gradients are not in the form of the parameters until the optimizer asks for it.
type Aligning interface {
	// Align allocates what the optimizer reads instead, which is freed after the update.
	Align(r *Rank, heap alloc.Heap) []int32
	// Elements are those of a parameter's gradient until then.
	Elements(p *Parameter) int64
}

// Deals is a strategy that deals out a model that stands beside the trained one, too.
type Deals interface {
	// BesideModel is what this GPU holds of it, whose passes are computed in the given type.
	BesideModel(whole Parameters, computed DType) Parameters
}

// Updating is what an optimizer step of a strategy's own needs of the session.
type Updating struct {
	// LetGo frees the gradients that the micro-steps have left, so many bytes in one tensor.
	LetGo func(bytes int64)
	// Run updates parameters, which need not be those of the model.
	Run func(ps []*Parameter)
	// Started ends the first step: the optimizer's states are there.
	Started func()
}

// Hooks are the moments of a micro-step at which a strategy acts on the tape that records it. Units are numbered from 1
// in the order of the forward.
type Hooks interface {
	// BeforeForward is the batch as the model sees it, and AfterForward the loss; it may put others into the outputs'
	// places. The caller lets go of what BeforeForward returns.
	BeforeForward(batch []T) []T
	AfterForward(loss T, outputs []T) T
	// BeforeUnit is the input x of a unit as it sees it, which the caller lets go of; AfterUnit takes over what the
	// unit returned. graph is false where reentrant checkpointing lets the unit run without a graph.
	BeforeUnit(unit int, x T, graph bool) T
	AfterUnit(unit int, y T, graph bool) T
	// BeforeRerun and AfterRerun are the same where such a unit runs again in backward, on its detached input.
	BeforeRerun(unit int, x T) T
	AfterRerun(unit int, y T) T
	// Returned is the type in which what a unit returns in type d reaches the next.
	Returned(d DType) DType
	// BeforeBackward precedes the backward of a node that a hook has marked (Tape.MarkBackward), AfterBackward that of
	// a unit whose input a hook has marked (Tape.MarkInput).
	BeforeBackward(node int32)
	AfterBackward(unit int)
	// GradientReady takes over storage s, the whole gradient of parameter p.
	GradientReady(p, s int32)
	// GradientStream is the stream on which a parameter's gradients are added up.
	GradientStream() uint8
	// EndBackward follows the backward of the whole model.
	EndBackward()
}

// Around are hooks that add to others.
type Around interface {
	// Within are the others.
	Within() Hooks
}

// hooksAs finds the first of hooks and those that they are around which is a C, as errors.As does.
func hooksAs[C any](h Hooks) (c C, ok bool) {
	for {
		if c, ok = h.(C); ok {
			return c, true
		}
		outer, ok := h.(Around)
		if !ok {
			return c, false
		}
		h = outer.Within()
	}
}

// Evaluates is what hooks do besides when a pass without a backward has ended.
type Evaluates interface{ EndEvaluation() }

// Uses are what hooks are told besides where they act on every parameter by itself.
type Uses interface {
	// Use precedes an operation on parameter p, in forward or where checkpointing runs it again.
	Use(p int32)
	// Operated follows the uses of an operation: what it used is that of one module.
	Operated()
	// Within runs what a module does by itself with its parameters: several operations, of which the graph keeps views
	// of what they used. (A parameter that is saved as it is holds no storage of its own.)
	Within(f func())
	// Bare precedes the forward of n modules without parameters, one within the other.
	Bare(n int)
	// Saves says that the backward of a node needs parameters, which the callee does not keep; AfterNode follows it.
	Saves(node int32, params []int32)
	AfterNode(node int32)
}

// Passes are hooks that are told through which model a pass of a trainer runs: the trained one or one that stands
// beside it, whose parameters have numbers from first on.
type Passes interface {
	BeginPass(beside bool, first int32, parameters []Parameter)
	EndPass()
}

// Generates are hooks that do something of their own where the trained model writes completions.
type Generates interface {
	BeginGeneration()
	EndGeneration()
}

// Rehearsed is what hooks know when a recording has ended that those of the next have to know.
type Rehearsed interface {
	// Equal says that another knows the same.
	Equal(other Rehearsed) bool
}

// Reruns are told besides what the backward of a unit that ran again leaves.
type Reruns interface {
	// Reran follows the backward of the unit's detached input, whose gradient is storage grad.
	Reran(input T, grad int32)
}

// Rank is one GPU of those that share a job.
type Rank struct {
	Recipe *Recipe
	// Whole are the parameters of the model, Parts what this GPU holds of them.
	Whole, Parts Parameters
	// Trained lists the parts with gradients, in the order of the optimizer.
	Trained func() []*Parameter
	// Reduced lists those with room for gradients that go between GPUs, whether one reaches them or not.
	Reduced func() []*Parameter
	// Ready is the program's.
	Ready []int32
	// Held are the handles of what the strategy keeps from step to step.
	Held []int32
}

// Spread is the strategy of the recipe: one GPU where it names none.
func (r *Recipe) Spread() Strategy {
	if r.Strategy == nil {
		return OneGPU{}
	}
	return r.Strategy
}

// Aside allocates on another stream than the one that computes.
func (t *Tape) Aside(stream uint8, bytes int64, c Component, l Label) int32 {
	from := t.Mark()
	s := t.Alloc(bytes, c, l)
	t.moveAside(from, stream)
	return s
}

// Modules says that n modules without parameters begin, which hooks that act on every module are told of.
func (t *Tape) Modules(n int) {
	if t.uses != nil {
		t.uses.Bare(n)
	}
}

// Module is what a module computes of its parameters by itself, where no hook replaces the operation.
func (t *Tape) Module(f func() T) (y T) {
	if t.uses == nil {
		return f()
	}
	t.uses.Within(func() { y = f() })
	return y
}

// Graphed says that operations are recorded in the graph.
func (t *Tape) Graphed() bool { return !t.noGrad }

// Checkpointed says that what runs is run again in backward.
func (t *Tape) Checkpointed() bool { return t.layer != None }

// Mark is where the program stands.
func (t *Tape) Mark() int { return len(t.Prog.Events) }

// moveAside lets what is allocated from event from on be allocated on another stream.
func (t *Tape) moveAside(from int, stream uint8) {
	for i := from; i < len(t.Prog.Events); i++ {
		if e := &t.Prog.Events[i]; e.Op == Alloc {
			e.Op = AllocAside
			t.Prog.Slots[e.Slot].Stream = stream
		}
	}
}

// MarkBackward lets the hooks run before the backward of what made x, and says of which node; ok is false where nothing
// did.
func (t *Tape) MarkBackward(x T) (node int32, ok bool) {
	if x.edge < 0 {
		return None, false
	}
	node = x.edge.node()
	t.nodes[node].hooked = true
	return node, true
}

// MarkInput is x as the input of a unit, whose hook runs when the gradient of x is there.
func (t *Tape) MarkInput(unit int, x T) T {
	return t.op(x).pass(0, 0).act(act{verb: actAfterBackward, bytes: int64(unit)}).out(x, 0)
}

// Stays makes storage s a gradient that is there until the optimizer has seen it: added to an older one from the second
// micro-step on.
func (t *Tape) Stays(s int32) { t.Becomes(s, Keep) }

// Becomes ends the tape's own count of references to storage s: event o says what is done with it.
func (t *Tape) Becomes(s int32, o Op) {
	t.storages[s].refs = 0
	t.Event(s, o)
}

// Event adds what happens to storage s.
func (t *Tape) Event(s int32, o Op) {
	t.Prog.Events = append(t.Prog.Events, Event{t.storages[s].slot, o})
}

// Lastly lets the events from the given one on happen in the last micro-step only.
func (t *Tape) Lastly(from int) {
	for i := from; i < len(t.Prog.Events); i++ {
		e := &t.Prog.Events[i]
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

// Gradient says that storage s is a gradient from here on.
func (t *Tape) Gradient(s int32) {
	if i := t.storages[s].slot; i != None {
		t.Prog.Slots[i].Component = Gradients
	}
}

// Owned takes what a parameter's gradient is a part of for the gradient itself, and says whether nobody else refers to
// it.
func (t *Tape) Owned(s int32) bool {
	st := &t.storages[s]
	if st.part {
		st.part = false
		return true
	}
	return st.refs == 1
}

// HeldGradient allocates a whole gradient that is accumulated, in the first micro-step.
func (t *Tape) HeldGradient(bytes int64) int32 { return t.Held(bytes, Gradients, LabelGradient) }

// Held allocates what lasts from the first micro-step to the last.
func (t *Tape) Held(bytes int64, c Component, l Label) int32 {
	t.storages = append(t.storages, storage{slot: t.slot(AllocHeld, bytes, c, l)})
	return int32(len(t.storages) - 1)
}

// WithoutGraph runs f while nothing is recorded in the graph.
func (t *Tape) WithoutGraph(f func() T) T {
	outside := t.noGrad
	t.noGrad = true
	x := f()
	t.noGrad = outside
	return x
}

// ReplaceSecond puts what f makes of a unit's second output in its place, if there is one.
func (t *Tape) ReplaceSecond(f func(T) T) {
	if t.hasSecond {
		second := t.second
		t.second = f(second)
		t.Drop(second)
	}
}

// Bytes is the size of storage s.
func (t *Tape) Bytes(s int32) int64 {
	if i := t.storages[s].slot; i != None {
		return t.Prog.Slots[i].Bytes
	}
	return 0
}

// Share counts one more reference to storage s, which Release ends.
func (t *Tape) Share(s int32) int32 {
	t.retain(s)
	return s
}

// SharedStorage says that somebody else refers to storage s, too.
func (t *Tape) SharedStorage(s int32) bool { return t.storages[s].refs > 1 }
