package step

import "slices"

// Heap is what a session allocates from: PyTorch's caching allocator, or something that
// writes down what it is asked for.
type Heap interface {
	// Alloc returns a handle for bytes.
	Alloc(bytes int64) int32
	Free(handle int32)
}

// Settling is a heap that can tell whether it is in the same state again.
type Settling interface {
	Heap
	// State is a hash of everything that decides what the heap does next, but for the handles.
	State() uint64
	// Address is where the memory of a handle lies.
	Address(handle int32) int64
	// Failed says that a request could not be met: what follows does not matter any more.
	Failed() bool
}

const noHandle int32 = -1

// Reset makes s a session with the exported fields of n in the storage of its former runs.
func (s *Session) Reset(n Session) {
	n.fold, n.now, n.last, n.once, n.flat = s.fold, s.now, s.last, s.once, s.flat
	n.gradients, n.trained, n.updater, n.book = s.gradients, s.trained[:0], s.updater, s.book
	n.Parameters.Each(func(p *Parameter) {
		n.trained = append(n.trained, p)
		last := len(n.trained) - 1
		copy(n.trained[last-p.Ahead+1:], n.trained[last-p.Ahead:last])
		n.trained[last-p.Ahead] = p
	})
	n.trained = slices.DeleteFunc(n.trained, func(p *Parameter) bool { return !p.Trained() })
	*s = n
}

// Session is a whole run as a heap sees it: the model is loaded, then optimizer steps of several
// micro-steps each. The micro-step's program may have been recorded with fewer layer units than
// the model has; the session plays the middle unit as often as it takes.
type Session struct {
	Program    *Program
	Parameters Parameters
	Optimizer  Optimizer
	// Clip clips the gradients' norm before the optimizer step.
	Clip bool
	// Recipe is how the program was recorded.
	Recipe Recipe
	// Units and Recorded are the layer units of the model and of the program, Lead those at the front that are unlike
	// the others and so are all recorded.
	Units, Recorded, Lead int64

	heap      Heap
	fold      fold
	now, last []int32     // handles: in this micro-step and what the one before left
	once      []int32     // handles of what is allocated once
	flat      []flatEvent // one micro-step with all layers
	gradients []int32
	trained   []*Parameter
	updater   updater
	started   bool // the optimizer's state exists
	// book is the storage of the last account.
	book Ledger
}

// fold says how slots of the recorded middle unit map to its repetitions.
type fold struct {
	unit     int32 // the recorded unit that is repeated; -1 when nothing is folded
	copies   int64 // how often
	perUnit  int32
	local    []int32 // by slot: index among the slots of its unit, for the middle unit and its neighbours
	isMiddle []bool
}

// begin prepares to play s on heap.
func (s *Session) begin(heap Heap) {
	s.heap = heap
	s.started, s.gradients = false, s.gradients[:0]
	s.fold.set(s)
	n := len(s.Program.Slots)
	all := n + int(s.fold.copies)*int(s.fold.perUnit)
	s.now, s.last, s.once = handles(s.now, all), handles(s.last, all), handles(s.once, n)
	s.unfold()
}

// handles is n empty handles, in the storage of h where that is large enough.
func handles(h []int32, n int) []int32 {
	if cap(h) < n {
		h = make([]int32, n)
	}
	h = h[:n]
	for i := range h {
		h[i] = noHandle
	}
	return h
}

// foldedUnits is how many units a program that is to be folded is recorded with: the first two and
// the last two differ from the rest because of their neighbours, the one between them is repeated.
const (
	foldedUnits = 5
	foldedFirst = 2
)

// RecordedUnits is how many of units layer units have to be recorded, of which the first lead are unlike the others.
func RecordedUnits(units, lead int64) int64 { return min(units, lead+foldedUnits) }

// set works out the folding of a program that was recorded with fewer units than the model has.
func (f *fold) set(s *Session) {
	p := s.Program
	local, middle := f.local[:0], f.isMiddle[:0]
	*f = fold{unit: -1, local: local, isMiddle: middle}
	if s.Units <= s.Recorded {
		return
	}
	f.unit, f.copies = int32(s.Lead)+foldedFirst, s.Units-s.Recorded+1
	count := make([]int32, s.Recorded)
	for i := range p.Slots {
		u := p.Slots[i].Unit
		index := int32(0)
		if u >= 0 {
			index = count[u]
			count[u]++
		}
		f.local = append(f.local, index)
		f.isMiddle = append(f.isMiddle, u == f.unit)
	}
	f.perUnit = count[f.unit]
}

// Play runs the session on heap: the model is loaded, then steps optimizer steps follow.
func (s *Session) Play(heap Heap, steps int) {
	s.begin(heap)
	s.load()
	for range steps {
		s.step()
	}
}

func (s *Session) load() {
	s.Parameters.load(s.heap)
	for _, e := range s.Program.Events[:s.Program.Prologue] {
		s.now[e.Slot] = s.heap.Alloc(s.Program.Slots[e.Slot].Bytes)
	}
}

