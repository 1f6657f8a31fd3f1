package step

import "slices"

// Layer is the forward of one layer of the model: it borrows x and returns the layer's output.
type Layer func(t *Tape, x T) T

// checkpointed is a layer that is run again in backward.
type checkpointed struct {
	forward Layer
	input   T
	first   int32 // its nodes are [first, last)
	last    int32
	saves   int32
	unit    int // its number in the order of the forward
	// shape is that of the pass that it ran in: a trainer's passes have other batches than the job's micro-batch.
	shape   Shape
	rebuilt bool
	second  T // what AlsoReturns was told, for its size alone
	// captured is what the closure of a layer that is not run reentrantly keeps until node keeper, the last one that
	// waits for saved tensors, has run.
	captured []T
	shared   *Shared
	keeper   int32
	// arguments are what a function other than a layer got, its input among them.
	arguments []T
	// For layers of several tensors instead of forward and input:
	block           Block
	inputs, outputs []T

	selected
}

// AlsoReturns says, inside a layer's forward, that the layer returns x, too, and takes x over. It has one such
// result at most.
func (t *Tape) AlsoReturns(x T) { t.second, t.hasSecond = x, true }

// Second is what the layer that just ran returned besides its output, if anything. Whoever asks owns it.
func (t *Tape) Second() (x T, ok bool) {
	x, ok = t.second, t.hasSecond
	t.hasSecond = false
	return x, ok
}

// Besides is what a layer gets besides its input.
type Besides struct {
	// Arguments are positional: reentrant checkpointing saves them with the input.
	Arguments []T
	// Captured are keywords: checkpointing keeps them in a closure, which lives as long as the graph.
	Captured []T
	// Shared is among the keywords of a layer that is not run reentrantly; nil for most.
	Shared *Shared
}

// Layer runs a layer of the given unit on x, which it takes over, under the recipe's checkpointing.
func (t *Tape) Layer(unit int32, x T, forward Layer, besides Besides) T {
	t.enter(unit)
	t.layersRun++
	t.captureHidden(x)
	given := x
	every := t.Recipe.CheckpointEvery
	// The last of every n, as torchtitan counts. What is compiled layer by layer may have its checkpoints inside.
	checkpoints := every > 0 && t.layersRun%every == 0 && (!t.Recipe.CompileBlocks || t.Recipe.CheckpointsAround)
	reentrant := checkpoints && t.graph.reentrant(t)
	x = t.hooks.BeforeUnit(int(t.layersRun), given, !reentrant)
	var y T
	switch {
	case !checkpoints:
		y = forward(t, x)
	case reentrant:
		y = t.reentrant(given, x, forward, besides)
	default:
		x = t.realize(x)
		y = t.graph.nonReentrant(t, x, forward, besides)
	}
	y = t.hooks.AfterUnit(int(t.layersRun), y, !reentrant)
	t.Drop(x, given)
	return y
}

// EndLayers says that what follows lies outside the layers again.
func (t *Tape) EndLayers() { t.enter(-1) }

// reentrant is torch.utils.checkpoint(use_reentrant=True): the layer runs without a graph and one
// node, which keeps the layer's input, stands for it. What the layer's function captured lives as long as
// the graph does, that is until the loss goes. seen is the input as the layer gets it.
func (t *Tape) reentrant(x, seen T, forward Layer, besides Besides) T {
	t.noGrad = true
	y := forward(t, seen)
	t.noGrad = false
	o := t.op(x)
	if !t.Recipe.CheckpointOffload {
		o.save(x)
	}
	o.save(besides.Arguments...)
	if o.i == None {
		return y
	}
	c := checkpointed{forward: forward, input: x, shape: t.Shape}
	if t.hasSecond {
		c.second = t.second
		c.second.dtype = t.hooks.Returned(c.second.dtype)
	}
	c.unit = int(t.layersRun)
	t.layers = append(t.layers, c)
	for _, c := range besides.Captured { // every layer of a stack holds the same
		if !slices.ContainsFunc(t.graphHolds, func(held T) bool { return held.storage == c.storage }) {
			t.graphHolds = append(t.graphHolds, t.Hold(c))
		}
	}
	n := o.node()
	n.checkpoint, n.layer = true, int32(len(t.layers)-1)
	return o.out(y, 0)
}

