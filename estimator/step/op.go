package step

// op is an operation while it is being recorded in the autograd graph. An op
// that no gradient reaches records nothing: all its methods do nothing.
type op struct {
	t *Tape
	i int32
}

// op starts the graph node of an operation on the inputs ins, in the order in
// which the operation lists them.
func (t *Tape) op(ins ...T) op {
	used := t.used
	t.used = t.used[:0]
	if len(used) > 0 {
		t.uses.Operated()
	}
	if !t.grads(ins...) {
		return op{t, None}
	}
	t.nodes = append(t.nodes, node{})
	i := int32(len(t.nodes) - 1)
	if len(used) > 0 {
		t.nodes[i].hooked = true
		t.uses.Saves(i, used)
	}
	n := &t.nodes[i]
	n.first, n.part, n.unit, n.expert, n.layer = int32(len(t.acts)), t.part, t.unit, t.expert, t.layer
	for k := range n.grad {
		n.grad[k] = None
	}
	for _, x := range ins {
		n.addEdge(x.edge)
		if p, ok := x.edge.param(); ok && !t.transplant {
			t.params[p].uses++
		}
	}
	return op{t, i}
}

func (o op) node() *node { return &o.t.nodes[o.i] }

// needs says whether input k wants a gradient.
func (o op) needs(k int) bool { return o.i != None && o.node().edgeAt(uint8(k)) != noEdge }

// save keeps xs alive until the operation's backward has run.
func (o op) save(xs ...T) op {
	if o.i == None {
		return o
	}
	n := o.node()
	for _, x := range xs {
		switch {
		case o.t.stopped:
			return o
		case n.layer == None || o.t.recompute:
			o.t.retain(x.storage)
			n.addSaved(x.storage)
		default: // checkpointed: what would be saved is dropped and made again in backward
			n.addSaved(None)
		}
		if o.t.transplant {
			o.t.savesLeft--
			o.t.stopped = o.t.savesLeft == 0 && !o.t.Recipe.RunsToEnd
		}
	}
	return o
}

// lastSaves says whether the next n saved tensors are the last that checkpointing waits for:
// what an operation saves of its inputs it saves before it runs, and so it does not run.
func (t *Tape) lastSaves(n int32) bool {
	return t.transplant && t.savesLeft <= n && !t.Recipe.RunsToEnd
}

func (o op) act(a act) op {
	if o.i != None {
		o.t.acts = append(o.t.acts, a)
	}
	return o
}

// alloc allocates register r in backward.
func (o op) alloc(r int, bytes int64, l Label) op {
	return o.act(act{verb: actAlloc, route: route{reg: uint8(r)}, bytes: bytes, label: l})
}

// free frees register r in backward.
func (o op) free(r int) op { return o.act(act{verb: actFree, route: route{reg: uint8(r)}}) }

// scratch allocates and frees bytes at once.
func (o op) scratch(bytes int64, l Label) op {
	if bytes == 0 {
		return o
	}
	return o.alloc(maxRegs-1, bytes, l).free(maxRegs - 1)
}

// workspace takes the cuBLAS workspace of the thread that runs backward.
func (o op) workspace() op { return o.act(act{verb: actWorkspace}) }

// validate ends the operation's own backward: what follows brings its gradients to the shape and type of
// the inputs, in the order of the inputs.
// Source: torch/csrc/autograd/engine.cpp (validate_outputs), torch 2.9.
func (o op) validate() op { return o.act(act{verb: actValidate}) }

// send hands register r to input k as its gradient.
func (o op) send(r, k int) op { return o.act(act{verb: actSend, route: route{uint8(r), uint8(k)}}) }

// sendView is send for a gradient that reaches the input through a view (of a matrix that
// was folded or transposed): a view keeps its base alive, and so is never added to in place.
func (o op) sendView(r, k int) op {
	return o.act(act{verb: actSendView, route: route{uint8(r), uint8(k)}})
}

// sendSaved hands the r-th saved tensor to input k as its gradient.
func (o op) sendSaved(r, k int) op {
	return o.act(act{verb: actSendSaved, route: route{uint8(r), uint8(k)}})
}

// collect makes the operation one whose outputs are parts of its input: their gradients are copied together into a new
// tensor of so many bytes.
func (o op) collect(bytes int64) op {
	if o.i != None {
		o.node().collects = true
	}
	return o.alloc(0, bytes, LabelInputGradient).send(0, 0)
}

// pass hands the incoming gradient of output r to input k unchanged.
func (o op) pass(r, k int) op { return o.act(act{verb: actPass, route: route{uint8(r), uint8(k)}}) }

// out closes the recording of output k; x is what the operation returned.
func (o op) out(x T, k int) T {
	if o.i == None {
		x.edge = noEdge
		return x
	}
	n := o.node()
	n.last = int32(len(o.t.acts))
	n.outputs(uint8(k + 1))
	x.edge = edgeTo(o.i, uint8(k))
	return x
}
