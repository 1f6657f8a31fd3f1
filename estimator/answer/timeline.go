package answer

import (
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// timeline lists the moments of a run, in their order.
func (r Answerer) timeline(run *resolved.Replayed) []result.TimelineEvent {
	l := run.Ledger
	var list []result.TimelineEvent
	add := func(phase string, micro *int64, event string, bytes int64,
		shares *[step.ComponentCount]int64) *result.TimelineEvent {
		list = append(list, result.TimelineEvent{Phase: phase, MicroStep: micro, Event: event, AllocatedBytes: bytes,
			Components: parted(bytes, shares)})
		return &list[len(list)-1]
	}
	add("load", nil, "the model is on the GPU", l.Largest[play.StageLoad], &l.Shares.Load)
	if most := l.Largest[play.StageEvaluation]; most > 0 {
		add("evaluation", nil, "most in the evaluation, between two steps", most, nil)
	}
	for i := range l.Spans {
		s := &l.Spans[i]
		micro := r.MicroStep(s.MicroStep)
		m := play.Moment{Stage: s.Stage, Backward: s.Backward, Layer: s.Layer}
		phase, where := PhaseOf(&m), r.where(&m)
		if s.Most > s.End {
			t := r.tensor(&s.Reached, s.Backward)
			add(phase, &micro, "most in "+where, s.Most, &s.AtMost).Tensor = &t
		}
		add(phase, &micro, "end of "+where, s.End, &s.AtEnd)
	}
	add("optimizer", nil, "most in the optimizer step", l.Largest[play.StageOptimizer], &l.Shares.Optimizer)
	add("optimizer", nil, "gradients set to None", l.Steady, &l.Shares.Steady)
	return list
}

// parted lists what bytes consist of, without components that hold nothing; nil where that is not known. What loading
// takes for the moment beyond what stays is temporary.
func parted(bytes int64, shares *[step.ComponentCount]int64) []result.Part {
	if shares == nil {
		return nil
	}
	var list []result.Part
	for c, n := range shares {
		bytes -= n
		if n != 0 {
			list = append(list, result.Part{Name: ComponentNames[c], Bytes: n})
		}
	}
	switch {
	case bytes == 0:
	case shares[step.Temporaries] == 0:
		list = append(list, result.Part{Name: ComponentNames[step.Temporaries], Bytes: bytes})
	default:
		for i := range list {
			if list[i].Name == ComponentNames[step.Temporaries] {
				list[i].Bytes += bytes
			}
		}
	}
	return list
}
