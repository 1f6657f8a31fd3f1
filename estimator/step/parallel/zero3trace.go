package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// coordinator is what DeepSpeed's engine of one model knows of its parameters: which are there, and which come next.
// Source: deepspeed/runtime/zero/partitioned_param_coordinator.py (PartitionedParameterCoordinator), DeepSpeed 0.19.8.
type coordinator struct {
	parameters []step.Parameter
	first      int32     // the number of the first of them on the tape
	whole      []int32   // by parameter: the gathered one
	flying     []*bundle // by parameter: with what it was brought, where nobody has waited for it yet
	live       int64     // elements that are gathered
	// prefetch and persistence are those of the engine.
	prefetch, persistence int64
	trace
	at      int // the present use
	fetched int // up to where uses were looked at ahead
}

// bundle is parameters that are brought together.
type bundle struct {
	params []int32
	buffer int32 // that several come in
	part   int32 // of one, brought from the CPU's memory
	left   int   // how many nobody has waited for
	landed bool  // they are tensors of their own
}

// traceMode is what a coordinator does with the order of uses.
type traceMode uint8

// The modes: it knows none and notes none, it notes them, and it knows them. Parameters are brought ahead, and kept for
// a later use, in the last alone. Source: ZeRoTraceMode.
const (
	invalid traceMode = iota
	recording
	complete
)

// trace is the order in which parameters are used between the beginnings of two forwards.
type trace struct {
	mode   traceMode
	order  []int32
	ends   []bool  // by use: it is the last of a module's
	next   []int   // by use: the next of the same parameter
	before []int64 // by use: elements of all uses before
}

func (t *trace) equal(o *trace) bool { return t.mode == o.mode && slices.Equal(t.order, o.order) }

// known is a copy of the trace.
func (c *coordinator) known() trace {
	t := c.trace
	t.order, t.ends = slices.Clone(t.order), slices.Clone(t.ends)
	return t
}

// deal lets c be the coordinator of a model whose first parameter has a number, unless it is that already.
func (c *coordinator) deal(first int32, parameters []step.Parameter) {
	if len(c.parameters) == len(parameters) && c.first == first {
		return
	}
	n := len(parameters)
	c.first, c.parameters = first, parameters
	c.whole, c.flying = make([]int32, n), make([]*bundle, n)
	for i := range c.whole {
		c.whole[i] = step.None
	}
}

// of is the parameter with a number.
func (c *coordinator) of(p int32) *step.Parameter { return &c.parameters[p-c.first] }

// reset is the beginning of a forward: uses that were noted are known from here on, and where none were they are noted.
// Source: reset_step.
func (h *zero3) reset(c *coordinator) {
	h.land(c)
	switch c.mode {
	case invalid:
		c.trace = trace{mode: recording}
	case recording:
		c.mode = complete
		c.plan()
	}
	c.at, c.fetched, c.live = 0, 0, 0
}

// plan says of every use in the order when its parameter comes next.
func (c *coordinator) plan() {
	c.next, c.before = make([]int, len(c.order)), make([]int64, len(c.order)+1)
	later := map[int32]int{}
	for i := len(c.order) - 1; i >= 0; i-- {
		c.next[i] = len(c.order)
		if k, ok := later[c.order[i]]; ok {
			c.next[i] = k
		}
		later[c.order[i]] = i
	}
	for i, p := range c.order {
		c.before[i+1] = c.before[i] + c.of(p).Numel
	}
}
