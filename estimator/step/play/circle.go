package play

import "github.com/vramplan/vramplan/estimator/step/alloc"

// Later micro-steps do the same as one another. Once a heap is in a state in which it was some micro-steps before, it
// goes round in that circle, and only what is left beyond whole rounds is played. The parts of a heap that have nothing
// to do with each other go round in circles of their own: of a small part that takes long to find one, no more than its
// own requests are played.

// mostMicroSteps bounds the micro-steps of one optimizer step that are played on a heap that could settle and does not.
// Most jobs go round after four; the small blocks of GPT-2 124M with two sequences go round in five from the fifth on.
const mostMicroSteps = 64

// circle is where a part of a heap stood after each micro-step.
type circle struct {
	seen   [mostMicroSteps]uint64
	played int
}

// resume goes on after the states that were seen.
func (c *circle) resume(seen []uint64) { c.played = copy(c.seen[:], seen) }

// closed adds a state, and says after how many micro-steps it came again; 0 where it is new.
func (c *circle) closed(state uint64) (period int64) {
	i := c.played - 1
	for i >= 0 && c.seen[i] != state {
		i--
	}
	c.seen[c.played] = state
	if c.played++; i < 0 {
		return 0
	}
	return int64(c.played - 1 - i)
}

// microSteps plays those of one optimizer step on a heap that settles, from a place on. All parts are played together
// until the last of them goes round, since the most that is allocated shows in all together; then each of the others by
// itself.
func (s *Session) microSteps(heap alloc.Settling, left int64, from place) {
	var circles [2]circle
	var period [2]int64
	parts, apart, closed := 1, false, int64(0)
	s.together.resume(from.seen)
	s.marks.forget()
	left -= int64(from.micro)
	for s.micro = from.micro; left > 0 && closed == 0; s.micro++ {
		if from.inside {
			s.serveAll(s.flat, from.served, from.first)
			from.inside = false
		} else {
			s.microStep(s.flat, s.micro == 0 && len(s.gradients) == 0 && !s.Recipe.States.GradientBuffers)
		}
		if s.over(heap) || s.micro == mostMicroSteps {
			return
		}
		left--
		parts, apart = heap.Parts(), heap.Apart() // which shows once everything was allocated
		all := uint64(0)
		for part := range parts {
			state := s.settled(heap, part)
			all = (all ^ state) * 0x9e3779b97f4a7c15
			if apart {
				period[part] = circles[part].closed(state)
			}
		}
		if closed = s.together.closed(all); apart {
			closed = period[parts-1]
		}
		if s.micro > 0 && left > 0 {
			for part := range parts {
				s.mark(heap, part)
			}
		}
	}
	if left == 0 {
		return
	}
	s.rounds = true
	heap.Hold()
	if !apart {
		s.goRound(heap, 0, &s.together, closed, left)
	}
	for part := range parts {
		if apart {
			s.goRound(heap, part, &circles[part], period[part], left)
		}
	}
	heap.Hold()
	s.rounds = false
}

// goRound plays what is left of the micro-steps for one part alone.
func (s *Session) goRound(heap alloc.Settling, part int, c *circle, period, left int64) {
	script := s.flat
	if heap.Apart() {
		script = s.part(part)
	}
	played := false
	for {
		if period > 0 {
			left %= period
		}
		if left == 0 || period == 0 && c.played == mostMicroSteps || period > 0 && s.back(heap, part, period-left) {
			break
		}
		if s.microStep(script, false); s.over(heap) {
			return
		}
		played = !played
		left--
		if period == 0 {
			period = c.closed(s.settled(heap, part))
			s.mark(heap, part)
		}
	}
	if played && heap.Apart() {
		s.turn(heap, part)
	}
}

// settled adds to the state of a part where its tensors lie that live on into the next micro-step.
func (s *Session) settled(heap alloc.Settling, part int) uint64 {
	h, all := heap.State(part), heap.Parts() == 1
	for _, handle := range s.now {
		if handle != alloc.None && (all || heap.Part(handle) == part) {
			h = h*0x100000001b3 ^ uint64(heap.Address(handle))
		}
	}
	return h
}
