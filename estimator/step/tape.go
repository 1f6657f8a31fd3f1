package step

const None int32 = -1

// storage is one allocation while its events are being recorded.
type storage struct {
	refs int32
	slot int32 // its entry in Program.Slots, none for an empty tensor
	// lazy is one more than the index of what an unmade tensor is computed from (torch.compile); 0 for any other.
	lazy int32
	marks
}

// marks is what is special about a storage.
type marks struct {
	// part marks what a parameter's gradient is a part of: the memory stays when nobody else refers to it.
	part bool
	// previous marks what the micro-step before this one left in the slot.
	previous bool
}

// Tape records a micro-step: the forward as the model runs it, then backward as
// autograd's engine would.
type Tape struct {
	Recipe Recipe
	Shape  Shape
	// Applied is what of the recipe the recording has made use of.
	Applied Applied

	Prog     *Program // what is recorded: always &program
	program  Program
	storages []storage
	// parameters are those of the model.
	Parameters []Parameter
	nodes      []node
	acts       []act
	params     []paramState
	pending    []int32 // parameters whose gradient is complete
	regs       [maxRegs]int32

	// The autocast cache, by parameter: the storage of its half copy (none without) and the edge to it;
	// cached lists the parameters that have one.
	cast     []int32
	castEdge []edge
	cached   []int32
	// detached are the inputs of a layer while checkpointing runs the layer again.
	detached []detachedInput

	// hooks are those of the recipe's strategy: alone where there is but one GPU.
	hooks Hooks
	// uses are the same where they act on every parameter by itself; used are the parameters of the next node.
	uses Uses
	used []int32
	// Rehearsed is what the hooks of a recording have left for those of the next; nil before the first.
	Rehearsed      Rehearsed
	alone          NoHooks
	gradientStream uint8

	eachUse bool // parameters are used once in a graph, and there are several graphs (pipelines)
	// half is the part of a backward that runs, and assigned the last gradient of the second.
	half     half
	assigned parameterGradient

	head   deferred // where the loss takes the head's place
	pieces []piece  // gradients of parts, for the operations that collect them

	// Look, where it is there, is called now and then, and ends the recording with a panic of Gone where it is false.
	Look func() bool

	// pass is the pass that a trainer lets run, and kind what the running stretch is for.
	pass passing
	// Another makes the same model once more, over the same parameters: a pass without a graph runs on it, since what a
	// model keeps of its last forward is what its checkpointed layers see in backward.
	Another func() Network
	// Companions are models that stand beside, for objectives that pass something through them.
	Companions []Companion
	kind       PassKind
	// untilUpdate are variables of the loop that live until the optimizer has stepped.
	untilUpdate []T

	// Where the recording stands.
	part     Part
	unit     int32 // layer unit, -1 outside
	expert   int32 // 0 outside
	falling  bool  // the experts follow each other from the last to the first
	runStart int   // first event of the expert's
	segStart int   // first event of the running segment
	backward bool
	noGrad   bool
	autocast bool
	spaces   [2][onceKinds]bool // by thread: what is allocated once and exists

	// Checkpointing.
	layersRun  int64 // how many layers' forward has run or runs
	layers     []checkpointed
	layer      int32     // index in layers while such a layer's forward runs, none outside
	recompute  bool      // a layer runs again in backward
	rebuilds   int32     // which, where its graph exists already
	transplant bool      // and its graph exists already: what it saves goes to the waiting nodes
	savesLeft  int32     // how many saved tensors these still wait for
	stopped    bool      // none: the rest of the layer does not run
	exec       execution // how what runs is run
	graph      autograd
	lossApart  bool  // the loss is compiled apart from the model
	broken     int32 // and its nodes come from here on
	lazies     []lazy
	// forwardAgain says that a forward of its own runs in backward.
	forwardAgain bool
	sumsAgain    bool // compiled norms keep the summands of their input
	lastCast     sharedCast
	postponed    postponed
	graphs       int // how often SeveralGraphs was told and not untold
	graphHolds   []T // what the checkpointed layers' closures keep alive

	leaves    []leaf // tensors of the forward that were made to require a gradient
	ownLeaves []T    // tensors made in a layer that want a gradient themselves
	second    T      // what a layer returned besides its output, where hasSecond says so
	hasSecond bool
	kept      []T // what operations keep beside what they save
}

