package estimator

import (
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

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
	r.turn, r.done = replay.OwnTurn{}, in.Done
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
func (r *resolved) begin(w *replay.Workspace, rc step.Recipe) (s *play.Session, err error) {
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

// workspace is the storage for a replay: that of the answer before, or an empty one where it is asked what an answer
// takes.
func (r *question) workspace() *replay.Workspace {
	switch {
	case r.storage != nil:
		return r.storage
	case r.took != nil:
		return replay.NewWorkspace()
	}
	return replay.LentWorkspace()
}