// mostMicroSteps bounds the micro-steps of one optimizer step that are played on a heap that could settle and does not.
// Most jobs go round after four; of GPT-2 124M's micro-batches, one of two sequences takes some forty.
const mostMicroSteps = 64

// step plays one optimizer step. Later micro-steps do the same as one another; once the heap is in a state in
// which it was some micro-steps before, it will go round in that circle, and only what is left
// beyond whole rounds is played.
func (s *Session) step() {
	heap, settles := s.heap.(Settling)
	var seen [8]uint64
	left := max(s.Recipe.Accumulation, 1)
	circling := !settles
	for m := int64(0); left > 0; m++ {
		s.microStep(m == 0 && len(s.gradients) == 0)
		left--
		if settles && heap.Failed() {
			return
		}
		if circling || m == 0 {
			continue
		}
		if m == mostMicroSteps {
			break
		}
		now := s.settled(heap)
		for period := int64(1); period < int64(len(seen)) && period < m; period++ {
			if seen[(m-period)%int64(len(seen))] == now {
				left %= period
				circling = true
				break
			}
		}
		seen[m%int64(len(seen))] = now
	}
	s.optimizerStep(s.heap)
	if s.Recipe.KeepsGradients {
		return
	}
	for _, g := range s.gradients {
		s.heap.Free(g)
	}
	s.gradients = s.gradients[:0]
}

// settled adds to the heap's state where the tensors lie that live on into the next micro-step.
func (s *Session) settled(heap Settling) uint64 {
	h := heap.State()
	for _, handle := range s.now {
		if handle != noHandle {
			h = h*0x100000001b3 ^ uint64(heap.Address(handle))
		}
	}
	return h
}

// flatEvent is an event of a micro-step with all layers: what to do with which handle.
type flatEvent struct {
	bytes  int64
	handle int32
	op     Op
}

// unfold lists the events of one micro-step with the middle unit repeated. Handles up to the number of slots
// are those of the program; behind them come the repetitions' of the middle unit's slots.
func (s *Session) unfold() {
	p, f := s.Program, &s.fold
	s.flat = s.flat[:0]
	for _, g := range p.Segments {
		if g.Unit != f.unit || g.Unit < 0 {
			s.unfoldSegment(g, 0)
			continue
		}
		for c := range f.copies {
			if g.Backward {
				c = f.copies - 1 - c
			}
			s.unfoldSegment(g, c)
		}
	}
}

func (s *Session) unfoldSegment(g Segment, copy int64) {
	p, f := s.Program, &s.fold
	for _, e := range p.Events[g.Start:g.End] {
		bytes := p.Slots[e.Slot].Bytes
		if g.Unit < 0 && f.unit >= 0 && f.isMiddle[e.Slot] {
			// Outside the layers, what happens to the middle unit's tensor happens to that of every repetition.
			for c := range f.copies {
				s.flat = append(s.flat, flatEvent{bytes, s.repetition(e.Slot, c), e.Op})
			}
			continue
		}
		s.flat = append(s.flat, flatEvent{bytes, s.handle(e.Slot, g.Unit, copy), e.Op})
	}
}

// repetition is the handle of a middle unit's slot in the copy-th repetition.
func (s *Session) repetition(slot int32, copy int64) int32 {
	return int32(len(s.Program.Slots)) + int32(copy)*s.fold.perUnit + s.fold.local[slot]
}

// handle is the handle of slot for an event of the copy-th repetition of a recorded unit.
func (s *Session) handle(slot, unit int32, copy int64) int32 {
	f := &s.fold
	born := s.Program.Slots[slot].Unit
	if f.unit < 0 || born < 0 {
		return slot
	}
	switch {
	case unit == f.unit:
		c := copy + int64(born-unit)
		if c < 0 || c >= f.copies || born < f.unit-1 || born > f.unit+1 {
			return slot
		}
		return s.repetition(slot, c)
	case born == f.unit && unit < f.unit:
		return s.repetition(slot, 0)
	case born == f.unit:
		return s.repetition(slot, f.copies-1)
	}
	return slot
}

func (s *Session) microStep(first bool) {
	s.last, s.now = s.now, s.last
	now, last, heap := s.now, s.last, s.heap
	for i := range s.flat {
		e := &s.flat[i]
		switch e.op {
		case Alloc:
			now[e.handle] = heap.Alloc(e.bytes)
		case Free:
			heap.Free(now[e.handle])
			now[e.handle] = noHandle
		case Keep:
			if first {
				s.gradients = append(s.gradients, now[e.handle])
			} else {
				heap.Free(now[e.handle])
			}
			now[e.handle] = noHandle
		case AllocFirst:
			if first {
				s.gradients = append(s.gradients, heap.Alloc(e.bytes))
			}
		case AllocOnce:
			if s.once[e.handle] == noHandle {
				s.once[e.handle] = heap.Alloc(e.bytes)
			}
		case FreePrev:
			if last[e.handle] != noHandle {
				heap.Free(last[e.handle])
				last[e.handle] = noHandle
			}
		}
	}
}
