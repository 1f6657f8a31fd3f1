package estimator

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Turn is a share of the processors: whoever answers many at once lends it to an estimate.
type Turn interface {
	// Pace is called about every two milliseconds of the work, from one goroutine at a time, and may wait.
	Pace()
	// Rest gives the turn up while the estimate waits for another one, and Resume waits until there is one again.
	Rest()
	Resume()
	// End is called once, when the answer is there.
	End()
}

// ownTurn is that of an estimate which nobody paces.
type ownTurn struct{}

func (ownTurn) Pace()   {}
func (ownTurn) Rest()   {}
func (ownTurn) Resume() {}
func (ownTurn) End()    {}

// look lets others have their turn, and says with ErrStopped that nobody waits for the answer any more.
func (r *question) look() error {
	r.turn.Pace()
	select {
	case <-r.done:
		return ErrStopped
	default:
		return nil
	}
}

// admit asks whether the job may be answered now. What it returns is called when the answer is there.
func (r *resolved) admit(in *Input) (end func(), err error) {
	r.turn, r.done = ownTurn{}, in.Done
	if in.Admit == nil {
		return r.turn.End, nil
	}
	turn, err := in.Admit(r.cost(max(len(in.GPUs), 1)))
	if err != nil {
		return nil, err
	}
	r.turn = turn
	return turn.End, nil
}

// watch is look for those who record; nil where nobody is to be asked.
func (r *question) watch() func() bool {
	if r.turn == nil {
		return nil
	}
	return func() bool { return r.look() == nil }
}

// begin is session for one that may have to end early, with ErrStopped: then w is in no state to be used again.
func (r *resolved) begin(w *workspace, rc step.Recipe) (s *play.Session, err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case step.Gone{}:
			err = ErrStopped
		default:
			panic(cause)
		}
	}()
	return r.session(w, rc, false), nil
}
