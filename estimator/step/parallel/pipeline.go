package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Pipeline is a stage of torch.distributed.pipelining: this GPU has some layers, and the micro-batches of an optimizer
// step go through them. Gradients are added up in place from the second micro-batch on.
type Pipeline struct {
	// Strategy is what the GPUs of a stage do besides.
	step.Strategy
	// Stage is one of Stages, from 0; Micro is how many micro-batches a step has.
	Stage, Stages, Micro int64
	// AllForward runs the forward of all micro-batches before the first backward (GPipe); otherwise each backward
	// follows as soon as it can (1F1B).
	AllForward bool
	// Sums says that the embedded strategy adds the gradients of micro-batches up.
	Sums bool
}

// Ends says which ends of the model the stage has.
func (p Pipeline) Ends() (first, last bool) { return p.Stage == 0, p.Stage == p.Stages-1 }

// MicroBatches are those of a step.
func (p Pipeline) MicroBatches() int64 { return p.Micro }

// InFlight is how many micro-batches are between forward and backward at most.
func (p Pipeline) InFlight() int64 {
	if p.AllForward {
		return p.Micro
	}
	return min(p.Micro, p.Stages-p.Stage)
}

// Turns are the forwards that fill the pipeline, then a backward and a forward by turns, then the backwards that are
// left. Source: torch/distributed/pipelining/schedules.py (Schedule1F1B, ScheduleGPipe), torch 2.9.
func (p Pipeline) Turns() []step.Turn {
	var turns []step.Turn
	forwards := int64(0)
	forward := func() {
		turns = append(turns, step.Turn{Micro: forwards})
		forwards++
	}
	for range p.InFlight() {
		forward()
	}
	for m := range p.Micro {
		turns = append(turns, step.Turn{Micro: m, Backward: true})
		if forwards < p.Micro {
			forward()
		}
	}
	return turns
}

// Irregular is true: every layer of a stage is recorded.
func (Pipeline) Irregular() bool { return true }

// Align is the embedded strategy's.
func (p Pipeline) Align(r *step.Rank, heap alloc.Heap) []int32 {
	if a, ok := p.Strategy.(step.Aligning); ok {
		return a.Align(r, heap)
	}
	return nil
}

// Hooks add gradients up, unless the embedded strategy's do.
func (p Pipeline) Hooks(t *step.Tape) step.Hooks {
	h := p.Strategy.Hooks(t)
	if p.Sums {
		return h
	}
	return &pipeline{around{h, t}, make([]bool, len(t.Parameters))}
}

type pipeline struct {
	around
	there []bool // by parameter: it has a gradient
}

// GradientReady is AccumulateGrad.
func (h *pipeline) GradientReady(p, s int32) {
	if h.there[p] {
		h.tape.Release(s)
		return
	}
	h.there[p] = true
	h.around.GradientReady(p, s)
}
