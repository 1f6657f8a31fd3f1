package step

import "slices"

// beforeLayer is the pre-forward hook of the layer that comes next; it returns the layer's input as the layer and backward will see it,
// which the caller lets go of.
func (t *Tape) beforeLayer(x T) T {
	k := int(t.layersRun)
	if every := t.Recipe.CheckpointEvery; t.Recipe.Reentrant && every > 0 && t.layersRun%every == 0 {
		t.noGrad = true
		x = t.castForward(x)
		t.noGrad = false
		t.unshard(k, true)
		return x // without a graph there is no backward to wait for
	}
	x = t.castForward(x)
	t.unshard(k, true)
	return t.sumAfter(k, x)
}

// castForward is x in the type that MixedPrecisionPolicy lets the inputs and outputs of every module that is dealt out have.
// Source: _fsdp_state.py (_pre_forward, cast_forward_inputs; _post_forward, output_dtype).
func (t *Tape) castForward(x T) T {
	if t.shards.CastsOutputs && (x.dtype == F32 || x.dtype.Half()) {
		return t.Cast(x, t.Recipe.Compute, t.label(x))
	}
	return t.Hold(x)
}

// sumAfter is x as the input of group k, whose gradients are summed when that of x is there.
func (t *Tape) sumAfter(k int, x T) T {
	return t.op(x).pass(0, 0).act(act{verb: actReduce, bytes: int64(k)}).out(x, 0)
}

// afterLayer is the post-forward hook of a layer that returned y, and returns it as the next will see it. Its group is given as a negative
// number where it ran without a graph.
func (t *Tape) afterLayer(group int, y T) T {
	if group > 0 {
		t.afterForward(group, y, t.shards.KeepsLayers)
		return t.castOutput(y)
	}
	node := y.edge
	y.edge = noEdge
	t.afterForward(-group, y, t.shards.KeepsLayers)
	t.noGrad = true
	y = t.castOutput(y)
	t.noGrad = false
	y.edge = node
	return y
}

// castOutput takes over y, which a layer returns, and casts it and the second output.
func (t *Tape) castOutput(y T) T {
	cast := t.castForward(y)
	if t.hasSecond {
		second := t.second
		t.second = t.castForward(second)
		t.Drop(second)
	}
	t.Drop(y)
	return cast
}

// beforeRerun is the pre-forward hook of a layer that reentrant checkpointing runs again, on its detached input x. The caller lets go of
// what it returns.
func (t *Tape) beforeRerun(k int, x T) T {
	x = t.castForward(x)
	t.unshard(k, true)
	return t.sumAfter(k, x)
}

// afterRerun is its post-forward hook. The layer is taken for the root of a forward of its own; and since it counts as
// one that ran after all others, its backward will ask for the layer that was run again before it, which nobody waits for.
func (t *Tape) afterRerun(k int, y T) T {
	if t.shards.Flat { // keeps them for the backward that follows
		return y
	}
	t.afterForward(k, y, t.shards.KeepsLayers)
	y = t.castOutput(y)
	t.release(t.shards.former) // which a variable holds until then
	t.shards.former = none
	return y
}

// afterForward is the post-forward hook of group k, which returned x.
func (t *Tape) afterForward(k int, x T, keeps bool) {
	f := t.shards
	if !keeps {
		t.reshard(k)
	}
	f.groups[k].turn = len(f.order)
	f.order = append(f.order, k)
	if x.edge >= 0 {
		n := int32(x.edge >> 2)
		t.nodes[n].hooked = true
		f.hooks = append(f.hooks, hook{n, k})
	}
}

// beginForward is the pre-forward hook of the root; it returns the batch as the model sees it, which the caller lets go of.
func (t *Tape) beginForward(batch []T) []T {
	seen := make([]T, len(batch))
	for i, x := range batch {
		seen[i] = t.castForward(x)
	}
	t.unshard(0, true)
	return seen
}