// runCheckpoint is CheckpointFunction.backward: the layer runs again, with a graph, from a
// detached input, and a backward of its own follows while the arriving gradient, the output and
// the input are all held.
func (t *Tape) runCheckpoint(i int32) {
	n := t.nodes[i]
	layer := t.layers[n.layer]
	if layer.block != nil {
		t.runBlock(i)
		return
	}
	base, actBase, kept := int32(len(t.nodes)), len(t.acts), len(t.kept)

	// The detached input is a leaf: a node without a backward that collects its gradient.
	t.nodes = append(t.nodes, node{layer: None, unit: n.unit, grad: [3]int32{None, None, None}})
	leaf := layer.input
	if t.Recipe.CheckpointOffload {
		leaf.storage = t.fetched(leaf)
	}
	leaf.edge = edgeTo(base, 0)
	if leaf.permuted {
		t.nodes[base].awaits = 2 // what the layer's first operation sends, and the residual
	}

	// A second output has no gradient, and a custom autograd function gets zeros for one.
	zeros := T{storage: None, numel: layer.second.numel}
	if zeros.numel > 0 {
		zeros = t.fresh(zeros.numel, layer.second.dtype, LabelInputGradient)
	}

	seen := t.hooks.BeforeRerun(layer.unit, leaf)
	t.recompute = true
	t.detach(seen)
	t.EnterAutocast()
	y := layer.again(t, seen)
	y = t.hooks.AfterRerun(layer.unit, y)
	t.Drop(seen)
	if !t.Recipe.CheckpointOffload { // custom_bwd keeps autocast, and its cache of weights, to the end
		t.ExitAutocast()
	}
	t.recompute = false
	t.endDetached()

	t.retain(n.grad[0])
	t.hand(delivery{e: y.edge, s: n.grad[0], view: n.viewed(0)})
	second, ok := t.Second()
	if ok {
		t.deliver(second.edge, t.Hold(zeros).storage)
	}
	t.backwardRange(base+1, int32(len(t.nodes)))

	t.releaseUnreached(base)
	grad, view := t.nodes[base].grad[0], t.nodes[base].viewed(0)
	if t.storages[grad].refs > 1 { // a leaf's .grad takes over a gradient only when it is its sole owner
		fresh := t.Alloc(t.Prog.Slots[t.storages[grad].slot].Bytes, Temporaries, LabelInputGradient)
		t.Release(grad)
		grad, view = fresh, false
	}
	if h, ok := hooksAs[Reruns](t.hooks); ok {
		h.Reran(leaf, grad)
	}
	t.nodes, t.acts = t.nodes[:base], t.acts[:actBase]
	t.Drop(y)
	if ok {
		t.Drop(second, zeros)
	}
	t.endGraph(kept)
	t.Release(n.grad[0])
	t.nodes[i].grad[0] = None
	t.releaseSaved(&t.nodes[i])
	if t.Recipe.CheckpointOffload {
		t.Drop(leaf)
		t.ExitAutocast()
	}
	t.hand(delivery{e: n.in[0], s: grad, view: view})
	t.accumulate()
}

// nonReentrant is torch.utils.checkpoint(use_reentrant=False): the graph is built in forward, but
// saves nothing; the first node of the layer that asks for a saved tensor has them all made again.
func (t *Tape) nonReentrant(x T, forward Layer) T {
	t.layers = append(t.layers, checkpointed{forward: forward, input: t.Hold(x), first: int32(len(t.nodes)),
		shape: t.Shape})
	l := int32(len(t.layers) - 1)
	t.layer = l
	y := forward(t, x)
	t.layer = None
	t.layers[l].last = int32(len(t.nodes))
	for i := t.layers[l].first; i < t.layers[l].last; i++ {
		t.layers[l].saves += int32(t.nodes[i].nSaved)
	}
	if t.layers[l].saves == 0 { // no saved tensor refers to the closure that would run the layer again
		t.Drop(x)
	}
	return y
}

