package session

import (
	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/parallel"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Session records one micro-step of the job on the given hardware; plain records every layer.
func (r *Player) Session(w *replay.Workspace, rc step.Recipe, plain bool) *play.Session {
	a := r.recorded(rc, plain)
	plain = plain || unfolds(rc.Objective)
	units, recorded, layers := resolved.RecordedLayers(a, plain || rc.Compile || rc.Spread().Irregular())
	net, parameters := a.Build(layers, rc.Stored, w.Parameters)
	together := r.trainBeside(&parameters, rc)
	w.Parameters = parameters.List
	record := func(remembered step.Rehearsed) *step.Program {
		w.Tape.Rehearsed = remembered
		w.Tape.Reset(rc, r.Shape, parameters)
		w.Tape.Look = r.watch()
		if rc.Objective != nil {
			w.Tape.Another = func() step.Network {
				same, _ := a.Build(layers, rc.Stored, nil)
				return same
			}
		}
		r.standBeside(&w.Tape, rc, len(parameters.List), together)
		return w.Tape.Record(net)
	}
	between := func(remembered step.Rehearsed) *play.Evaluation {
		w.Evaluated.Rehearsed = remembered
		return r.recordEvaluation(w, rc, plain)
	}
	program, evaluation := replay.Rehearsed(w, rc, record, between)
	whole := parameters
	if _, contrasts := rc.Objective.(objective.Contrastive); contrasts || r.Arch.Idles() ||
		recordings.Recording(&r.Arch) != nil {
		w.Tape.MarkUnreached()
	}
	if rc.Strategy != nil {
		parameters = rc.Strategy.Parts(whole, &w.Parts)
	}
	w.Session.Reset(play.Session{
		Program: program, Parameters: parameters, Whole: whole,
		Optimizer: r.Optimizer, Rank: r.Rank, Clip: r.Clip, Recipe: rc, Resumes: r.Restores(),
		Beside: r.besides(rc, plain), Leaving: r.leaving(rc), Units: units, Recorded: recorded, Lead: a.Lead,
		Evaluation: evaluation,
	})
	return &w.Session
}

// unfolds says that an objective has every layer recorded.
func unfolds(o step.Objective) bool {
	every, ok := o.(step.Unfolded)
	return ok && every.Unfolds()
}

// recorded is the architecture as it is recorded.
func (r *Player) recorded(rc step.Recipe, plain bool) *model.Architecture {
	_, flat := rc.Strategy.(parallel.FSDP1) // one part of a layer's flat tensor begins within any expert
	if !plain && !flat && !rc.Spread().Irregular() && !r.in.EveryExpert {
		return &r.Arch
	}
	every := r.Arch
	every.EveryExpert = true
	return &every
}

// Replay fills in what a run finds.
func (r *Player) Replay(out *resolved.Replayed, timeline, tensors bool) error {
	if err := r.Look(); err != nil {
		return err
	}
	w := r.workspace()
	var err error
	if out.Uneven, err = r.unevenly(w, out.Recipe); err != nil {
		return err
	}
	s, err := r.Begin(w, out.Recipe)
	if err != nil {
		return err
	}
	defer func() { r.account(w) }()
	w.Restart()
	out.Ledger, out.Applied = s.Account(timeline, tensors), w.Tape.Applied
	if err := r.Look(); err != nil {
		return err
	}
	out.Requests = s.CountRequests()
	s.Parameters.Distinct(func(p *step.Parameter, times int64) {
		if p.Embedding && p.Trained() {
			out.Embeddings += times * p.Numel
		}
	})
	if r.least(out) {
		return nil
	}
	once := replay.Requests(s)
	searches := out.Limits && r.Arch.Layers <= deepLayers && once <= replay.SearchedRequests
	found, err := r.replays.Of(s, r.Allocator, out.Ledger.Peak.Bytes, r.Turn, r.in.Done)
	if err != nil {
		return err
	}
	defer found.Unlock()
	w.Forget()
	if r.spent() {
		return r.tooDear()
	}
	base := func(limit, reserved int64) memory.Base {
		return memory.BaseOf(
			found.Allocated,
			reserved,
			limit,
			bounds.On(r.Job).Outside(out.Recipe),
			doubt.Widest(bounds.On(r.Job).Doubts(out)),
		)
	}
	mayDecide := !r.in.FitsOnly && once <= replay.SearchedRequests
	if !found.Done {
		keep := searches
		if mayDecide && !searches {
			const mostBeyond = 1.5 // hardly a job reserves more than so many times what is alive
			peak := out.Ledger.Peak.Bytes
			most := int64(mostBeyond * float64(peak))
			keep = r.undecided(out, base(peak, most), base(most, most))
		}
		if err := w.PlayAll(found, out.Ledger.Peak.Bytes, r.Allocator, keep && !r.Allocator.Expandable); err != nil {
			return err
		}
		found.Done = true
	}
	out.Played, out.Continued = found.Requests, found.Continued
	out.Base = base(min(out.Ledger.Peak.Bytes, found.Reserved), found.Reserved)
	out.Figures = bounds.On(r.Job).Bounded(out.Base, out.Group)
	if found.Continued { // of a job that was not played to its end no more is known
		return nil
	}
	if !searches && !(mayDecide && r.undecided(out, out.Base, base(found.Reserved, found.Reserved))) {
		return nil
	}
	if found.Limit == 0 && r.spent() {
		return r.tooDear()
	}
	if found.Limit == 0 {
		enough := func(int64, int64) bool { return false }
		if r.in.VerdictsOnly && !searches {
			enough = func(least, most int64) bool {
				return r.decided(out, least, most, func(limit int64) memory.Base { return base(limit, found.Reserved) })
			}
		}
		if searches && !r.Allocator.Expandable && !w.Stood() { // it was played for an earlier question
			w.Play(replay.Steps(s), r.Allocator, out.Ledger.Peak.Bytes-1)
		}
		limit, tries, whole := w.SmallestLimit(r.Allocator, out.Ledger.Peak.Bytes, found.Reserved, enough)
		if s.Ended() == play.Stopped {
			return replay.ErrStopped
		}
		if !whole {
			out.Base = base(limit, found.Reserved)
			out.Figures = bounds.On(r.Job).Bounded(out.Base, out.Group)
			return nil
		}
		found.Limit, found.Tries = limit, tries
	}
	out.Played += found.Tries * found.Requests
	out.Base = base(found.Limit, found.Reserved)
	out.Figures = bounds.On(r.Job).Bounded(out.Base, out.Group)
	if out.Limits {
		r.fill(w, out, found.Requests)
	}
	return nil
}

// spent says that the answer took as many requests as it may.
func (r *Player) spent() bool { return r.in.MostRequests > 0 && r.played >= r.in.MostRequests }

// account counts what a replay took, and gives its workspace back.
func (r *Player) account(w *replay.Workspace) {
	r.played += w.Taken()
	if took := r.in.Took; took != nil {
		took.Requests += w.Taken() + int64(len(w.Session.Program.Events))
		took.Bytes = max(took.Bytes, w.StorageBytes())
	}
	w.Session.Watch, w.Tape.Look, w.Evaluated.Look = play.Watch{}, nil, nil
	select {
	case <-r.in.Done: // whatever it was in the middle of
		return
	default:
	}
	if w != r.in.Storage {
		w.PutBack()
	}
}

// deepLayers is up to how many layers the smallest limit is always looked for; beyond, where a replay takes
// longer, only when a verdict depends on it.
const deepLayers = 256

// Hardware is the recipe for g. Very deep models, whose replay takes long, are replayed for the kinds of hardware only
// and not for every number of multiprocessors, which moves the scratch of a few sums.
func (r *Player) Hardware(first step.Recipe, g *job.GPU) step.Recipe {
	if r.Arch.Layers <= deepLayers {
		return Hardware(r.Recipe, g)
	}
	rc := r.Recipe
	rc.Hardware = hardwareOf(g, &rc.Software, &first.Hardware)
	return rc
}

// RefuseRecording turns what a recording that contradicts itself sets off in the replay into an error, where out is the
// error of the answer: what the reader cannot see, such as a gradient that is larger than its parameter. It is also
// where work ends that nobody waits for any more, whatever it is in the middle of.
func (r *Player) RefuseRecording(out *error) {
	switch reason := recover(); {
	case reason == nil:
	case reason == any(step.Gone{}):
		*out = replay.ErrStopped
	case recordings.Recording(&r.Arch) == nil:
		panic(reason)
	default:
		var errs invalid.List
		errs.Add("/model/recorded", "invalid_recording", "the recording contradicts itself and cannot be replayed (%v)",
			reason)
		*out = errs.Err()
	}
}

// Player records and plays what a job was resolved to, as far as it is asked.
type Player struct {
	*resolved.Job
	in *resolved.Input
	// replays are those that are known already; nil where none is remembered.
	replays *replay.Memory
	// Turn is what Input.Admit lent, and played how many requests were played.
	Turn   replay.Turn
	played int64
}

// PlayerOf plays r, which in was resolved to.
func PlayerOf(r *resolved.Job, in *resolved.Input, replays *replay.Memory) *Player {
	return &Player{Job: r, in: in, replays: replays}
}

// Look lets others have their turn, and says with ErrStopped that nobody waits for the answer any more.
func (r *Player) Look() error {
	r.Turn.Pace()
	select {
	case <-r.in.Done:
		return replay.ErrStopped
	default:
		return nil
	}
}

// Admit asks whether the job may be answered now. What it returns is called when the answer is there.
func (r *Player) Admit() (end func(), err error) {
	r.Turn = replay.OwnTurn{}
	if r.in.Admit == nil {
		return r.Turn.End, nil
	}
	turn, err := r.in.Admit(r.Cost(max(len(r.in.GPUs), 1)))
	if err != nil {
		return nil, err
	}
	r.Turn = turn
	return turn.End, nil
}

// watch is look for those who record; nil where nobody is to be asked.
func (r *Player) watch() func() bool {
	if r.Turn == nil {
		return nil
	}
	return func() bool { return r.Look() == nil }
}

// Begin is session for one that may have to end early, with ErrStopped: then w is in no state to be used again.
func (r *Player) Begin(w *replay.Workspace, rc step.Recipe) (s *play.Session, err error) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case step.Gone{}:
			err = replay.ErrStopped
		default:
			panic(cause)
		}
	}()
	s = r.Session(w, rc, false)
	s.Done, s.Pace = r.in.Done, r.Turn.Pace
	return s, nil
}

// workspace is the storage for a replay: that of the answer before, or an empty one where it is asked what an answer
// takes.
func (r *Player) workspace() *replay.Workspace {
	switch {
	case r.in.Storage != nil:
		return r.in.Storage
	case r.in.Took != nil:
		return replay.NewWorkspace()
	}
	return replay.LentWorkspace()
}
