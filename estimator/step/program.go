package step

import "github.com/vramplan/vramplan/estimator/memory"

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
	// Expert is the number of the expert in whose run it was born, 0 outside.
	Expert int32
}

// Op is what an event does.
type Op = memory.Op

// The events of a micro-step program. The first micro-step of an optimizer step
// finds no gradients, later ones add to those that are there.
const (
	Alloc = memory.Take // allocate the slot
	Free  = memory.Give // free the slot
	// a gradient is born: kept in the first micro-step, added to the older one and freed in later ones
	Keep = memory.Yield
)

// Those that an allocator does not play by itself.
const (
	AllocFirst = memory.Other + iota // allocate in the first micro-step only (a gradient that had to be copied)
	AllocOnce                        // allocate when it does not exist yet: cuBLAS workspaces live for ever
	FreePrev                         // free what the previous micro-step left in this slot
	AllocAside                       // allocate the slot on its stream

	// What follows are events of gradients that are accumulated whole and summed over the GPUs in the last micro-step.
	// a whole gradient is born: kept in the first micro-step, added to the older one and freed in later ones
	Hold
	AllocHeld      // allocate such a gradient, in the first micro-step only
	FreeHeld       // free it, in the last micro-step
	AllocLast      // allocate in the last micro-step only
	AllocAsideLast // the same, on the slot's stream
	FreeLast       // free in the last micro-step what was allocated there
	KeepLast       // a gradient that is born in the last micro-step

	// ReleaseCached gives back the segments of the slot's part of the allocator in which nothing is allocated.
	ReleaseCached
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
	// Runs are what experts make, in order; ExpertCopies is how many experts the middle one of those that were recorded
	// stands for, 0 or 1 where it stands for itself.
	Runs         []Run
	ExpertCopies int64
	// Ready lists the parameters, by their place in the list, in the order in which their gradients were complete.
	Ready []int32
	// Prologue events, the first ones, put the first batch on the GPU and are not repeated.
	Prologue int
}

// Segment is the stretch of events that one layer unit's forward or backward
// makes; Unit is -1 for what lies outside the layers.
type Segment struct {
	Start, End int
	Unit       int32
	Backward   bool
	// Kind is what the stretch is for, in a micro-step of several passes.
	Kind PassKind
}

// foldedUnits is how many units a program that is to be folded is recorded with: the first two and
// the last two differ from the rest because of their neighbours, the one between them is repeated.
const (
	foldedUnits = 5
	FoldedFirst = 2
)

// RecordedUnits is how many of units layer units have to be recorded, of which the first lead are unlike the others.
func RecordedUnits(units, lead int64) int64 { return min(units, lead+foldedUnits) }
