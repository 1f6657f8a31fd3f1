package step

import "slices"

// A backward in two halves, as schedules without bubbles have it. The first makes the gradient of what the stage
// received and keeps the graph, with the gradient that has come to each operation on a parameter; the second runs these
// operations once more for the parameters' gradients, parameter by parameter. Sources:
// torch/distributed/pipelining/_backward.py (stage_backward_input, stage_backward_weight), stage.py
// (backward_one_chunk, backward_weight_one_chunk), torch 2.9.

// half says which gradients the backward of an operation makes.
type half uint8

const (
	wholeBackward half = iota
	inputHalf
	weightHalf
)

// withParameter says whether one of the inputs of node i is a parameter.
func (t *Tape) withParameter(i int32) (p int32, ok bool) {
	n := &t.nodes[i]
	for k := range n.nIn {
		if p, ok = n.edgeAt(k).param(); ok {
			return p, true
		}
	}
	return None, false
}

// inHalf says whether action a of node n belongs to the half that runs. Of a node without parameters everything belongs
// to the inputs' half; of one with them the registers that are handed to parameters, and those that are handed to
// nobody (the sums that a norm's gain takes), belong to the other.
func (t *Tape) inHalf(n *node, a act) bool {
	of := inputHalf
	switch a.verb {
	case actWorkspace:
		return true
	case actForget, actValidate:
		return false
	case actAlloc, actFree, actAllocLogits, actAddInPlace:
		own := t.acts[n.first:n.last]
		k := slices.IndexFunc(own, func(b act) bool { return b.hands() && b.reg == a.reg })
		toParameter := false
		if k >= 0 {
			_, toParameter = n.edgeAt(own[k].edge).param()
		}
		if toParameter || k < 0 && slices.ContainsFunc(own, func(b act) bool { return n.toParameter(b) }) {
			of = weightHalf
		}
	default:
		if n.toParameter(a) {
			of = weightHalf
		}
	}
	return of == t.half
}

// hands says that an action hands a register to an edge.
func (a act) hands() bool {
	switch a.verb {
	case actSend, actSendView, actSendMarked, actSendAgain:
		return true
	}
	return false
}

// toParameter says that an action hands a gradient to a parameter.
func (n *node) toParameter(a act) bool {
	switch a.verb {
	case actSend, actSendView, actSendMarked, actSendAgain, actPass, actPassView, actPassPart, actSendSaved:
		_, ok := n.edgeAt(a.edge).param()
		return ok
	}
	return false
}

// runInputHalf is the backward of one micro-batch for what the stage received. The first stage received nothing that
// wants a gradient, and leaves everything to the other half.
func (s *schedule) runInputHalf(stage *running, micro int64) {
	if stage.First {
		return
	}
	t, f := s.t, &stage.flying[micro]
	t.backward, t.half = true, inputHalf
	seed := s.seed(stage, micro)
	t.backwardRange(f.first, f.last)
	t.enter(-1)
	if s.backward != nil {
		s.backward.AfterMicroBatch(stage.Stage)
	}
	t.Drop(seed)
	s.returns(stage, micro)
	if stage.Last {
		t.Drop(f.loss)
	}
	f.ends = t.graphEnds(f.first, f.last)
	t.releaseGraph(f, None)
	t.cut()
	t.backward, t.half = false, wholeBackward
}

// runWeightHalf is the backward of one micro-batch for the parameters.
func (s *schedule) runWeightHalf(stage *running, micro int64) {
	if stage.First {
		s.runBackward(stage, micro)
		return
	}
	t, f := s.t, &stage.flying[micro]
	t.backward, t.half = true, weightHalf
	stage.done++
	last := weightGradient{sum: None, arrived: None}
	for turn, i := range t.inOrder(f.first, f.last) {
		t.enter(t.nodes[i].unit)
		t.releaseGraph(f, int32(turn)-1)
		t.weightGradient(i, &last)
	}
	t.enter(-1)
	t.giveGradient()
	t.Release(last.sum)
	t.Release(last.arrived)
	for i := f.first; i < f.last; i++ {
		t.releaseSaved(&t.nodes[i])
	}
	s.endStage(stage)
	t.Drop(f.output)
	t.cut()
	t.backward, t.half = false, wholeBackward
}

// inOrder are the operations on parameters among the nodes [from, to), in the order of the parameters.
func (t *Tape) inOrder(from, to int32) []int32 {
	var of []int32
	for i := from; i < to; i++ {
		if _, ok := t.withParameter(i); ok {
			of = append(of, i)
		}
	}
	slices.SortStableFunc(of, func(a, b int32) int {
		p, _ := t.withParameter(a)
		q, _ := t.withParameter(b)
		return int(p - q)
	})
	return of
}

// graphEnds says of each of the nodes [from, to) with which of the operations on parameters it goes, counted in their
// order: the last one that leads to it. It is None for those that none leads to.
func (t *Tape) graphEnds(from, to int32) []int32 {
	ends := make([]int32, to-from)
	for k := range ends {
		ends[k] = None
	}
	for turn, i := range t.inOrder(from, to) {
		ends[i-from] = int32(turn)
	}
	for i := to - 1; i >= from; i-- {
		n := &t.nodes[i]
		for k := range n.nIn {
			if e := n.edgeAt(k); e >= 0 && e.node() >= from {
				at := e.node() - from
				ends[at] = max(ends[at], ends[i-from])
			}
		}
	}
	return ends
}

// releaseGraph lets go of what the nodes have saved that go with an operation on a parameter.
func (t *Tape) releaseGraph(f *inFlight, turn int32) {
	for k, end := range f.ends {
		if end == turn {
			t.releaseSaved(&t.nodes[f.first+int32(k)])
		}
	}
}

// weightGradient is what the loop over the parameters still has of the one before: what has arrived at its operation,
// and the sum of it, which is a copy.
type weightGradient struct{ sum, arrived int32 }

// weightGradient makes the gradient of the parameters of node i from what has arrived there. It is assigned, or added
// in place to the one that is there.
func (t *Tape) weightGradient(i int32, last *weightGradient) {
	t.Release(last.arrived)
	arrived := t.nodes[i].grad[0]
	sum := t.Alloc(t.Bytes(arrived), Temporaries, LabelInputGradient)
	t.Release(last.sum)
	last.sum, last.arrived = sum, arrived
	t.retain(arrived) // the loop has it when the node has let go
	t.run(i)
}

// assign gives the parameter before its gradient, which the loop has until this one is there.
func (t *Tape) assign(p, s int32) {
	t.giveGradient()
	t.assigned = parameterGradient{p, s, true}
}

// giveGradient hands on the gradient that waits, if there is one.
func (t *Tape) giveGradient() {
	if a := t.assigned; a.waits {
		t.assigned.waits = false
		t.hooks.GradientReady(a.parameter, a.gradient)
	}
}

// parameterGradient is a gradient that a parameter is to be given.
type parameterGradient struct {
	parameter, gradient int32
	waits               bool
}
