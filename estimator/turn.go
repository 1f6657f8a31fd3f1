package estimator

import (
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// player records and plays what a job was resolved to, as far as it is asked.
type player struct {
	*resolved
	in *Input
	// replays are those that are known already; nil where none is remembered.
	replays *replay.Memory
	// turn is what Input.Admit lent, and played how many requests were played.
	turn   Turn
	played int64
}

// playerOf plays r, which in was resolved to.
func playerOf(r *resolved, in *Input, replays *replay.Memory) *player {
	return &player{resolved: r, in: in, replays: replays}
}

// look lets others have their turn, and says with ErrStopped that nobody waits for the answer any more.
func (r *player) look() error {
	r.turn.Pace()
	select {
	case <-r.in.Done:
		return ErrStopped
	default:
		return nil
	}
}

// admit asks whether the job may be answered now. What it returns is called when the answer is there.
func (r *player) admit() (end func(), err error) {
	r.turn = replay.OwnTurn{}
	if r.in.Admit == nil {
		return r.turn.End, nil
	}
	turn, err := r.in.Admit(r.cost(max(len(r.in.GPUs), 1)))
	if err != nil {
		return nil, err
	}
	r.turn = turn
	return turn.End, nil
}

// watch is look for those who record; nil where nobody is to be asked.
func (r *player) watch() func() bool {
	if r.turn == nil {
		return nil
	}
	return func() bool { return r.look() == nil }
}

// begin is session for one that may have to end early, with ErrStopped: then w is in no state to be used again.
func (r *player) begin(w *replay.Workspace, rc step.Recipe) (s *play.Session, err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case step.Gone{}:
			err = ErrStopped
		default:
			panic(cause)
		}
	}()
	s = r.session(w, rc, false)
	s.Done, s.Pace = r.in.Done, r.turn.Pace
	return s, nil
}

// workspace is the storage for a replay: that of the answer before, or an empty one where it is asked what an answer
// takes.
func (r *player) workspace() *replay.Workspace {
	switch {
	case r.in.storage != nil:
		return r.in.storage
	case r.in.took != nil:
		return replay.NewWorkspace()
	}
	return replay.LentWorkspace()
}
