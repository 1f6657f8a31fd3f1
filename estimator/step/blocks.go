package step

// Block is the forward of a layer that gets and returns several tensors: it borrows in, and the results are its
// caller's.
type Block func(t *Tape, in []T) []T

// Blocks runs a layer of the given unit on in, which it borrows, under the recipe's checkpointing. What the layer
// captures besides is kept as long as the graph.
func (t *Tape) Blocks(unit int32, in []T, forward Block, captured ...T) []T {
	t.enter(unit)
	t.layersRun++
	if every := t.Recipe.CheckpointEvery; every == 0 || t.layersRun%every != 0 {
		return forward(t, in)
	}
	if !t.Recipe.Reentrant {
		return t.nonReentrantBlock(in, forward, captured)
	}
	t.noGrad = true
	outs := forward(t, in)
	t.noGrad = false
	var wanted []T
	for _, x := range in {
		if x.RequiresGrad() {
			wanted = append(wanted, x)
		}
	}
	o := t.op(wanted...).save(in...)
	if o.i == None {
		return outs
	}
	inputs := append([]T(nil), in...)
	outputs := append([]T(nil), outs...)
	t.layers = append(t.layers, checkpointed{block: forward, inputs: inputs, outputs: outputs, shape: t.Shape})
	for _, c := range captured {
		if last := len(t.graphHolds) - 1; last >= 0 && t.graphHolds[last].storage == c.storage {
			continue // the layer before holds the same
		}
		t.graphHolds = append(t.graphHolds, t.Hold(c))
	}
	n := o.node()
	n.checkpoint, n.layer = true, int32(len(t.layers)-1)
	for k := range outs {
		outs[k] = o.out(outs[k], k)
	}
	return outs
}

// nonReentrantBlock is nonReentrant for a layer of several tensors.
func (t *Tape) nonReentrantBlock(in []T, forward Block, captured []T) []T {
	inputs := append([]T(nil), in...)
	var outs []T
	t.nonReentrant(in[0], func(t *Tape, _ T) T {
		results := forward(t, inputs)
		if outs == nil {
			outs = results
			return results[0]
		}
		for _, x := range results[1:] { // of the second time nobody uses them
			t.Drop(x)
		}
		return results[0]
	})
	t.capture(in[0], Besides{Arguments: in[1:], Captured: captured})
	return outs
}

// Leaf is a new tensor that requires a gradient, as x.requires_grad = True makes it; a checkpointed layer that runs
// again keeps it and its gradient to the end.
func (t *Tape) Leaf(x T) T {
	if !t.Recipe.Reentrant && !t.transplant {
		return t.requireGrad(x)
	}
	if t.noGrad || !t.recompute {
		return x
	}
	if t.transplant { // its node has a place in the second graph, too, where no gradient comes
		t.nodes = append(t.nodes, node{layer: None, unit: t.unit, grad: [3]int32{None, None, None}})
		x.edge = edgeTo(int32(len(t.nodes)-1), 0)
		return x
	}
	t.nodes = append(t.nodes, node{layer: None, unit: t.unit, grad: [3]int32{None, None, None}})
	x.edge = edgeTo(int32(len(t.nodes)-1), 0)
	t.ownLeaves = append(t.ownLeaves, t.Hold(x))
	return x
}

// runBlock is CheckpointFunction.backward for a layer of several tensors: results without a gradient get one of zeros,
// every input that wants a gradient becomes a leaf, and the gradients of all leaves are handed on at the end.
// Source: torch/utils/checkpoint.py (CheckpointFunction), torch 2.9.
func (t *Tape) runBlock(i int32) {
	n := t.nodes[i]
	layer := t.layers[n.layer]
	relaid := false // a permuted result got zeros in the usual order
	for k := range layer.outputs {
		if n.grad[k] == None {
			relaid = relaid || layer.outputs[k].permuted
			n.grad[k] = t.Alloc(layer.outputs[k].bytes(), t.component(), LabelGradientSum)
		}
	}
	base, actBase, leafBase := int32(len(t.nodes)), len(t.acts), len(t.ownLeaves)
	in := append([]T(nil), layer.inputs...)
	leaves := base
	for k := range in {
		if in[k].RequiresGrad() {
			leaf := node{layer: None, unit: n.unit, grad: [3]int32{None, None, None}}
			if in[k].permuted && relaid {
				leaf.awaits = 2 // those zeros, and what the layer itself sends
			}
			t.nodes = append(t.nodes, leaf)
			in[k].edge = edgeTo(leaves, 0)
			t.detach(in[k])
			leaves++
		}
	}
	t.recompute = true
	t.EnterAutocast()
	shape := t.Shape
	t.Shape = layer.shape
	outs := layer.block(t, in)
	t.Shape = shape
	t.ExitAutocast()
	t.recompute = false
	t.endDetached()

	for k := range outs {
		t.retain(n.grad[k])
		t.hand(delivery{e: outs[k].edge, s: n.grad[k], view: n.viewed(uint8(k))})
	}
	t.backwardRange(leaves, int32(len(t.nodes)))

	grads := make([]int32, 0, len(in))
	for k := base; k < leaves; k++ {
		grads = append(grads, t.own(t.nodes[k].grad[0]))
	}
	for _, x := range t.ownLeaves[leafBase:] {
		t.Release(t.nodes[x.edge.node()].grad[0])
		t.Drop(x)
	}
	t.nodes, t.acts, t.ownLeaves = t.nodes[:base], t.acts[:actBase], t.ownLeaves[:leafBase]
	for k := range outs {
		t.Drop(outs[k])
		t.Release(n.grad[k])
		t.nodes[i].grad[k] = None
	}
	t.releaseSaved(&t.nodes[i])
	for k, g := range grads {
		t.deliver(n.in[k], g)
	}
	t.accumulate()
}

// own is gradient g as a leaf's .grad takes it over: a copy where somebody else refers to it.
func (t *Tape) own(g int32) int32 {
	if t.storages[g].refs == 1 {
		return g
	}
	return t.copied(g)
}

func (t *Tape) copied(g int32) int32 {
	fresh := t.Alloc(t.Prog.Slots[t.storages[g].slot].Bytes, t.component(), LabelInputGradient)
	t.Release(g)
	return fresh
}

// Permuted marks x as laid out in another order of its dimensions: a leaf's gradient is brought into the same, unless
// it began in that order.
// Source: torch/csrc/autograd/functions/accumulate_grad.h (obeys_layout_contract), torch 2.9.
func (t *Tape) Permuted(x T) T { x.permuted = true; return x }