type paramState struct {
	numel  int64
	dtype  DType
	frozen bool
	uses   int32 // gradient contributions that are still to come
	grad   int32 // storage that collects them
	viewed bool  // and that it is held through a view
	summed bool  // the one that comes last has been added to that before
	graded bool  // one has come
	born   bool  // one of a graph inside the micro-step has come
}

// piece is the gradient of a part of what node of took apart.
type piece struct{ of, gradient int32 }

// maxRegs is how many tensors a node's backward has room for at once: the two last are for scratch.
const maxRegs = 128

// node is one operation in the autograd graph.
type node struct {
	in      [inlineEdges]edge
	saved   [inlineSaved]int32
	grad    [inlineOuts]int32 // gradients of its outputs as they arrive
	views   [2]uint64         // by output: whether that gradient is a view of what holds its memory
	more    *overflow         // what has no room above
	first   int32             // its backward is acts[first:last]
	last    int32
	unit    int32
	expert  int32
	layer   int32 // the checkpointed layer that it belongs to, none otherwise
	nIn     uint8
	nSaved  uint8
	nOut    uint8
	part    Part
	reached bool
	awaits  uint8 // of a leaf whose gradient has to be laid out anew: how many are still to come
	// collects says that the gradients of its outputs are not added: they are parts of one tensor.
	collects bool
	// checkpoint marks the one node that stands for a whole layer (reentrant checkpointing).
	checkpoint bool
	// leaf marks a tensor that keeps the gradient that arrives.
	leaf bool
	// apart says that gradients of its outputs are no plain tensors, and that none is added to another in place.
	apart bool
	// hooked says that a hook of the strategy runs before its backward.
	hooked bool
}

// What a node has room for by itself: all that an operation of a family needs.
const (
	inlineEdges = 5
	inlineSaved = 9
	inlineOuts  = 3
)

// overflow is what a node of a recording has beyond that.
type overflow struct {
	in    []edge
	saved []int32
	grad  []int32
}

func (n *node) overflow() *overflow {
	if n.more == nil {
		n.more = &overflow{}
	}
	return n.more
}

// edgeAt is where the gradient of input k goes.
func (n *node) edgeAt(k uint8) edge {
	if k < inlineEdges {
		return n.in[k]
	}
	return n.more.in[k-inlineEdges]
}

// savedAt is the place of saved tensor k.
func (n *node) savedAt(k uint8) *int32 {
	if k < inlineSaved {
		return &n.saved[k]
	}
	return &n.more.saved[k-inlineSaved]
}

// gradAt is the place of the gradient of output k.
func (n *node) gradAt(k uint8) *int32 {
	if k < inlineOuts {
		return &n.grad[k]
	}
	return &n.more.grad[k-inlineOuts]
}

// viewed says whether the gradient of output k is a view.
func (n *node) viewed(k uint8) bool { return n.views[k>>6]&(1<<(k&63)) != 0 }

// view notes whether the gradient of output k is a view.
func (n *node) view(k uint8, is bool) {
	n.views[k>>6] &^= 1 << (k & 63)
	if is {
		n.views[k>>6] |= 1 << (k & 63)
	}
}

// addEdge appends an input, addSaved a saved tensor.
func (n *node) addEdge(e edge) {
	if n.nIn < inlineEdges {
		n.in[n.nIn] = e
	} else {
		more := n.overflow()
		more.in = append(more.in, e)
	}
	n.nIn++
}

func (n *node) addSaved(s int32) {
	if n.nSaved < inlineSaved {
		n.saved[n.nSaved] = s
	} else {
		more := n.overflow()
		more.saved = append(more.saved, s)
	}
	n.nSaved++
}

// outputs says that the node has at least so many.
func (n *node) outputs(count uint8) {
	for k := max(n.nOut, inlineOuts); k < count; k++ {
		more := n.overflow()
		more.grad = append(more.grad, None)
	}
	n.nOut = max(n.nOut, count)
}

// act is one action of a node's backward.
type act struct {
	verb verb
	route
	label Label
	bytes int64
}

// route says which register, output or saved tensor an action is about, and which edge.
type route struct{ reg, edge uint8 }

type verb uint8