// capture gives the layer that has just run on x what its closure refers to.
// Source: torch/utils/checkpoint.py (_NoopSaveInputs), torch 2.9.
func (t *Tape) capture(x T, besides Besides) {
	l := &t.layers[len(t.layers)-1]
	for i := l.first; i < l.last; i++ {
		if t.nodes[i].nSaved == 0 {
			continue
		}
		l.keeper = i
		l.captured = append(l.captured, t.Hold(x))
		if l.shared = besides.Shared; l.shared != nil {
			l.shared.holders++
		}
		for _, more := range [...][]T{besides.Captured, besides.Arguments} {
			for _, c := range more {
				l.captured = append(l.captured, t.Hold(c))
			}
		}
		return
	}
	t.dropSelected(l)
}

// again runs the layer on x as it ran in forward.
func (c *checkpointed) again(t *Tape, x T) T {
	shape := t.Shape
	t.Shape = c.shape
	y := c.forward(t, x)
	t.Shape = shape
	return y
}

// uncapture lets go of what the closure of node i's layer refers to, where i is the last node that needs it.
func (t *Tape) uncapture(i int32) {
	n := &t.nodes[i]
	if n.layer == None || n.layer >= int32(len(t.layers)) {
		return
	}
	l := &t.layers[n.layer]
	if len(l.captured)+len(l.kept) == 0 || l.keeper != i {
		return
	}
	t.dropSelected(l)
	for _, x := range l.captured {
		t.Drop(x)
	}
	l.captured = nil
	if l.shared != nil {
		l.shared.Leave(t)
		l.shared = nil
	}
}

// rebuild runs layer l once more and hands what its operations save to the nodes that wait for it.
// It stops as soon as the last of them has been made (early stop).
// Source: torch/utils/checkpoint.py (_checkpoint_without_reentrant_generator), torch 2.9.
func (t *Tape) rebuild(l int32) {
	c := &t.layers[l]
	c.rebuilt = true
	base, actBase, kept := int32(len(t.nodes)), len(t.acts), len(t.kept)
	t.recompute, t.transplant, t.rebuilds, t.savesLeft = true, true, l, c.saves
	c.products = 0
	t.EnterAutocast()
	y := c.again(t, c.input)
	if second, ok := t.Second(); ok {
		t.Drop(second)
	}
	t.ExitAutocast()
	t.recompute, t.transplant, t.stopped = false, false, false
	if c.shared != nil {
		c.shared.keepGraph(t, base)
	}
	for k := c.first; k < c.last; k++ {
		from := &t.nodes[base+k-c.first]
		t.nodes[k].saved = from.saved
		if from.more != nil {
			t.nodes[k].overflow().saved = from.more.saved
		}
	}
	if second, ok := t.Second(); ok {
		t.Drop(second)
	}
	t.Drop(y)
	t.endGraph(kept) // the second graph is nobody's
	if c.arguments == nil {
		t.Drop(c.input)
	}
	t.nodes, t.acts = t.nodes[:base], t.acts[:actBase]
}

// fetched is the input of an offloaded layer back on the GPU. The copy is made as Unsloth's
// Unsloth_Offloaded_Gradient_Checkpointer makes it: at once, when the layer's backward begins.
func (t *Tape) fetched(x T) int32 { return t.Alloc(x.bytes(), Activations, LabelResidual) }

// detachedInput is the edge of a layer's input while checkpointing runs the layer again, and its half copy.
type detachedInput struct {
	edge edge
	cast T
}

// detach says that x is such an input.
func (t *Tape) detach(x T) {
	t.detached = append(t.detached, detachedInput{edge: x.edge, cast: T{storage: None}})
}

// endDetached says that the layer has run. The copies go with autocast.
func (t *Tape) endDetached() {
	for k := range t.detached {
		t.detached[k].edge = noEdge
	}
}

// leafCopy is the half copy of x, an input of a layer that runs again: as a leaf that requires a gradient it is cast
// once, like a weight.
// Source: aten/src/ATen/autocast_mode.cpp (cached_cast), torch 2.9.
func (t *Tape) leafCopy(d *detachedInput, x T, l Label) T {
	if d.cast.storage == None {
		d.cast = t.Cast(x, t.Recipe.Compute, l)
	}
	return t.Hold(d.cast)
}
