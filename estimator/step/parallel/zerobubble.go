package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// The schedules whose backward comes in two halves, so that that of the parameters fills what would be idle time.
// Source: torch/distributed/pipelining/schedules.py (_get_1f1b_rank_ops, ScheduleInterleavedZeroBubble,
// ScheduleZBVZeroBubble, ScheduleDualPipeV), torch 2.9; arXiv 2401.10241.

// counted are turns that take the micro-batches of each stage one by one.
type counted struct {
	chunks int64
	turns  []step.Turn
	seen   [step.BackwardWeight + 1][]int64 // by way and stage
	owed   []step.Turn                      // halves of parameters that are still to come
}

// add does a way with the next micro-batch of a stage. A whole backward counts as both of its halves.
func (c *counted) add(chunk int64, way step.Way) step.Turn {
	counts := way
	if way == step.Backward {
		counts = step.BackwardInput
	}
	if c.seen[counts] == nil {
		c.seen[counts] = make([]int64, c.chunks)
	}
	turn := step.Turn{Chunk: chunk, Micro: c.seen[counts][chunk], Way: way}
	c.seen[counts][chunk]++
	c.turns = append(c.turns, turn)
	return turn
}

// halves does the first half of a backward, and owes the second.
func (c *counted) halves(chunk int64) {
	turn := c.add(chunk, step.BackwardInput)
	turn.Way = step.BackwardWeight
	c.owed = append(c.owed, turn)
}

// pay does the second half that is owed longest.
func (c *counted) pay() {
	if len(c.owed) > 0 {
		c.turns = append(c.turns, c.owed[0])
		c.owed = c.owed[1:]
	}
}

// zeroBubble are the turns of interleaved stages, where the halves of parameters begin when the GPU has done as many
// others as stand before it.
func (p Pipeline) zeroBubble() []step.Turn {
	each, _ := RoundOf(p.Micro, p.Stages)
	all := p.Chunks * p.Micro
	fill := min((p.Chunks-1)*each+p.Stages-1-p.Stage, all)
	c := counted{chunks: p.Chunks, turns: make([]step.Turn, 0, 3*all)}
	for op := range fill + all {
		if op < all {
			c.add(op/each%p.Chunks, step.Forward)
		}
		if op < fill {
			continue
		}
		c.halves(p.Chunks - 1 - (op-fill)/each%p.Chunks)
		if op-fill >= p.Stage {
			c.pay()
		}
	}
	for len(c.owed) > 0 {
		c.pay()
	}
	return c.turns
}

// zeroBubbleV are the turns of two stages of which the second stands as far from the end as the first from the
// beginning. It is made for at least as many micro-batches as fill the pipeline, and what there is too much of left
// out.
func (p Pipeline) zeroBubbleV() []step.Turn {
	micro := max(2*p.Stages-1, p.Micro)
	c := counted{chunks: 2}
	forward, backward := func(chunk int64) { c.add(chunk, step.Forward) }, func(chunk int64) {
		c.halves(chunk)
		c.turns = append(c.turns, c.owed[len(c.owed)-1])
		c.owed = c.owed[:len(c.owed)-1]
	}
	for range 2*(p.Stages-p.Stage) - 1 {
		forward(0)
	}
	for range p.Stage {
		forward(1)
		forward(0)
	}
	for range p.Stages - p.Stage {
		forward(1)
		backward(1)
	}
	for c.seen[step.Forward][1] < c.seen[step.Forward][0] || c.seen[step.Forward][0] < micro {
		if c.seen[step.Forward][0] < micro {
			forward(0)
		}
		backward(0)
		forward(1)
		backward(1)
	}
	for range p.Stage {
		c.halves(0)
		c.halves(1)
	}
	owes := func(chunk int64) bool {
		return slices.ContainsFunc(c.owed, func(t step.Turn) bool { return t.Chunk == chunk })
	}
	payFor := func(chunk int64) {
		k := slices.IndexFunc(c.owed, func(t step.Turn) bool { return t.Chunk == chunk })
		c.turns = append(c.turns, c.owed[k])
		c.owed = slices.Delete(c.owed, k, k+1)
	}
	for range p.Stages - p.Stage {
		c.halves(0)
		payFor(0)
	}
	for _, chunk := range [...]int64{1, 0} {
		for owes(chunk) {
			payFor(chunk)
		}
	}
	return slices.DeleteFunc(c.turns, func(t step.Turn) bool { return t.Micro >= p.Micro })
}

// dualPipeV are the turns of the same two stages where a forward of one and a backward of the other go together, which
// PyTorch does one after the other.
func (p Pipeline) dualPipeV() []step.Turn {
	c := counted{chunks: 2}
	behind, before := p.Stages-p.Stage-1, p.Stage+1
	for range 2 * behind {
		c.add(0, step.Forward)
	}
	for range before {
		c.add(0, step.Forward)
		c.add(1, step.Forward)
	}
	for range behind {
		c.halves(1)
		c.pay()
		c.add(1, step.Forward)
	}
	for range p.Micro - 2*p.Stages + before {
		c.add(0, step.Forward)
		c.add(1, step.Backward)
		c.add(1, step.Forward)
		c.add(0, step.Backward)
	}
	for range behind {
		c.add(1, step.Backward)
		c.add(1, step.Forward)
		c.add(0, step.Backward)
	}
	split := false
	backward := func(chunk int64) {
		if split {
			c.halves(chunk)
		} else {
			c.add(chunk, step.Backward)
		}
	}
	for i := range before {
		split = split || i == before/2 && p.Stage%2 == 1
		backward(1)
		split = split || i == before/2 && p.Stage%2 == 0
		backward(0)
	}
	for range behind {
		c.pay()
		backward(0)
	}
	for range before {
		c.pay()
	}
	return c.turns
}
