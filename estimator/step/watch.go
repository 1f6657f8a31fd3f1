package step

// Watch bounds what a session plays, and lets its caller end it early.
type Watch struct {
	// Done ends the play when it is closed; nil never does.
	Done <-chan struct{}
	// Most is how many requests may be played; 0 is any number.
	Most int64

	played int64
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

// watched is how many requests are played between two looks at the watch: about two milliseconds.
const watched = 1 << 15

// passes says whether the next n requests may be played.
func (w *Watch) passes(n int) bool {
	if w.ended != NotEnded {
		return false
	}
	select {
	case <-w.Done:
		w.ended = Stopped
		return false
	default:
	}
	if w.played += int64(n); w.Most > 0 && w.played > w.Most {
		w.ended = Spent
		return false
	}
	return true
}

// Ended says why the play did not come to its end; what the heap shows then means nothing.
func (w *Watch) Ended() Ended { return w.ended }

// CountRequests is how many requests a micro-step makes of the heap, told from the program without playing it.
func (s *Session) CountRequests() int64 {
	var f fold
	f.set(s.Program, s.Recorded, s.Units, s.Lead)
	count := int64(0)
	for _, g := range s.Program.Segments {
		if g.Unit == f.unit && g.Unit >= 0 {
			count += f.copies * int64(g.End-g.Start)
			continue
		}
		count += int64(g.End - g.Start)
		if g.Unit >= 0 || f.unit < 0 {
			continue
		}
		for _, e := range s.Program.Events[g.Start:g.End] {
			if f.isMiddle[e.Slot] {
				count += f.copies - 1
			}
		}
	}
	return count
}

// Shallower is s with fewer units, which its program can be played for as well: at least as many as were recorded. The session
// that it returns shares the program and the parameters of s and has a storage of its own.
func (s *Session) Shallower(units int64) Session {
	less := s.Units - units
	n := Session{Program: s.Program, Parameters: s.Parameters, Whole: s.Whole, Optimizer: s.Optimizer, Rank: s.Rank, Clip: s.Clip,
		Recipe: s.Recipe, Units: units, Recorded: s.Recorded, Lead: s.Lead}
	n.Parameters.Layers -= less
	n.Whole.Layers -= less
	if e := s.Evaluation; e != nil {
		shallower := *e
		shallower.Units -= less
		n.Evaluation = &shallower
	}
	return n
}
