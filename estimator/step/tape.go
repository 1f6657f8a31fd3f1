package step

import "github.com/vramplan/vramplan/estimator/memory"

// DType is the element type of a tensor.
type DType uint8

// The element types that a training step uses.
const (
	F32 DType = iota
	BF16
	F16
	I64
	Bool
	F64
)

// Size is the bytes of one element.
func (d DType) Size() int64 {
	switch d {
	case F32:
		return 4
	case BF16, F16:
		return 2
	case I64, F64:
		return 8
	}
	return 1
}

// Half says whether d is one of the two half-precision types.
func (d DType) Half() bool { return d == BF16 || d == F16 }

// Component is the kind of memory that a tensor belongs to in an answer.
type Component uint8

// The components that the replay itself fills; allocator and CUDA context, and NCCL's part of
// communication, are added by the estimator.
const (
	Weights Component = iota
	Gradients
	OptimizerState
	PrecisionCopies
	Activations
	LogitsAndLoss
	Temporaries
	Communication
	ComponentCount
)

// Part divides the activations by the kind of module that made them.
type Part uint8

// The parts of the activations.
const (
	PartAttention Part = iota
	PartMLP
	PartNorm
	PartEmbedding
	PartCount
)

// T is a tensor as the replay sees it: which storage it is a view of, which
// operation made it and how many elements of which type it has. Views share a
// storage; reshaping costs nothing and is not recorded.
type T struct {
	storage int32
	edge    edge
	form
	numel int64
}

// form is the type of a tensor's elements and how they lie. It is a struct of its own because the compiler keeps structs in
// registers only if none in them has more than four fields, and tensors are what operations hand around.
type form struct {
	dtype  DType
	layout headLayout
	// permuted says that the elements lie in another order than that of the dimensions.
	permuted bool
}

// plain is the form of a tensor of type d that lies as it was made.
func plain(d DType) form { return form{dtype: d} }

// headLayout is how a tensor of heads lies in memory, as far as the operations on it notice.
type headLayout uint8

const (
	tokensFirst headLayout = iota // as a projection leaves it
	headsFirst                    // written by a concatenation or a repetition
	repeated                      // a view that shows one head to all queries
)

// Numel is the number of elements of t.
func (t T) Numel() int64 { return t.numel }

// Dtype is the element type of t.
func (t T) Dtype() DType { return t.dtype }

// bytes is the size of t when it is laid out densely.
func (t T) bytes() int64 { return t.numel * t.dtype.Size() }

// RequiresGrad says whether backward will visit t.
func (t T) RequiresGrad() bool { return t.edge != noEdge }

// edge is where a gradient goes: output out of node n (n<<2 | out), a parameter
// (-2-p), or nowhere.
type edge int32

const noEdge edge = -1

func paramEdge(p int32) edge { return edge(-2 - p) }

func (e edge) param() (int32, bool) { return int32(-2 - e), e <= -2 }

const none int32 = -1

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
	// viewed marks a gradient that is held through a view of it.
	viewed bool
	// part marks what a parameter's gradient is a part of: the memory stays when nobody else refers to it.
	part bool
	// previous marks what the micro-step before this one left in the slot.
	previous bool
}

// Slot is one allocation of a micro-step program.
type Slot struct {
	Bytes     int64
	Component Component
	Part      Part
	Label     Label
	// Dtype is the type of its elements where Typed says that it is known.
	Dtype DType
	Typed bool
	// Stream is where AllocAside allocates it.
	Stream uint8
	// Unit is the layer unit in whose forward or backward segment it was born, -1 outside.
	Unit int32
}

// Op is what an event does.
type Op = memory.Op

// The events of a micro-step program. The first micro-step of an optimizer step
// finds no gradients, later ones add to those that are there.
const (
	Alloc = memory.Take  // allocate the slot
	Free  = memory.Give  // free the slot
	Keep  = memory.Yield // a gradient is born: kept in the first micro-step, added to the older one and freed in later ones
)

// Those that an allocator does not play by itself.
const (
	AllocFirst = memory.Other + iota // allocate in the first micro-step only (a gradient that had to be copied)
	AllocOnce                        // allocate when it does not exist yet: cuBLAS workspaces live for ever
	FreePrev                         // free what the previous micro-step left in this slot
	AllocAside                       // allocate the slot on its stream

	// What follows are events of gradients that are accumulated whole and summed over the GPUs in the last micro-step.
	Hold           // a whole gradient is born: kept in the first micro-step, added to the older one and freed in later ones
	AllocHeld      // allocate such a gradient, in the first micro-step only
	FreeHeld       // free it, in the last micro-step
	AllocLast      // allocate in the last micro-step only
	AllocAsideLast // the same, on the slot's stream
	FreeLast       // free in the last micro-step what was allocated there
	KeepLast       // a gradient that is born in the last micro-step
)

// Event is one step of a program.
type Event struct {
	Slot int32
	Op   Op
}

// Program is the sequence of allocations and frees of one micro-step.
type Program struct {
	Slots    []Slot
	Events   []Event
	Segments []Segment
	// Prologue events, the first ones, put the first batch on the GPU and are not repeated.
	Prologue int
}

// Segment is the stretch of events that one layer unit's forward or backward
// makes; Unit is -1 for what lies outside the layers.
type Segment struct {
	Start, End int
	Unit       int32
	Backward   bool
}

