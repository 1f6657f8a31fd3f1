package step

// What torch.compile changes, as far as memory goes. Inductor fuses elementwise operations and reductions into kernels
// that write only what a matrix product, an attention kernel or the caller reads; AOTAutograd's partitioner keeps
// for backward what such kernels read and write and makes the rest again. So the result of a fusible
// operation is lazy here: it exists as the tensors that it is computed from, until something that is not fusible asks
// for it. Sources: torch/_functorch/partitioners.py (min_cut_rematerialization_partition),
// torch/_inductor/scheduler.py, torch 2.9; the rules below were read off traces of compiled nanoGPT, GPT-2 and Llama.

// lazy is what an unmade tensor is computed from.
type lazy struct {
	from  [3]int32 // storages that it holds
	n     uint8
	depth uint8 // residual additions since the last tensor that exists
	bytes int64
	label Label
	part  Part
}

// fuse records a fusible operation on ins that gives numel elements of type d; it keeps saves for backward.
func (t *Tape) fuse(numel int64, d DType, l Label, ins []T, saves ...T) T {
	z := lazy{bytes: numel * d.Size(), label: l, part: t.part}
	for _, x := range ins {
		if x.storage != None && int(z.n) < len(z.from) {
			t.retain(x.storage)
			z.from[z.n] = x.storage
			z.n++
			z.depth = max(z.depth, t.depth(x))
		}
	}
	y := t.unmade(z, numel, d)
	o := t.op(ins...).save(saves...)
	taken := false // the arriving gradient is overwritten by one of those that follow from it
	for k, x := range ins {
		switch {
		case !o.needs(k):
		case t.isLazy(x), x.bytes() == z.bytes && (!taken || l == LabelResidual):
			o.pass(0, k)
			taken = true
		default:
			o.alloc(k, x.bytes(), LabelInputGradient).send(k, k)
		}
	}
	return o.out(y, 0)
}

func (t *Tape) isLazy(x T) bool { return x.storage != None && t.storages[x.storage].lazy > 0 }

func (t *Tape) depth(x T) uint8 {
	if !t.isLazy(x) {
		return 0
	}
	return t.lazies[t.storages[x.storage].lazy-1].depth
}

// realize makes x exist: a product or an attention kernel reads it, or it leaves the graph.
func (t *Tape) realize(x T) T {
	if !t.isLazy(x) {
		return x
	}
	st := &t.storages[x.storage]
	z := t.lazies[st.lazy-1]
	st.lazy = 0
	if t.stopped {
		t.forget(z)
		return x
	}
	if st.slot = t.overwritten(z); st.slot == None {
		st.slot = t.slot(Alloc, z.bytes, t.component(), z.label)
		t.Prog.Slots[st.slot].Part = z.part
	}
	t.forget(z)
	return x
}

// overwritten is the memory of what a kernel is the last to read, in which it writes; None where there is none of its
// size. In training most of what is read is kept for backward.
// Source: torch/_inductor/scheduler.py (SchedulerNode.decide_inplace_update), torch 2.9.
func (t *Tape) overwritten(z lazy) int32 {
	if !t.Recipe.Evaluation {
		return None
	}
	for _, s := range z.from[:z.n] {
		from := &t.storages[s]
		if slot := from.slot; from.refs == 1 && from.lazy == 0 && slot != None && t.Prog.Slots[slot].Bytes == z.bytes {
			from.slot = None
			return slot
		}
	}
	return None
}

// forget releases what a lazy tensor was to be computed from.
func (t *Tape) forget(z lazy) {
	for _, s := range z.from[:z.n] {
		t.Release(s)
	}
}

// productInput is what a matrix product reads of x, a reference of its own.
func (t *Tape) productInput(x T) T { return t.exec.productInput(t, x) }

func (eager) productInput(t *Tape, x T) T { return t.Hold(x) }

