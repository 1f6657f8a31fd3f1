package step

// Replayed is an operation whose node autograd was seen to make: what it saves and does in backward is told to it, in
// the order in which it was seen.
type Replayed struct {
	o op
	// sized is how many bytes the gradient has that is handed on next, where it is a view of another size than its
	// memory.
	sized int64
}

// Sized says how many bytes the gradient has that is handed on next; 0 where it has as many as its memory.
func (r Replayed) Sized(bytes int64) Replayed {
	if r.sized = bytes; bytes == 0 {
		r.sized = asStored
	}
	return r
}

// Replay starts the node of an operation whose gradients go where those of ins go, and which saves saved. A T whose
// gradient goes nowhere stands for an input without one.
func (t *Tape) Replay(ins, saved []T) Replayed { return Replayed{o: t.op(ins...).save(saved...)} }

// Wants is x with a gradient of its own, as x.requires_grad_() makes it.
func (t *Tape) Wants(x T) T { return t.requireGrad(x) }

// LastSaves says whether the next n saved tensors are the last that checkpointing waits for, so that the operation does
// not run.
func (t *Tape) LastSaves(n int) bool { return t.lastSaves(int32(n)) }

// Alloc allocates register r in backward.
func (r Replayed) Alloc(register int, bytes int64, l Label) { r.o.alloc(register, bytes, l) }

// AllocWide allocates register r, as wide as the vocabulary, in backward.
func (r Replayed) AllocWide(register int, bytes int64, l Label) {
	r.o.act(act{verb: actAllocLogits, route: route{reg: uint8(register)}, bytes: bytes, label: l})
}

// Collect makes the operation one whose outputs are parts of its input: their gradients are copied together into a new
// tensor of so many bytes.
func (r Replayed) Collect(bytes int64) {
	if r.o.i != None {
		r.o.node().collects = true
	}
	r.AllocWide(0, bytes, LabelLogitsGradient)
	r.o.send(0, 0)
}

// Free frees a register in backward.
func (r Replayed) Free(register int) { r.o.free(register) }

// MadeProduct is what a matrix product without a bias makes, which checkpointing may keep; taken says that it was kept
// and does not run.
func (t *Tape) MadeProduct(numel int64, d DType) (y T, taken bool) {
	kept := t.keepsProduct(false)
	if kept && t.transplant && !t.stopped {
		return t.takeBack(), true
	}
	y = t.fresh(numel, d, LabelLinear)
	if kept {
		t.keep(y)
	}
	return y, false
}

// Type is the type of x's elements.
func (x T) Type() DType { return x.dtype }

// Product says that a matrix product runs in backward.
func (r Replayed) Product() { r.o.workspace() }

// Reduce takes the scratch of a reduction in backward.
func (r Replayed) Reduce(over Over, rows, cols int64) {
	if scratch, semaphores := r.o.t.Recipe.Reduction(over, rows, cols); scratch > 0 {
		const a, b = maxRegs - 1, maxRegs - 2
		r.o.alloc(a, scratch, LabelReduction).alloc(b, semaphores, LabelReduction).free(b).free(a)
	}
}

// Embedding is the gradient of an embedding of the given rows and cols for n ids, in register 0.
func (r Replayed) Embedding(n, rows, cols int64, d DType) { r.o.embeddingGradient(n, rows, cols, d) }

// Sort is the scratch of sorting n indices below rows.
func (r Replayed) Sort(n, rows int64) {
	r.o.scratch(r.o.t.indexSortScratch(n, rows), LabelEmbeddingSort)
}

// Validate ends the operation's own backward.
func (r Replayed) Validate() { r.o.validate() }

// Send hands a register to an input; view says that it is a view, which is never added to in place, and again that
// another input got it, too.
func (r Replayed) Send(register, input int, view, again bool) {
	verb := actSend
	switch {
	case again:
		verb = actSendAgain
	case view:
		verb = actSendMarked
	}
	r.o.act(act{verb: verb, route: route{uint8(register), uint8(input)}, bytes: r.sized})
}

