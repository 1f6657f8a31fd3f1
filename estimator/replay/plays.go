package replay

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Steps is how many optimizer steps are played: three without accumulation and two with, after which the segments do
// not grow any more.
func Steps(s *play.Session) int {
	if s.Recipe.Accumulation == 1 {
		return 3
	}
	return 2
}

// mostStandsWithin is how many stands are kept within steps, and one in spacing of what is asked for at most how much
// more was reserved from each to the next: most searches end within six hundredths above it.
const (
	mostStandsWithin = 3
	spacing          = 32
)

// Play runs so many optimizer steps of the job on an allocator, from the beginning and without a limit. Where keptAbove
// is above 0 it keeps where the run stands for runs under a limit that is larger: before every step but the first,
// before the first update, which makes the optimizer's states, and before more is reserved than keptAbove, and than a
// little more.
func (w *Workspace) Play(steps int, settings memory.Settings, keptAbove int64) (reserved, allocated int64) {
	s, a := &w.Session, w.Allocator
	a.Reset(settings, 0)
	s.Begin(a)
	if keptAbove > 0 {
		a.PauseAbove(keptAbove)
		s.Stand = func(savable bool) { w.within(keptAbove, savable) }
		defer func() { s.Stand = nil }()
	}
	for i := range steps {
		w.step = i
		if keptAbove > 0 && i > 0 {
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

// within may keep where the run stands within a step.
func (w *Workspace) within(keptAbove int64, savable bool) {
	s, a := &w.Session, w.Allocator
	paused := a.Paused()
	if savable && (paused > 0 || w.step == 0) {
		at := w.nextStand()
		s.SaveWithin(&at.session)
		a.Save(&at.heap)
		w.kept++
	}
	switch {
	case w.kept >= mostStandsWithin:
		a.PauseAbove(0)
	case paused > 0:
		a.PauseAbove(paused + keptAbove/spacing)
	}
}

// nextStand is one more stand, in the storage of an earlier run's.
func (w *Workspace) nextStand() *stand {
	n := len(w.Stands)
	w.Stands = slices.Grow(w.Stands, 1)[:n+1]
	w.Stands[n].step = w.step
	return &w.Stands[n]
}

// PlayLimited runs the job on an allocator that may not reserve more than limit, and says what it reserved. It goes on
// from the last stand to which a run under the limit comes, too.
func (w *Workspace) PlayLimited(settings memory.Settings, limit int64) (reserved int64, ok bool) {
	s, a := &w.Session, w.Allocator
	left := Steps(s)
	from := len(w.Stands) - 1
	for from >= 0 && !w.Stands[from].heap.Under(limit) {
		from--
	}
	if from >= 0 {
		a.Restore(&w.Stands[from].heap, limit)
		s.Restore(&w.Stands[from].session)
		left -= w.Stands[from].step
	} else {
		a.Reset(settings, limit)
		s.Begin(a)
	}
	for ; left > 0 && !a.Failed() && s.Ended() == play.NotEnded; left-- {
		s.Step()
	}
	return a.PeakReserved(), !a.Failed() && s.Ended() != play.Spent
}

// SmallestLimit is the least that the allocator can be limited to so that the job still runs, to half a
// percent: below it, giving cached segments back does not help any more. Half of all jobs need all that they
// reserve without a limit, so that is tried first.
//
// A try that an earlier one has decided is not played: tries says how many there were in all. The search ends before
// where enough says that it does not matter what is found from least on up to most, and then whole is false and the
// limit is most.
func (w *Workspace) SmallestLimit(settings memory.Settings, requested, reserved int64,
	enough func(least, most int64) bool) (limit, tries int64, whole bool) {
	low, high := requested-1, reserved
	tolerance := func() int64 { return max(2<<20, high/200) }
	try := high - tolerance()
	w.tried = w.tried[:0]
	for high-low > tolerance() && w.Session.Ended() != play.Stopped {
		if enough(low+1, high) {
			return high, tries, false
		}
		tries++
		if most, ok := w.Attempt(settings, try); ok {
			high = min(try, most)
		} else {
			low = try
		}
		try = low + (high-low)/2
	}
	return high, tries, true
}

// tried is what came of all runs under a limit from least on and below end.
type tried struct {
	least, end, reserved int64
	ok                   bool
}

// Attempt is what playLimited says, from memory where an earlier run was the same.
func (w *Workspace) Attempt(settings memory.Settings, limit int64) (reserved int64, ok bool) {
	for i := range w.tried {
		if t := &w.tried[i]; t.least <= limit && limit < t.end {
			return t.reserved, t.ok
		}
	}
	reserved, ok = w.PlayLimited(settings, limit)
	if w.Session.Ended() == play.NotEnded {
		least, end := w.Allocator.Alike()
		w.tried = append(w.tried, tried{least, end, reserved, ok})
	}
	return reserved, ok
}
