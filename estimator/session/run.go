package session

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Batch is the shape of a batch: so many samples, padded to so many tokens. Padded says that some of them are padding,
// for which transformers makes a mask where it makes none of a batch without.
type Batch struct {
	Samples, Tokens int64
	Padded          bool
}

// undrawn is what a job has that no traced run of batches of several shapes had, or that was traced and is not equal:
// gradients that accumulate over batches with and without a mask. It is "" for nothing.
func (r *Player) undrawn() string {
	a := &r.Arch
	switch {
	case !r.Alone():
		return "several GPUs"
	case r.Recipe.Accumulation > 1:
		return "gradient_accumulation"
	case r.Evaluation != nil:
		return "an evaluation"
	case r.Recipe.Compile || r.in.Job.Training.Compile != nil:
		return "torch.compile"
	case r.in.Job.Training.Objective != nil:
		return "an objective"
	case r.Flash:
		return "flash attention, which unpads batches"
	case a.FixedTokens > 0 || a.HasTower() || a.Sees():
		return "inputs of a fixed size"
	case a.TargetTokens():
		return "an encoder with a decoder"
	case recordings.Recording(a) != nil:
		return "a recorded model"
	}
	return ""
}

// Reserved is what is reserved after each optimizer step of a run of these batches on an allocator without a limit.
func (r *Player) Reserved(rc step.Recipe, order []Batch) (reserved []int64, err error) {
	var errs invalid.List
	if what := r.undrawn(); what != "" {
		errs.Add("/training", "unsupported", "batches of several shapes are not modelled together with %s", what)
	}
	for i, b := range order {
		if b.Samples < 1 || b.Samples > mostOfBatch || b.Tokens < 1 || b.Tokens > mostOfBatch {
			errs.Add("/training", "out_of_range", "batch %d is %d × %d; each is from 1 to %d", i, b.Samples, b.Tokens,
				mostOfBatch)
			break
		}
	}
	if err := errs.Err(); err != nil || len(order) == 0 {
		return nil, err
	}
	w := r.workspace()
	defer func() { r.account(w) }()
	runner := play.RunnerOf(&w.Session)
	shapes, err := r.shapes(w, runner, rc, order)
	if err != nil {
		return nil, err
	}
	w.Allocator.Reset(r.Allocator, 0)
	runner.Begin(w.Allocator, shapes[0])
	for i := range shapes {
		if !runner.Step(shapes[i : i+1]) {
			if w.Session.Ended() == play.Stopped {
				return nil, replay.ErrStopped
			}
			errs.Add("/training", "unsupported", "batch %d, %d × %d, cannot follow the one before in the replay: what stays "+
				"between them differs", i, order[i].Samples, order[i].Tokens)
			return nil, errs.Err()
		}
		reserved = append(reserved, w.Allocator.Reserved())
	}
	return reserved, nil
}

// mostOfBatch is up to how many samples a batch has, and tokens a sample.
const mostOfBatch = 1 << 24

// shapes records batches, each shape once, the first as the last, with whose program the run begins.
func (r *Player) shapes(w *replay.Workspace, runner *play.Runner, on step.Recipe,
	order []Batch,
) ([]*play.Shape, error) {
	w.Restart()
	w.Forget()
	list, known := make([]*play.Shape, len(order)), map[Batch]*play.Shape{}
	recorded := int64(0)
	for i := len(order) - 1; i >= 0; i-- {
		of := order[i]
		if known[of] == nil || i == 0 {
			j := *r.Job
			j.Shape.Batch, j.Shape.Tokens = of.Samples*max(r.Arch.Choices, 1), of.Tokens
			rc := on
			rc.ExplicitMask = of.Padded
			one := Player{Job: &j, in: r.in, Turn: r.Turn}
			if _, err := one.Begin(w, rc); err != nil {
				return nil, err
			}
			known[of] = runner.Shape()
			recorded += int64(len(w.Session.Program.Events))
			if err := r.Look(); err != nil {
				return nil, err
			}
		}
		list[i] = known[of]
	}
	if r.in.Took != nil {
		r.in.Took.Requests += recorded - int64(len(w.Session.Program.Events)) // of which account has the last
	}
	return list, nil
}