// Pass hands the gradient of an output on to an input.
func (r Replayed) Pass(output, input int, view bool) {
	verb := actPass
	if view {
		verb = actPassView
	}
	r.o.act(act{verb: verb, route: route{uint8(output), uint8(input)}, bytes: r.sized})
}

// SendSaved hands a saved tensor to an input.
func (r Replayed) SendSaved(saved, input int) { r.o.sendSaved(saved, input) }

// SendNothing hands a tensor without memory to an input.
func (r Replayed) SendNothing(input int) { r.o.alloc(maxRegs-1, 0, LabelNone).send(maxRegs-1, input) }

// End is where the gradient of the operation's first output goes, as a tensor without memory. All of its backward has
// been told by then, and it has so many outputs.
func (r Replayed) End(outputs int) T {
	r.o.out(NoTensor, outputs-1)
	return r.o.out(NoTensor, 0)
}

// Sibling is where the gradient of output k of the operation goes that has x as its first one.
func (x T) Sibling(k int) T {
	if x.edge >= 0 {
		x.edge += edge(k)
	}
	return x
}

// Made is what an operation of a recording makes: numel elements of type d; ofLoss says that it belongs to logits and
// loss.
func (t *Tape) Made(numel int64, d DType, l Label, ofLoss bool) T {
	x := t.fresh(numel, d, l)
	if i := t.storages[x.storage].slot; ofLoss && i != None {
		t.Prog.Slots[i].Component = LogitsAndLoss
	}
	return x
}

// Product says that a matrix product runs here, in the same kernel with a bias where it is told so.
func (t *Tape) Product(withBias bool) { t.productSpace(withBias) }

// Reduce takes the scratch of a reduction.
func (t *Tape) Reduce(over Over, rows, cols int64, d DType) { t.scratchOf(over, rows, cols, d) }

// HalfCopy is autocast's copy of a parameter; Release lets go of it.
func (t *Tape) HalfCopy(w Weight) T { return t.weight(w) }

// Cached says whether autocast keeps its copy of w: it is a leaf that wants a gradient.
func (t *Tape) Cached(w Weight) bool { return t.cast[w.Index] != None }

// WantsGradient says whether a gradient of x is computed.
func (x T) WantsGradient() bool { return x.edge != noEdge }

// Attend is a call of attention's kernel over a batch of its own, on heads that lie outside of their tokens, or on
// tokens that lie outside of the batch, as headsFirstly and tokensFirstly say. Casts and padding were made before.
func (t *Tape) Attend(q, k, v T, h Heads, mask *T, batch int64, headsFirstly, tokensFirstly bool,
	dropout float64) (y T, tokensFirst bool) {
	shape := t.Shape
	t.Shape = Shape{Batch: batch, Tokens: h.Queries}
	if headsFirstly {
		q.layout = headsFirst
	}
	if tokensFirstly {
		q.layout = tokensOutermost
	}
	switch {
	case t.Recipe.SelectiveAttention:
		y = t.SDPA(q, k, v, h, mask, dropout)
	case mask != nil && h.KV == 1 && h.Query > 1 && !t.BroadcastsHeads(h, true):
		y = t.BroadcastAttention(q, k, v, h, mask)
	default:
		y = t.attend(q, k, v, h, mask, dropout)
	}
	t.Shape = shape
	return y, t.tokensFirst(y, h, mask != nil)
}

// Sized is x with numel elements of type d, as a view of it has, and the gradient of e.
func (x T) Sized(numel int64, d DType, e T) T {
	x.numel, x.form, x.edge = numel, plain(d), e.edge
	return x
}

// MarkCache says that x belongs to what the model returns beside its logits: a cache, which no loop converts.
func (t *Tape) MarkCache(x T) {
	if x.storage != None && t.storages[x.storage].slot != None {
		t.Prog.Slots[t.storages[x.storage].slot].Label = LabelCache
	}
}

// KeptByModel says that the model keeps x from this micro-step to the next, where the same takes its place.
func (t *Tape) KeptByModel(x T) { t.freePrevious(x) }