// productInput is made, and in the type in which products are computed.
func (inductor) productInput(t *Tape, x T) T {
	if t.autocast && x.dtype != t.Recipe.Compute && t.Recipe.CheckpointEvery == 0 {
		return t.sharedCast(x)
	}
	y := t.autocastTo(x, t.Recipe.Compute, LabelCast)
	return t.realize(y)
}

// AdapterInput is x in the type d of an adapter.
func (t *Tape) AdapterInput(x T, d DType) T { return t.exec.adapterInput(t, x, d) }

func (eager) adapterInput(t *Tape, x T, d DType) T { return t.Cast(x, d, LabelCast) }

// adapterInput is x itself where a float32 copy would only be cast back by products.
// Source: torch/_inductor/fx_passes/joint_graph.py (pointless_convert), torch 2.9.
func (inductor) adapterInput(t *Tape, x T, d DType) T {
	if t.autocast && x.dtype == t.Recipe.Compute && d == F32 {
		return t.Hold(x)
	}
	return eager{}.adapterInput(t, x, d)
}

// Written is x, a sum of two products: keeping it for backward takes less than keeping both, so that it is made.
// Source: torch/_functorch/partitioners.py (min-cut of the graph weighted by bytes), torch 2.9.
func (t *Tape) Written(x T) T { return t.realize(x) }

// sharedCast is x as products read it, made once for those that follow each other on the same x. (A checkpointed layer
// has to record the same operations when it runs again, when more is alive.)
func (t *Tape) sharedCast(x T) T {
	if c := t.lastCast; c.from == x && t.storages[c.to.storage].refs > 0 {
		return t.Hold(c.to)
	}
	y := t.realize(t.autocastTo(x, t.Recipe.Compute, LabelCast))
	t.lastCast = sharedCast{from: x, to: y}
	return y
}

// sharedCast says what was cast last for a product.
type sharedCast struct{ from, to T }

// recordProduct records the backward of y = input · weight + bias. What it saved goes as soon as it has been read:
// the input with the gradient of the weight, which comes first, the weight with the gradient of the input.
func (inductor) recordProduct(t *Tape, x product, y T) T {
	inGrad, weightGrad := x.inputGradient(), x.weightGradient()
	o := t.op(x.input, x.weight, x.bias)
	saved := 0
	forget := func() { o.act(act{verb: actForget, route: route{reg: uint8(saved)}}); saved++ }
	if o.needs(1) {
		o.save(x.input)
	}
	if o.needs(0) {
		o.save(x.weight)
	}
	switch {
	case o.needs(1) && t.shared(x.weight):
		o.act(act{verb: actPostpone, route: route{edge: 1}, bytes: weightGrad, label: LabelWeightGradient})
		saved++
	case o.needs(1):
		o.alloc(1, weightGrad, LabelWeightGradient).workspace().sendView(1, 1)
		forget()
	}
	if o.needs(0) {
		o.alloc(0, inGrad, LabelInputGradient).workspace().sendView(0, 0)
		forget()
	}
	if o.needs(2) {
		o.alloc(2, x.bias.bytes(), LabelWeightGradient).send(2, 2)
	}
	return o.out(y, 0)
}

// gather is the lookup of an embedding, which is made again wherever it is read; its gradient is scattered.
func (t *Tape) gather(p, ids T, numel int64, l Label) T {
	z := lazy{from: [3]int32{ids.storage}, n: 1, bytes: numel * p.dtype.Size(), label: l, part: t.part}
	t.retain(ids.storage)
	y := t.unmade(z, numel, p.dtype)
	return t.op(p).save(ids).alloc(0, p.bytes(), LabelGradient).send(0, 0).out(y, 0)
}

// unmade is the tensor that z describes.
func (t *Tape) unmade(z lazy, numel int64, d DType) T {
	t.lazies = append(t.lazies, z)
	t.storages = append(t.storages, storage{refs: 1, slot: None, lazy: int32(len(t.lazies))})
	return T{storage: int32(len(t.storages) - 1), edge: noEdge, form: plain(d), numel: numel}
}

