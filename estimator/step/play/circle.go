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

// microSteps plays those of one optimizer step on a heap that settles. All parts are played together until the last of
// them goes round, since the most that is allocated shows in all together; then each of the others by itself.
func (s *Session) microSteps(heap alloc.Settling, left int64) {
	var circles [2]circle
	var period [2]int64
	parts := 1
	for m := 0; left > 0 && period[parts-1] == 0; m++ {
		s.microStep(s.flat, m == 0 && len(s.gradients) == 0 && !s.Recipe.States.GradientBuffers)
		if s.over(heap) || m == mostMicroSteps {
			return
		}
		left--
		parts = heap.Parts() // which shows once everything was allocated
		for part := range parts {
			period[part] = circles[part].closed(s.settled(heap, part))
		}
	}
	if left == 0 {
		return
	}
	heap.Hold()
	for part := range parts {
		s.goRound(heap, part, &circles[part], period[part], left)
	}
	heap.Hold()
}

// goRound plays what is left of the micro-steps for one part alone.
func (s *Session) goRound(heap alloc.Settling, part int, c *circle, period, left int64) {
	script := s.flat
	if heap.Parts() > 1 {
		script = s.part(part)
	}
	played := false
	for {
		if period > 0 {
			left %= period
		}
		if left == 0 || period == 0 && c.played == mostMicroSteps {
			break
		}
		if s.microStep(script, false); s.over(heap) {
			return
		}
		played = !played
		left--
		if period == 0 {
			period = c.closed(s.settled(heap, part))
		}
	}
	if played && heap.Parts() > 1 {
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
