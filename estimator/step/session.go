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

// Streaming is a heap that knows streams: what was allocated on one is not given to another. A heap that does not gets
// everything as if there were one stream.
type Streaming interface {
	AllocOn(stream uint8, bytes int64) int32
}

func allocAside(heap Heap, stream uint8, bytes int64) int32 {
	if h, ok := heap.(Streaming); ok {
		return h.AllocOn(stream, bytes)
	}
	return heap.Alloc(bytes)
}

const noHandle int32 = -1

// Reset makes s a session with the exported fields of n in the storage of its former runs.
func (s *Session) Reset(n Session) {
	n.player, n.evaluating, n.once = s.player, s.evaluating, s.once
	n.gradients, n.trained, n.updater, n.book = s.gradients, s.trained[:0], s.updater, s.book
	*s = n
}

// trainable are the parameters that are trained, in the order in which the optimizer has them.
func (s *Session) trainable() []*Parameter {
	if s.listed {
		return s.trained
	}
	list := s.trained[:0]
	s.Parameters.Each(func(p *Parameter) {
		list = append(list, p)
		last := len(list) - 1
		copy(list[last-p.Ahead+1:], list[last-p.Ahead:last])
		list[last-p.Ahead] = p
	})
	s.trained = slices.DeleteFunc(list, func(p *Parameter) bool { return !p.Trained() })
	s.listed = true
	return s.trained
}

// Session is a whole run as a heap sees it: the model is loaded, then optimizer steps of several
// micro-steps each. The micro-step's program may have been recorded with fewer layer units than
// the model has; the session plays the middle unit as often as it takes.
type Session struct {
	Program *Program
	// Parameters are those that the GPU holds; Whole are those of the model where they are sharded.
	Parameters, Whole Parameters
	Optimizer         Optimizer
	// Rank is that of GaLore's projections.
	Rank int64
	// Clip clips the gradients' norm before the optimizer step.
	Clip bool
	// Recipe is how the program was recorded.
	Recipe Recipe
	// Units and Recorded are the layer units of the model and of the program, Lead those at the front that are unlike
	// the others and so are all recorded.
	Units, Recorded, Lead int64

	// Evaluation is a pass that follows each optimizer step, nil for none.
	Evaluation *Evaluation

	heap       Heap
	player     // of the micro-step's program
	evaluating player
	once       []int32 // handles of what is allocated once
	gradients  []int32
	trained    []*Parameter // once listed
	listed     bool
	masters    []*Parameter // what the optimizer updates instead, where there are such
	updater    updater
	started    bool // the optimizer's state exists
	stepped    bool // a step was played
	buckets    []int32
	// book is the storage of the last account.
	book Ledger
}

// Begin loads the model on heap, from which s allocates from here on.
func (s *Session) Begin(heap Heap) {
	s.heap = heap
	s.started, s.stepped, s.gradients = false, false, s.gradients[:0]
	s.player.begin(s.Program, s.Recorded, s.Units, s.Lead)
	s.once = handles(s.once, len(s.now))
	if e := s.Evaluation; e != nil {
		s.evaluating.begin(e.Program, e.Recorded, e.Units, s.Lead)
	}
	s.load()
}

// Play runs the session on heap: the model is loaded, then steps optimizer steps follow.
func (s *Session) Play(heap Heap, steps int) {
	s.Begin(heap)
	for range steps {
		s.Step()
	}
}

func (s *Session) load() {
	if s.Recipe.Sharding.on() {
		s.loadParts(s.heap)
	} else {
		s.Parameters.load(s.heap)
	}
	s.loadBuckets(s.heap)
	s.loadStates(s.heap)
	for _, e := range s.Program.Events[:s.Program.Prologue] {
		s.now[e.Slot] = s.heap.Alloc(s.Program.Slots[e.Slot].Bytes)
	}
}

// mostMicroSteps bounds the micro-steps of one optimizer step that are played on a heap that could settle and does not.
// Most jobs go round after four; GPT-2 124M with two sequences goes round in ten from the seventh on.
const mostMicroSteps = 64

// Step plays one optimizer step. Later micro-steps do the same as one another; once the heap is in a state in
// which it was some micro-steps before, it will go round in that circle, and only what is left
// beyond whole rounds is played.
func (s *Session) Step() {
	if s.stepped {
		s.rebuildBuckets(s.heap)
	}
	heap, settles := s.heap.(Settling)
	var seen [mostMicroSteps]uint64
	left := max(s.Recipe.Accumulation, 1)
	circling := !settles
	for m := int64(0); left > 0; m++ {
		s.microStep(m == 0 && len(s.gradients) == 0 && !s.Recipe.States.GradientBuffers)
		left--
		if settles && heap.Failed() {
			return
		}
		if circling {
			continue
		}
		if m == mostMicroSteps {
			break
		}
		now := s.settled(heap)
		for period := int64(1); period <= m; period++ {
			if seen[m-period] == now {
				left %= period
				circling = true
				break
			}
		}
		seen[m] = now
	}
	s.optimizerStep(s.heap)
	if !s.Recipe.KeepsGradients {
		for _, g := range s.gradients {
			s.heap.Free(g)
		}
		s.gradients = s.gradients[:0]
	}
	s.evaluate()
	s.stepped = true
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

func (s *Session) microStep(first bool) {
	s.last, s.now = s.now, s.last
	now, last, heap, flat := s.now, s.last, s.heap, s.flat
	for i := range flat {
		e := &flat[i]
		switch e.op {
		case Alloc:
			now[e.handle] = heap.Alloc(e.bytes)
		case AllocAside:
			now[e.handle] = allocAside(heap, e.stream, e.bytes)
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