// realizeAfter is how many residual additions Inductor fuses before it writes the sum.
// Source: torch/_inductor/config.py (realize_reads_threshold), torch 2.9.
const realizeAfter = 4

// fusedAdd is a + b; a long chain of residual additions is written from time to time.
func (t *Tape) fusedAdd(a, b T, l Label) T {
	y := t.fuse(max(a.numel, b.numel), promote(a.dtype, b.dtype), l, []T{a, b})
	if l != LabelResidual {
		return y
	}
	z := &t.lazies[t.storages[y.storage].lazy-1]
	if t.sumsAgain {
		z.depth = t.depth(a) + t.depth(b)
	}
	if z.depth++; z.depth >= realizeAfter && !y.dtype.Half() {
		t.realize(y)
	}
	return y
}

// crossEntropy keeps the logits and two statistics a row; its backward writes the gradient of the logits with
// rows padded to whole cache lines where the graph goes on below them.
// Source: torch/_inductor/config.py (padding_alignment_bytes, padding_stride_threshold), torch 2.9.
func (inductor) crossEntropy(t *Tape, logits, targets T) T {
	vocabulary := logits.numel / targets.numel
	const lineBytes, shortRow = 128, 1024
	statistics := [2]T{t.fresh(targets.numel, F32, LabelNormStatistics),
		t.fresh(targets.numel, F32, LabelNormStatistics)}
	loss := t.fresh(1, F32, LabelLoss)
	weight := t.fresh(1, F32, LabelLoss)
	o := t.op(logits).save(logits, statistics[0], statistics[1], targets, weight)
	bytes := logits.numel * logits.dtype.Size()
	if line := lineBytes / logits.dtype.Size(); !t.lossApart && vocabulary > shortRow {
		bytes = (logits.numel/vocabulary-1)*roundUp(vocabulary, line)*logits.dtype.Size() +
			vocabulary*logits.dtype.Size()
	}
	loss = o.act(act{verb: actAllocLogits, bytes: bytes, label: LabelLogitsGradient}).send(0, 0).out(loss, 0)
	t.Drop(weight, statistics[0], statistics[1])
	return loss
}

// inductorOfLoss is torch.compile around the loss alone.
type inductorOfLoss struct{ inductor }

func (i inductorOfLoss) crossEntropy(t *Tape, logits, targets T) T {
	if !t.lossApart {
		t.GraphBreak()
	}
	return i.inductor.crossEntropy(t, logits, targets)
}

// GraphBreak says that what follows is compiled into a graph of its own.
func (t *Tape) GraphBreak() { t.lossApart, t.broken = true, int32(len(t.nodes)) }

// postponed is the gradient of a weight that is the embedding and the head, both in the stored type. Inductor forms the
// head's part when it adds the embedding's, at the end of backward, and keeps what it takes until then.
type postponed struct {
	to    edge
	bytes int64
	holds [2]int32 // the gradient of the logits and the head's input
}

// shared says whether weight is a parameter that something before it used too.
func (t *Tape) shared(weight T) bool {
	p, ok := weight.edge.param()
	return ok && t.params[p].uses > 1
}

func (t *Tape) postpone(n *node, a *act) {
	t.postponed = postponed{to: n.in[a.edge], bytes: a.bytes, holds: [2]int32{n.grad[0], n.saved[0]}}
	for _, s := range t.postponed.holds {
		t.retain(s)
	}
}

// catchUp forms the postponed part of the gradient for e once the other part has arrived.
func (t *Tape) catchUp(e edge) bool {
	d := t.postponed
	if d.bytes == 0 || d.to != e {
		return false
	}
	t.postponed = postponed{}
	s := t.Alloc(d.bytes, Temporaries, LabelWeightGradient)
	t.Release(d.holds[0])
	t.Release(d.holds[1])
	t.deliver(e, s)
	return true
}
