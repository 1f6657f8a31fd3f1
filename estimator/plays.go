package estimator

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step/play"
)

// steps is how many optimizer steps are played: three without accumulation and two with, after which the segments do not
// grow any more.
func steps(s *play.Session) int {
	if s.Recipe.Accumulation == 1 {
		return 3
	}
	return 2
}

// play runs so many optimizer steps of the job on an allocator, from the beginning and without a limit. It may keep where the run
// stands before every step but the first.
func (w *workspace) play(steps int, expandable, keep bool) (reserved, allocated int64) {
	s, a := &w.session, w.allocator
	a.Reset(expandable, 0)
	s.Begin(a)
	for i := range steps {
		if keep && i > 0 {
			at := w.nextStand()
			s.Save(&at.session)
			a.Save(&at.heap)
		}
		if s.Step(); s.Ended() != play.NotEnded {
			break
		}
	}
	return a.PeakReserved(), a.PeakAllocated()
}

// nextStand is one more stand, in the storage of an earlier run's.
func (w *workspace) nextStand() *stand {
	n := len(w.stands)
	w.stands = slices.Grow(w.stands, 1)[:n+1]
	return &w.stands[n]
}

// playLimited runs the job on an allocator that may not reserve more than limit, and says what it reserved. It goes on from the last
// stand up to which the run without a limit had not reserved more.
func (w *workspace) playLimited(limit int64) (reserved int64, ok bool) {
	s, a := &w.session, w.allocator
	left := steps(s)
	from := len(w.stands) - 1
	for from >= 0 && w.stands[from].heap.PeakReserved() > limit {
		from--
	}
	if from >= 0 {
		a.Restore(&w.stands[from].heap, limit)
		s.Restore(&w.stands[from].session)
		left -= from + 1
	} else {
		a.Reset(false, limit)
		s.Begin(a)
	}
	for ; left > 0 && !a.Failed() && s.Ended() == play.NotEnded; left-- {
		s.Step()
	}
	return a.PeakReserved(), !a.Failed() && s.Ended() != play.Spent
}

// smallestLimit is the least that the allocator can be limited to so that the job still runs, to half a
// percent: below it, giving cached segments back does not help any more. Half of all jobs need all that they
// reserve without a limit, so that is tried first.
func (w *workspace) smallestLimit(requested, reserved int64) (limit, tries int64) {
	low, high := requested-1, reserved
	tolerance := func() int64 { return max(2<<20, high/200) }
	try := high - tolerance()
	for high-low > tolerance() && w.session.Ended() != play.Stopped {
		tries++
		if most, ok := w.playLimited(try); ok {
			high = min(try, most)
		} else {
			low = try
		}
		try = low + (high-low)/2
	}
	return high, tries
}
