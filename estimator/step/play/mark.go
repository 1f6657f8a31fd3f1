package play

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Where a circle is closed and micro-steps are left beyond whole rounds, the heap ends where it stood some micro-steps
// before. Of where it stood last a few are kept, so that nothing has to be played again: most circles are of two
// micro-steps, since what one leaves to the next lies in two places by turns.

const (
	// keptMarks is how many there are of a part, the present among them.
	keptMarks = 3
	// markedRequests is up to how many requests a micro-step has of which marks are kept: they take memory.
	markedRequests = 1 << 14
)

// marks are where the parts of a heap stood after the last micro-steps, in turns.
type marks struct {
	kept [2][keptMarks]marked
	made [2]int
}

type marked struct {
	heap memory.Mark
	now  []int32
}

func (m *marks) forget() { m.made = [2]int{} }

// mark keeps where a part stands after a micro-step.
func (s *Session) mark(heap alloc.Settling, part int) {
	if len(s.flat) > markedRequests {
		return
	}
	m := &s.marks.kept[part][s.marks.made[part]%keptMarks]
	s.marks.made[part]++
	heap.Mark(part, &m.heap)
	m.now = append(m.now[:0], s.now...)
}

// back brings a part, or all where they are not apart, to where it stood so many micro-steps before, and says whether
// that is known.
func (s *Session) back(heap alloc.Settling, part int, steps int64) bool {
	if !heap.Apart() {
		for other := range heap.Parts() {
			if !s.known(other, steps) {
				return false
			}
		}
		for other := range heap.Parts() {
			s.putBack(heap, other, steps)
		}
		return true
	}
	known := s.known(part, steps)
	if known {
		s.putBack(heap, part, steps)
	}
	return known
}

func (s *Session) known(part int, steps int64) bool {
	return steps < int64(min(s.marks.made[part], keptMarks))
}

func (s *Session) putBack(heap alloc.Settling, part int, steps int64) {
	m := &s.marks.kept[part][(s.marks.made[part]-1-int(steps))%keptMarks]
	heap.Return(part, &m.heap)
	all := heap.Parts() == 1
	for i, was := range m.now {
		if is := s.now[i]; is != alloc.None && (all || heap.Part(is) == part) {
			s.now[i] = alloc.None
		}
		if was != alloc.None && (all || heap.Part(was) == part) {
			s.now[i] = was
		}
	}
}

// storageBytes is about how much memory the marks take.
func (m *marks) storageBytes() (bytes int64) {
	for part := range m.kept {
		for i := range m.kept[part] {
			k := &m.kept[part][i]
			bytes += k.heap.StorageBytes() + handleBytes*int64(cap(k.now))
		}
	}
	return bytes
}
