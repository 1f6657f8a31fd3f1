package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/session"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Reference is the software whose allocations are replayed for a job that names no versions.
func Reference() string { return resolved.Reference(release.Assumed(nil)) }

// Estimate replays one job and says what it holds at its largest moment. The error is an
// *InvalidJobError where the job cannot be understood or asks for something that is not modelled.
// It is a pure function of its input and safe for concurrent use.
func Estimate(in Input) (*Result, error) { return estimate(in, true, forOne(in)) }

// Judge is Estimate for those who ask about many jobs: it looks for the smallest allocator limit, which takes
// several replays, only where a verdict depends on it. Elsewhere minimum_limit_bytes is what is
// alive at the peak, and low_bytes follows from that; everything else is what Estimate says.
func Judge(in Input) (*Result, error) { return estimate(in, false, forOne(in)) }

func estimate(in Input, limits bool, replays *replay.Memory) (_ *Result, err error) {
	if c := in.Calibration; c != nil && (c.Estimator != Version || c.Base != Calibration) {
		return nil, fmt.Errorf("the calibration %s was fitted to the estimator %s with %s, and this is %s with %s",
			c.ID, c.Estimator, c.Base, Version, Calibration)
	}
	if kinds, _, _ := kindsOfRanks(&in.Job.Training); kinds > 1 {
		in.LeastIfBeyond = false
		return estimateRanks(in, limits, replays)
	}
	r, err := resolve.Resolve(&in)
	if err != nil {
		return nil, err
	}
	limits = limits || in.LowerBound
	in.LeastIfBeyond = in.LeastIfBeyond && in.Calibration == nil && !limits
	p := session.PlayerOf(r, &in, replays)
	end, err := p.Admit()
	if err != nil {
		return nil, err
	}
	defer end()
	defer p.RefuseRecording(&err)
	first := firstOf(&in)
	recipe := session.Hardware(r.Recipe, first)
	recipe = p.Hardware(recipe, first)
	// Cards of the same hardware share a replay, and so each replay knows the cards that it has to judge. The smallest
	// limit is part of the answer for the first of them only.
	runs := map[step.Recipe]*resolved.Replayed{}
	for i := range in.GPUs {
		rc := p.Hardware(recipe, &in.GPUs[i])
		if runs[rc] == nil {
			runs[rc] = &resolved.Replayed{
				Recipe: rc,
				Limits: limits && rc == recipe,
				Group:  bounds.On(r).Group(&in.GPUs[i]),
			}
		}
		g := &in.GPUs[i]
		runs[rc].Cards = append(
			runs[rc].Cards,
			resolved.Judged{Usable: g.UsableBytes - in.Job.Aside(g), Group: bounds.On(r).Group(g),
				Index: i},
		)
	}
	main := runs[recipe]
	if main == nil {
		main = &resolved.Replayed{Recipe: recipe, Limits: limits, Group: bounds.On(r).Group(nil)}
	}
	if err := p.Replay(main, in.Timeline, in.Tensors); err != nil {
		return nil, err
	}
	res := answer.On(r).Answer(main, in)
	res.Played, res.Requests, res.AtLeast = main.Played, main.Requests, main.AtLeast
	res.GPUs = make([]GPUFit, 0, len(in.GPUs))
	var others answer.Spread
	for i := range in.GPUs {
		one := runs[p.Hardware(recipe, &in.GPUs[i])]
		if one.Ledger == nil {
			if err := p.Replay(one, false, false); err != nil {
				return nil, err
			}
			res.Played += one.Played
			res.AtLeast = res.AtLeast || one.AtLeast
		}
		figures := answer.On(r).Figures(one, bounds.On(r).Group(&in.GPUs[i]))
		others.Add(figures.Device)
		res.GPUs = append(res.GPUs, answer.Judge(&in.GPUs[i], figures, answer.On(r).Aside(one, &in.Job, &in.GPUs[i])))
		answer.DisplayNote(res, &in.Job, &in.GPUs[i], figures.High)
	}
	main.FillIn(res.GPUs)
	if others.Least != others.Most {
		res.Notes = append(res.Notes, others.Note(first.ID))
	}
	return res, nil
}

// Taken is a job with the training that it is taken for, as an answer's Assumed has it, without a replay. Two jobs that
// are taken for the same take the same. The error is that of [Estimate] where a job cannot be understood.
func Taken(in Input) (Job, error) {
	r, err := resolve.Resolve(&in)
	if err != nil {
		return Job{}, err
	}
	job := in.Job
	job.Training = *answer.On(r).Completed(&in.Job.Training)
	return job, nil
}

// Replay plays the allocations and frees of the given number of optimizer steps on heap, in PyTorch's order: what
// Estimate plays on its model of the caching allocator. plain records and plays every layer by itself, without the
// short cut for layers that repeat.
func Replay(in Input, heap alloc.Heap, steps int, plain bool) (err error) {
	r, err := resolve.Resolve(&in)
	if err != nil {
		return err
	}
	p := session.PlayerOf(r, &in, nil)
	defer p.RefuseRecording(&err)
	first := firstOf(&in)
	p.Session(&replay.Workspace{}, session.Hardware(r.Recipe, first), plain).Play(heap, steps)
	return nil
}

// firstOf is the card whose hardware the first replay has; nil for none.
func firstOf(in *Input) *GPU {
	if len(in.GPUs) == 0 {
		return nil
	}
	return &in.GPUs[0]
}

// Batch is the shape of one batch of a run.
type Batch = session.Batch

// Run plays batches of these shapes one after the other, one an optimizer step, on an allocator without a limit, and
// says what is reserved after each, in bytes: batches of many lengths make PyTorch reserve more than the longest alone.
// What was not traced so is refused with an *InvalidJobError. The job's own micro-batch and length are not played.
func Run(in Input, batches []Batch) (reserved []int64, err error) {
	r, err := resolve.Resolve(&in)
	if err != nil {
		return nil, err
	}
	p := session.PlayerOf(r, &in, nil)
	end, err := p.Admit()
	if err != nil {
		return nil, err
	}
	defer end()
	defer p.RefuseRecording(&err)
	first := firstOf(&in)
	return p.Reserved(p.Hardware(session.Hardware(r.Recipe, first), first), batches)
}
