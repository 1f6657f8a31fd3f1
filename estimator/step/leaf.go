package step

// leaf is a tensor of the forward that was made to require a gradient: an input of the graph that is no parameter.
// The graph's AccumulateGrad node holds the tensor, and the tensor the gradient that arrives, until the graph
// goes with the loss.
// Source: torch/csrc/autograd/functions/accumulate_grad.h (AccumulateGrad::variable), torch 2.9.
type leaf struct {
	x    T
	node int32
	grad int32 // the storage of its gradient, none before it has arrived
	free int   // the event that frees what the micro-step before left of its gradient
}

// requireGrad is x.requires_grad_(True). It does nothing where x has a gradient already or none is recorded.
func (t *Tape) requireGrad(x T) T {
	if x.edge != noEdge || t.noGrad {
		return x
	}
	i := int32(len(t.nodes))
	t.nodes = append(t.nodes, node{leaf: true, layer: None, unit: t.unit, part: t.part,
		grad: [3]int32{None, None, None}, nOut: 1})
	t.leaves = append(t.leaves, leaf{x: t.Hold(x), node: i, grad: None})
	x.edge = edgeTo(i, 0)
	return x
}

// keepGradient gives the leaf of node i its gradient, which it takes over where nobody else refers to it and it is not
// a part of something larger. Source: torch/csrc/autograd/functions/accumulate_grad.h (accumulateGrad), torch 2.9.
func (t *Tape) keepGradient(i int32) {
	n := &t.nodes[i]
	grad := n.grad[0]
	n.grad[0] = None
	for k := range t.leaves {
		l := &t.leaves[k]
		if l.node != i {
			continue
		}
		whole := t.Prog.Slots[t.storages[grad].slot].Bytes == l.x.bytes()
		if t.storages[grad].refs > 1 || !whole {
			fresh := t.Alloc(l.x.bytes(), Temporaries, LabelInputGradient)
			t.Release(grad)
			grad = fresh
		}
		l.grad = grad
	}
}

// freePreviousLeaves frees what the micro-step before left of the leaves, where the loop held its loss until now.
// Which slot that is of the gradient's will be known at the end of backward.
func (t *Tape) freePreviousLeaves() {
	for k := range t.leaves {
		l := &t.leaves[k]
		t.freePrevious(l.x)
		l.free = len(t.Prog.Events)
		t.freePrevious(l.x)
	}
}

// endLeaves lets go of the leaves at the end of backward, or leaves them to the next micro-step where the loop holds
// its loss.
func (t *Tape) endLeaves() {
	for k := range t.leaves {
		l := &t.leaves[k]
		switch {
		case !t.Recipe.HoldLogits:
			t.Drop(l.x)
			t.Release(l.grad)
		case l.grad != None:
			t.Prog.Events[l.free].Slot = t.storages[l.grad].slot
		}
	}
}