// endForward is the post-forward hook of the root. It may bring what the model returned to the type that it computes in; a variable
// holds the last gathered buffer until then.
// Source: _fsdp_state.py (_post_forward).
func (t *Tape) endForward(loss T, outputs []T) T {
	f := t.shards
	t.afterForward(0, loss, f.KeepsRoot)
	if d := t.Recipe.Compute; f.CastsOutputs && loss.dtype != d {
		cast := t.Cast(loss, d, LabelLoss)
		for i := range outputs {
			if outputs[i].storage == loss.storage {
				t.Drop(outputs[i])
				outputs[i] = t.Hold(cast)
			}
		}
		t.Drop(loss)
		loss = cast
	}
	for i, x := range outputs {
		if d := t.Recipe.Compute; f.CastsOutputs && x.dtype == F32 && d != F32 && t.label(x) != LabelCache {
			outputs[i] = t.Cast(x, d, t.label(x))
			t.Drop(x)
		}
	}
	t.release(f.former)
	f.former = none
	return loss
}

// beforeBackward is the pre-backward hook of the group that node i belongs to: its parameters have to be there, and those of the
// group that ran before it in forward are asked for.
// Source: _fsdp_param_group.py (pre_backward, _backward_prefetch).
func (t *Tape) beforeBackward(i int32) {
	f := t.shards
	at := slices.IndexFunc(f.hooks, func(h hook) bool { return h.node == i })
	k := f.hooks[at].group
	f.hooks = slices.Delete(f.hooks, at, at+1) // the number of a node may be used again
	t.unshard(k, false)
	if turn := f.groups[k].turn; turn > 0 && (f.Prefetches || !f.Flat) {
		t.allGather(f.order[turn-1])
	}
}

// reduce is the post-backward hook of group k: the whole gradients are copied into one buffer, of which every GPU gets the sum of
// its part.
// Source: _fsdp_param_group.py (post_backward), _fsdp_collectives.py (foreach_reduce).
func (t *Tape) reduce(k int) {
	f := t.shards
	g := &f.groups[k]
	if g.summed {
		return
	}
	g.summed = true
	if f.Flat {
		t.reduceFlat(k)
		return
	}
	t.reshard(k)
	if f.Unsynced && f.Reduced != f.whole {
		t.widenWhole(g)
	}
	from := len(t.prog.Events)
	numel := int64(0)
	var with []int32
	for _, p := range g.params {
		if f.grads[p] != none {
			with = append(with, p)
			numel += f.part(&t.parameters[p])
		}
	}
	if len(with) == 0 {
		return
	}
	t.release(f.input)
	f.input = t.alloc(numel*f.World*f.Reduced.Size(), Communication, LabelReduceInput)
	t.release(t.alloc(t.copyInScratch(with), Communication, LabelShardScratch))
	// The list of gradients is cleared from its end, and a variable of the loop still holds the last of them.
	last := with[len(with)-1]
	for _, p := range slices.Backward(with[:len(with)-1]) {
		t.dropWhole(p)
	}
	sum := t.aside(reduceStream, numel*f.Reduced.Size(), Gradients, LabelGradient)
	if f.Reduced != f.Stored {
		wide := t.aside(reduceStream, numel*f.Stored.Size(), Gradients, LabelGradient)
		t.release(sum)
		sum = wide
	}
	t.storages[sum].refs = 0
	t.prog.Events = append(t.prog.Events, Event{t.storages[sum].slot, Keep})
	t.dropWhole(last)
	if f.Unsynced {
		t.lastly(from)
	}
}

// endBackward runs the post-backward hooks that no gradient of an input has run, the root's first.
// Source: _fsdp_state.py (_root_post_backward_final_callback).
func (t *Tape) endBackward() {
	f := t.shards
	for k := range f.groups {
		t.reduce(k)
		t.release(f.groups[k].output)
		f.groups[k].output = none
	}
	from := len(t.prog.Events)
	t.release(f.input)
	f.input = none
	if f.Unsynced {
		t.lastly(from)
	}
}