// Tape records a micro-step: the forward as the model runs it, then backward as
// autograd's engine would.
type Tape struct {
	Recipe Recipe
	Shape  Shape
	// Applied is what of the recipe the recording has made use of.
	Applied Applied

	prog     *Program // what is recorded: always &program
	program  Program
	storages []storage
	// parameters are those of the model.
	parameters []Parameter
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
	// leaf is the edge of a layer's detached input while checkpointing runs the layer again, and leafCast its half copy.
	leaf     edge
	leafCast T

	head   deferred // where the loss takes the head's place
	pieces []int32  // gradients of parts, for the one operation that collects them

	// Where the recording stands.
	part     Part
	unit     int32 // layer unit, -1 outside
	segStart int   // first event of the running segment
	backward bool
	noGrad   bool
	autocast bool
	spaces   [2][onceKinds]bool // by thread: what is allocated once and exists

	// Checkpointing.
	layersRun  int64 // how many layers' forward has run or runs
	layers     []checkpointed
	layer      int32 // index in layers while such a layer's forward runs, none outside
	recompute  bool  // a layer runs again in backward
	rebuilds   int32 // which, where its graph exists already
	transplant bool  // and its graph exists already: what it saves goes to the waiting nodes
	savesLeft  int32 // how many saved tensors these still wait for
	stopped    bool  // none: the rest of the layer does not run
	compiled   bool  // what runs is compiled
	lossApart  bool  // the loss is compiled apart from the model
	broken     int32 // and its nodes come from here on
	lazies     []lazy
	sumsAgain  bool // compiled norms keep the summands of their input
	lastCast   sharedCast
	postponed  postponed
	shards     *shards // nil unless the parameters are sharded
	graphHolds []T     // what the checkpointed layers' closures keep alive

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
}

const maxRegs = 16

// node is one operation in the autograd graph.
type node struct {
	in      [5]edge
	saved   [9]int32
	grad    [3]int32 // gradients of its outputs as they arrive
	first   int32    // its backward is acts[first:last]
	last    int32
	unit    int32
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
	// hooked says that a group of sharded parameters has to be there before its backward.
	hooked bool
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
	actAlloc       verb = iota // allocate register reg
	actFree                    // free register reg
	actSend                    // hand register reg to edge
	actSendView                // the same, through a view
	actPass                    // hand the incoming gradient of output reg to edge
	actPassView                // the same, through a view
	actPassPart                // the same, a part of it that a parameter takes over, and all of its memory with it
	actValidate                // the operation's own backward ends here
	actWorkspace               // a matrix product
	actSendSaved               // hand saved tensor reg to edge
	actAllocLogits             // allocate register 0, as wide as the vocabulary
	actAddInPlace              // allocate register 0 unless a gradient for edge 0 is there to be added to
	actForget                  // let go of saved tensor reg
	actReduce                  // the backward of a group of sharded parameters is over
	actPostpone                // form the gradient for edge when the parameter's other gradient arrives
)

func (t *Tape) alloc(bytes int64, c Component, l Label) int32 {
	if bytes <= 0 || t.stopped {
		t.storages = append(t.storages, storage{refs: 1, slot: none})
		return int32(len(t.storages) - 1)
	}
	t.storages = append(t.storages, storage{refs: 1, slot: t.slot(Alloc, bytes, c, l)})
	return int32(len(t.storages) - 1)
}

// slot adds an allocation to the program, and the event that makes it. Its fields are written where they stay, since a
// struct of this many is copied through memory otherwise.
func (t *Tape) slot(op Op, bytes int64, c Component, l Label) int32 {
	i := int32(len(t.prog.Slots))
	t.prog.Slots = append(t.prog.Slots, Slot{})
	s := &t.prog.Slots[i]
	s.Bytes, s.Component, s.Part, s.Label, s.Unit = bytes, c, t.part, l, t.unit
	t.prog.Events = append(t.prog.Events, Event{i, op})
	return i
}

func (t *Tape) retain(s int32) {
	if s != none {
		t.storages[s].refs++
	}
}

func (t *Tape) release(s int32) {
	if s == none {
		return
	}
	st := &t.storages[s]
	if st.refs--; st.refs == 0 && st.lazy > 0 {
		z := t.lazies[st.lazy-1]
		st.lazy = 0
		t.forget(z)
		return
	}
	if st.refs == 0 && st.slot != none {
		op := Free
		switch {
		case st.previous:
			op = FreePrev
		case st.part:
			op = Keep
			t.prog.Slots[st.slot].Component = Gradients
		}
		t.prog.Events = append(t.prog.Events, Event{st.slot, op})
	}
}

// Drop says that the program's variable for x goes out of scope or is reassigned.
func (t *Tape) Drop(x T) { t.release(x.storage) }

// Hold adds a variable that refers to x.
func (t *Tape) Hold(x T) T { t.retain(x.storage); return x }

// In sets which part of the activations the following operations belong to, and returns the former one.
func (t *Tape) In(p Part) Part { old := t.part; t.part = p; return old }

// fresh makes a forward tensor that no gradient reaches.
func (t *Tape) fresh(numel int64, d DType, l Label) T {
	x := T{storage: t.alloc(numel*d.Size(), t.component(), l), edge: noEdge, form: plain(d), numel: numel}
	t.typed(x)
	return x
}

// typed notes the type of x for explanations.
func (t *Tape) typed(x T) {
	if i := t.storages[x.storage].slot; i != none {
		s := &t.prog.Slots[i]
		s.Dtype, s.Typed = x.dtype, true
	}
}

func (t *Tape) component() Component {
	if t.backward {
		if t.recompute {
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
