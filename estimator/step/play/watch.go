package play

import "github.com/vramplan/vramplan/estimator/step"

// Watch bounds what a session plays, and lets its caller end it early.
type Watch struct {
	// Done ends the play when it is closed; nil never does.
	Done <-chan struct{}
	// Pace, where it is there, is called before the next requests are played, and may wait.
	Pace func()
	// Most is how many requests may be played; 0 is any number.
	Most int64

	// Total is how many were played in all runs of the session.
	Total int64

	played int64
	minded int
	ended  Ended
}

// Ended is why a play did not come to its end.
type Ended uint8

// The reasons.
const (
	NotEnded Ended = iota
	Stopped        // Watch.Done was closed
	Spent          // Watch.Most was played
)

// watched is how many requests are played between two looks at the watch: one or two milliseconds.
const watched = 1 << 13

// passes says whether the next n requests may be played.
func (w *Watch) passes(n int) bool {
	if !w.look() {
		return false
	}
	w.Total += int64(n)
	if w.played += int64(n); w.Most > 0 && w.played > w.Most {
		w.ended = Spent
		return false
	}
	return true
}

// look lets others have their turn, and says whether the play goes on.
func (w *Watch) look() bool {
	if w.ended != NotEnded {
		return false
	}
	if w.Pace != nil {
		w.Pace()
	}
	select {
	case <-w.Done:
		w.ended = Stopped
		return false
	default:
		return true
	}
}

// mind looks as passes does where no request is played: after so many events that a ledger books, or parameters that
// are loaded. Where nobody waits any more it panics with [step.Gone], since what was begun means nothing then.
func (w *Watch) mind(n int) {
	if w.minded += n; w.minded < watched {
		return
	}
	if w.minded = 0; !w.look() && w.ended == Stopped {
		panic(step.Gone{})
	}
}

// Ended says why the play did not come to its end; what the heap shows then means nothing.
func (w *Watch) Ended() Ended { return w.ended }

// CountRequests is how many requests a micro-step makes of the heap, told from the program without playing it.
func (s *Session) CountRequests() int64 {
	var f fold
	var x experts
	f.set(s.Program, s.Recorded, s.Units, s.Lead)
	x.set(s.Program, &f)
	return requests(s.Program, &f, &x)
}

// requests is how many the program makes, folded as it is.
func requests(p *step.Program, f *fold, x *experts) int64 {
	count := int64(0)
	for _, g := range p.Segments {
		if x.copies == 1 && (g.Unit >= 0 || f.unit < 0) { // all events alike
			times := int64(1)
			if g.Unit == f.unit && f.unit >= 0 {
				times = f.copies
			}
			count += times * int64(g.End-g.Start)
			continue
		}
		for i, e := range p.Events[g.Start:g.End] {
			times := x.happens(g.Start + i)
			if g.Unit == f.unit && g.Unit >= 0 || g.Unit < 0 && f.unit >= 0 && f.isMiddle[e.Slot] {
				times *= f.copies
			}
			count += times
		}
	}
	return count
}

// Part is s with fewer units, at least as many as were recorded, and with a middle expert that stands for fewer: its
// program can be played for them as well. It is for [Session.Reset], and shares the program and the parameters of s.
func (s *Session) Part(units, expertCopies int64) Session {
	less := s.Units - units
	n := Session{Program: with(s.Program, expertCopies), Parameters: s.Parameters, Whole: s.Whole, Beside: s.Beside,
		Leaving:   s.Leaving,
		Optimizer: s.Optimizer, Rank: s.Rank, Clip: s.Clip,
		Recipe: s.Recipe, Units: units, Recorded: s.Recorded, Lead: s.Lead, Watch: Watch{Done: s.Done, Pace: s.Pace}}
	for _, p := range []*step.Parameters{&n.Parameters, &n.Whole} {
		p.Layers -= less
		p.ExpertCopies = expertCopies
	}
	if e := s.Evaluation; e != nil {
		n.Evaluation = &Evaluation{Program: with(e.Program, expertCopies), Units: e.Units - less, Recorded: e.Recorded,
			Prepares: e.Prepares}
	}
	return n
}

// with is p for another number of experts.
func with(p *step.Program, expertCopies int64) *step.Program {
	if p.ExpertCopies == expertCopies {
		return p
	}
	q := *p
	q.ExpertCopies = expertCopies
	return &q
}
