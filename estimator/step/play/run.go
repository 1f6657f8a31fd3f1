package play

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Shape is the micro-step of batches of one shape, in a run whose batches have several.
type Shape struct {
	bytes []int64 // of each slot
	like  *outline
}

// outline is what shapes have in common whose micro-steps ask for other sizes in the same order.
type outline struct {
	events   []step.Event
	segments []step.Segment
	flat     []memory.Request
	slots    []int32 // by request: the program's slot
	handles  int
	carried  []int32   // handles that the next micro-step finds, in the order in which it frees them
	once     []onceFor // what is allocated once
}

// onceFor is what is allocated where none of its size is there yet: a workspace of a stream.
type onceFor struct {
	handle int32
	bytes  int64
	stream uint8
}

// Runner plays micro-steps of several shapes on one heap, with a session that has the parameters and the optimizer.
type Runner struct {
	session  *Session
	outlines []*outline
	now      *outline
	flat     []memory.Request
	carried  []int32
	made     map[onceFor]int32 // handle 0 in the key
}

// RunnerOf plays with s.
func RunnerOf(s *Session) *Runner { return &Runner{session: s, made: map[onceFor]int32{}} }

// Shape keeps what the session's program asks for. The session may then be reset to another.
func (r *Runner) Shape() *Shape {
	s := r.session
	p := s.Program
	shape := &Shape{bytes: make([]int64, len(p.Slots))}
	for i := range p.Slots {
		shape.bytes[i] = p.Slots[i].Bytes
	}
	for _, o := range r.outlines {
		if o.same(p) {
			shape.like = o
			return shape
		}
	}
	shape.like = s.outline()
	r.outlines = append(r.outlines, shape.like)
	return shape
}

func (o *outline) same(p *step.Program) bool {
	if len(o.events) != len(p.Events) || len(o.segments) != len(p.Segments) {
		return false
	}
	for i := range o.events {
		if o.events[i] != p.Events[i] {
			return false
		}
	}
	for i := range o.segments {
		if o.segments[i] != p.Segments[i] {
			return false
		}
	}
	return true
}

// outline unfolds the session's program twice: once with the number of each slot in the place of its bytes.
func (s *Session) outline() *outline {
	p := *s.Program
	p.Slots = append([]step.Slot(nil), p.Slots...)
	for i := range p.Slots {
		p.Slots[i].Bytes = int64(i)
	}
	var y player
	y.begin(&p, s.Recorded, s.Units, s.Lead, s.look)
	o := &outline{events: append([]step.Event(nil), p.Events...),
		segments: append([]step.Segment(nil), p.Segments...), flat: y.flat, handles: len(y.now)}
	o.slots = make([]int32, len(y.flat))
	for i := range y.flat {
		e := &y.flat[i]
		slot := int32(e.Bytes)
		o.slots[i] = slot
		switch e.Op {
		case step.FreePrev:
			o.carried = append(o.carried, e.Handle)
		case step.AllocOnce:
			o.once = append(o.once, onceFor{handle: e.Handle, stream: p.Slots[slot].Stream, bytes: int64(slot)})
		}
	}
	return o
}

// Begin loads the model on heap, and the first batch of the session's program, which is that of first.
func (r *Runner) Begin(heap alloc.Heap, first *Shape) {
	clear(r.made)
	r.session.unfolded = false // a former run has left the handles of another outline
	r.session.Begin(heap)
	r.now = first.like
	r.become(first)
}

// become makes the micro-step that follows one of another shape. What the one before has left is where the next looks
// for it; false says that it looks for something else than there is.
func (r *Runner) become(shape *Shape) bool {
	s, o := r.session, shape.like
	if o != r.now {
		if len(o.carried) != len(r.now.carried) {
			return false
		}
		r.carried = r.carried[:0]
		for _, h := range r.now.carried {
			r.carried = append(r.carried, s.now[h])
			s.now[h] = alloc.None
		}
		for _, h := range s.now {
			if h != alloc.None {
				return false
			}
		}
		s.now, s.last, s.once = handles(s.now, o.handles), handles(s.last, o.handles), handles(s.once, o.handles)
		for i, h := range o.carried {
			s.now[h] = r.carried[i]
		}
		for _, w := range o.once {
			if made, ok := r.made[onceFor{bytes: shape.bytes[w.bytes], stream: w.stream}]; ok {
				s.once[w.handle] = made
			}
		}
		r.now = o
	}
	if cap(r.flat) < len(o.flat) {
		r.flat = make([]memory.Request, len(o.flat))
	}
	r.flat = r.flat[:len(o.flat)]
	for i := range r.flat {
		e := &o.flat[i]
		r.flat[i] = memory.NewRequest(e.Op, e.Stream(), shape.bytes[o.slots[i]], e.Handle)
	}
	return true
}

// Step plays one optimizer step of micro-steps of these shapes. It returns false where it did not come to its end: the
// heap has failed, the session has ended, or the shapes do not follow each other.
func (r *Runner) Step(micro []*Shape) bool {
	s := r.session
	if s.stepped {
		s.strategy.NextStep(s.asRank(), s.heap)
	}
	heap, settles := s.heap.(alloc.Settling)
	for m, shape := range micro {
		if !r.become(shape) {
			return false
		}
		s.microStep(r.flat, m == 0 && len(s.gradients) == 0 && !s.Recipe.States.GradientBuffers)
		if s.ended != NotEnded || settles && heap.Failed() {
			return false
		}
		for _, w := range shape.like.once {
			r.made[onceFor{bytes: shape.bytes[w.bytes], stream: w.stream}] = s.once[w.handle]
		}
	}
	s.finish()
	return s.ended == NotEnded && !(settles && heap.Failed())
}