const (
	actAlloc         verb = iota // allocate register reg
	actFree                      // free register reg
	actSend                      // hand register reg to edge
	actSendView                  // the same, through a view
	actPass                      // hand the incoming gradient of output reg to edge
	actPassView                  // the same, through a view
	actPassPart                  // the same, a part of it that a parameter takes over, and all of its memory with it
	actValidate                  // the operation's own backward ends here
	actWorkspace                 // a matrix product
	actSendSaved                 // hand saved tensor reg to edge
	actAllocLogits               // allocate register reg, as wide as the vocabulary
	actAddInPlace                // allocate register 0 unless a gradient for edge 0 is there to be added to
	actForget                    // let go of saved tensor reg
	actAfterBackward             // the backward of a unit of a strategy is over
	actSendMarked                // hand register reg, a view, to edge
	actSendAgain                 // hand register reg to edge, too
	actPostpone                  // form the gradient for edge when the parameter's other gradient arrives
	actPassOrMake                // hand the incoming gradient of output reg to edge; make one where that has no memory
)

func (t *Tape) Alloc(bytes int64, c Component, l Label) int32 {
	if bytes <= 0 || t.stopped {
		t.storages = append(t.storages, storage{refs: 1, slot: None})
		return int32(len(t.storages) - 1)
	}
	t.storages = append(t.storages, storage{refs: 1, slot: t.slot(Alloc, bytes, c, l)})
	return int32(len(t.storages) - 1)
}

// slot adds an allocation to the program, and the event that makes it. Its fields are written where they stay, since a
// struct of this many is copied through memory otherwise.
func (t *Tape) slot(op Op, bytes int64, c Component, l Label) int32 {
	i := int32(len(t.Prog.Slots))
	if i%slotsBetweenLooks == slotsBetweenLooks-1 {
		t.look()
	}
	t.Prog.Slots = append(t.Prog.Slots, Slot{})
	s := &t.Prog.Slots[i]
	s.Bytes, s.Component, s.Part, s.Label, s.Unit, s.Expert = bytes, c, t.part, l, t.unit, t.expert
	t.Prog.Events = append(t.Prog.Events, Event{i, op})
	return i
}

func (t *Tape) retain(s int32) {
	if s != None {
		t.storages[s].refs++
	}
}

func (t *Tape) Release(s int32) {
	if s == None {
		return
	}
	st := &t.storages[s]
	if st.refs--; st.refs == 0 && st.lazy > 0 {
		z := t.lazies[st.lazy-1]
		st.lazy = 0
		t.forget(z)
		return
	}
	if st.refs == 0 && st.slot != None {
		op := Free
		switch {
		case st.previous:
			op = FreePrev
		case st.part:
			op = Keep
			t.Prog.Slots[st.slot].Component = Gradients
		}
		t.Prog.Events = append(t.Prog.Events, Event{st.slot, op})
	}
}

// Drop says that the program's variables for xs go out of scope or are reassigned, in this order.
func (t *Tape) Drop(xs ...T) {
	for i := range xs {
		t.Release(xs[i].storage)
	}
}

// Hold adds a variable that refers to x.
func (t *Tape) Hold(x T) T { t.retain(x.storage); return x }

// HoldThroughBackward keeps xs until backward is over, as variables of the loop do.
func (t *Tape) HoldThroughBackward(xs ...T) {
	for _, x := range xs {
		t.graphHolds = append(t.graphHolds, t.Hold(x))
	}
}

// In sets which part of the activations the following operations belong to, and returns the former one.
func (t *Tape) In(p Part) Part {
	old := t.part
	t.part = p
	if p != old && (p == PartAttention || p == PartMLP) { // which are modules
		t.Modules(1)
	}
	return old
}

// fresh makes a forward tensor that no gradient reaches.
func (t *Tape) fresh(numel int64, d DType, l Label) T {
	x := T{storage: t.Alloc(numel*d.Size(), t.component(), l), edge: noEdge, form: plain(d), numel: numel}
	t.typed(x)
	return x
}

// typed notes the type of x for explanations.
func (t *Tape) typed(x T) {
	if i := t.storages[x.storage].slot; i != None {
		s := &t.Prog.Slots[i]
		s.Dtype, s.Typed = x.dtype, true
	}
}

func (t *Tape) component() Component {
	if t.backward {
		if t.recompute || t.forwardAgain {
			return Activations
		}
		return Temporaries
	}
	return Activations
}

// grads says whether an operation on xs belongs into the autograd graph.
func (t *Tape) grads(xs ...T) bool {
	if t.noGrad {
		return false
	}
	for _, x := range xs {
		if x.edge != noEdge {
			return true
		}
	}
	return false
}
