package parallel

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Pipeline is what a GPU has of torch.distributed.pipelining: some layers, in one stage or several, and the
// micro-batches of an optimizer step go through them. Gradients are added up in place from the second micro-batch on.
type Pipeline struct {
	// Strategy is what the GPUs of a stage do besides.
	step.Strategy
	// Stage is the GPU's place among Stages, from 0; Micro is how many micro-batches a step has.
	Stage, Stages, Micro int64
	// Chunks is how many stages every GPU has; stage s of the model is on GPU s modulo Stages.
	Chunks int64
	// Order is what the GPU does when.
	Order Order
	// Each says that what comes from another stage gets a tensor of its own each time, as Megatron-LM sends it.
	Each bool
	// Sums says that the embedded strategy adds the gradients of micro-batches up.
	Sums bool
}

// Order is a schedule of a pipeline.
type Order uint8

// The schedules: each backward as soon as it can, after the forward of all micro-batches, and the first with several
// stages a GPU.
const (
	OneForwardOneBackward Order = iota
	AllForward
	Interleaved
	ZeroBubble
	ZeroBubbleV
	DualPipeV
)

// Interleaves says that a GPU has several stages.
func (o Order) Interleaves() bool { return o >= Interleaved }

// V says that the stages go down the GPUs and up again, so that every GPU has two and the first both ends.
func (o Order) V() bool { return o >= ZeroBubbleV }

// Splits says that a backward may come in two halves.
func (o Order) Splits() bool { return o >= ZeroBubble }

// Ends says which ends of the model the GPU has.
func (p Pipeline) Ends() (first, last bool) {
	return p.Stage == 0, p.Stage == p.Stages-1 && !p.Order.V() || p.Stage == 0 && p.Order.V()
}

// HandsOver says that what the first of the GPU's stages returns is what the second receives, and the gradient the
// other way, without a copy. Source: torch/distributed/pipelining/schedules.py (_PipelineScheduleRuntime), torch 2.9.
func (p Pipeline) HandsOver() bool { return p.Order == DualPipeV && p.Stage == p.Stages-1 }

// SendsEach is Each.
func (p Pipeline) SendsEach() bool { return p.Each }

// MicroBatches are those of a step.
func (p Pipeline) MicroBatches() int64 { return p.Micro }

// InFlight is how many micro-batches are between forward and backward at most, counted once for each stage.
func (p Pipeline) InFlight() int64 {
	most, now := int64(0), int64(0)
	for _, turn := range p.Turns() {
		switch turn.Way {
		case step.Forward:
			now++
			most = max(most, now)
		case step.Backward, step.BackwardWeight:
			now--
		}
	}
	return most
}

// Turns are the forwards that fill the pipeline, then a backward and a forward by turns, then the backwards that are
// left. Source: torch/distributed/pipelining/schedules.py (Schedule1F1B, ScheduleGPipe), torch 2.9.
func (p Pipeline) Turns() []step.Turn {
	switch p.Order {
	case Interleaved:
		return p.interleaved()
	case ZeroBubble:
		return p.zeroBubble()
	case ZeroBubbleV:
		return p.zeroBubbleV()
	case DualPipeV:
		return p.dualPipeV()
	}
	fill := p.Micro
	if p.Order == OneForwardOneBackward {
		fill = min(p.Micro, p.Stages-p.Stage)
	}
	var turns []step.Turn
	forwards := int64(0)
	forward := func() {
		turns = append(turns, step.Turn{Micro: forwards})
		forwards++
	}
	for range fill {
		forward()
	}
	for m := range p.Micro {
		turns = append(turns, step.Turn{Micro: m, Way: step.Backward})
		if forwards < p.Micro {
			forward()
		}
	}
	return turns
}

// RoundOf is how many micro-batches an interleaved schedule takes through one stage of a GPU before it turns to the
// next; ok is false where the micro-batches do not come in rounds of as many. Source: schedules.py
// (ScheduleInterleaved1F1B.__init__), torch 2.9.
func RoundOf(micro, stages int64) (each int64, ok bool) {
	rounds := max(1, micro/stages)
	return micro / rounds, micro%rounds == 0
}

// interleaved are the turns where a GPU has several stages. Source: schedules.py (_get_1f1b_rank_ops,
// ScheduleInterleaved1F1B._calculate_single_rank_operations), torch 2.9.
func (p Pipeline) interleaved() []step.Turn {
	each, _ := RoundOf(p.Micro, p.Stages)
	all := p.Chunks * p.Micro
	fill := min((p.Chunks-1)*each+2*(p.Stages-1-p.Stage), all)
	turns := make([]step.Turn, 0, 2*all)
	c := counted{chunks: p.Chunks, turns: turns}
	for op := range fill + all {
		if op < all {
			c.add(op/each%p.Chunks, step.Forward)
		}
		if op >= fill {
			c.add(p.Chunks-1-(op-fill)/each%p.Chunks, step.Backward)
		}
	}
	return c.turns
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

// Elements are the embedded strategy's.
func (p Pipeline) Elements(q *step.Parameter) int64 {
	if a, ok := p.Strategy.(step.Aligning); ok {
		return a.Elements(q)
	}
	return q.Numel
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
