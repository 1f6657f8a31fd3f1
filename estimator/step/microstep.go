package step

// Network is a model as the replay runs it. Layers are grouped in units that repeat: the
// network that Build is given may have fewer units than the model.
type Network interface {
	// Batch allocates one micro-batch on the GPU: ids, labels, masks.
	Batch(t *Tape) []T
	// Forward runs the model on a batch, which it borrows, and returns the loss and the outputs that the
	// model's caller receives: the logits, then what else the model returns (a key/value cache).
	Forward(t *Tape, batch []T) (loss T, outputs []T)
}

// Reset prepares t, new or used, for the recording of one micro-step of a model with the given parameters. It records
// in the storage of the last one, whose program is gone then.
func (t *Tape) Reset(r Recipe, s Shape, parameters Parameters) {
	old := *t
	*t = Tape{Recipe: r, Shape: s, exec: eager{}, graph: r.autograd(), unit: -1, layer: None,
		detached: old.detached[:0],
		storages: old.storages[:0], nodes: old.nodes[:0], acts: old.acts[:0], params: old.params[:0],
		cast:     old.cast[:0],
		castEdge: old.castEdge[:0], cached: old.cached[:0], pending: old.pending[:0], layers: old.layers[:0],
		leaves: old.leaves[:0], kept: old.kept[:0]}
	t.program.Slots, t.program.Events, t.program.Segments = old.program.Slots[:0], old.program.Events[:0],
		old.program.Segments[:0]
	t.program.Ready = old.program.Ready[:0]
	t.program.Runs, t.program.ExpertCopies = old.program.Runs[:0], parameters.ExpertCopies
	t.Prog, t.lazies, t.Parameters = &t.program, old.lazies[:0], parameters.List
	for i := range parameters.List {
		p := &parameters.List[i]
		t.params = append(t.params, paramState{numel: p.Numel, dtype: p.Dtype, frozen: !p.Trained() && !p.Carried,
			grad: None})
		t.cast = append(t.cast, None)
		t.castEdge = append(t.castEdge, noEdge)
	}
	t.Rehearsed = old.Rehearsed
	t.hooks = t.Recipe.Spread().Hooks(t)
	t.uses, _ = hooksAs[Uses](t.hooks)
	t.gradientStream = t.hooks.GradientStream()
}

// trainersNumbers are the numbers that the Trainer has on the device while backward runs: the labels of the step, the
// losses since the last log, the norm of the last gradients, and the loss as it was before each of two divisions. The
// first three are there between micro-steps too, which is not replayed.
const trainersNumbers = 5

// Record runs one micro-step of net: forward, loss, backward, with what the training loop
// holds in between, and returns its program.
//
// The micro-step uses the batch that was fetched before it and leaves the next one behind,
// in the same slots: the program's first Prologue events allocate the very first batch.
func (t *Tape) Record(net Network) *Program {
	if p, ok := t.Recipe.Spread().(Pipelined); ok {
		return t.pipelined(net.(Staged), p)
	}
	batch := t.batch(net)
	first := int32(len(t.Prog.Slots) - len(batch))
	if n := t.Recipe.Accumulation - 1; t.Recipe.Trainer && n > 0 { // those of the other micro-steps
		for _, x := range batch {
			s := &t.Prog.Slots[t.slot(AllocOnce, x.numel*n*x.dtype.Size(), Activations, LabelInput)]
			s.Part, s.Unit, s.Expert = PartEmbedding, -1, 0
		}
	}
	t.Prog.Prologue = len(t.Prog.Events)
	t.segStart = t.Prog.Prologue
	for _, x := range batch {
		t.storages[x.storage].previous = true
	}

	loss, outputs := t.forward(net, batch)
	if t.Recipe.Accumulation > 1 {
		if t.Recipe.HoldLogits { // the variable's former value: the mean of the last micro-step
			t.Prog.Events = append(t.Prog.Events, Event{int32(len(t.Prog.Slots)), FreePrev})
		}
		mean := t.MulScalar(loss, LabelLoss)
		t.Drop(loss)
		loss = mean
	}
	if t.Recipe.NextBatchEarly {
		t.fetch(first, len(batch))
	}
	var counted []T
	if t.Recipe.Trainer {
		for range trainersNumbers {
			counted = append(counted, t.fresh(1, F32, LabelLoss))
		}
	} else {
		t.Drop(batch...)
	}
	t.cut()

	t.backward = true
	scaled := loss
	if t.Recipe.GradScaler {
		t.once(scalerScale, 4)
		t.once(scalerGrowth, 4)
		scaled = t.MulScalar(loss, LabelScaler)
	}
	root := t.fresh(1, loss.dtype, LabelLoss)
	t.Hold(root)
	t.deliver(scaled.edge, root.storage)
	if o, ok := t.Recipe.Objective.(InBackward); ok {
		o.Backward(t, net)
	}
	zeros := t.graph.backward(t, outputs)
	t.releaseUnreached(0)
	t.enter(-1)
	t.enterExpert(0, false)
	t.hooks.EndBackward()
	for _, z := range zeros {
		t.Release(z)
	}
	t.Drop(root)
	if t.Recipe.GradScaler {
		t.Drop(scaled)
	}
	t.graph.ran(t)
	if !t.Recipe.HoldLogits {
		t.Drop(loss)
		t.graph.gone(t)
		t.endGraph(0)
	}
	t.endLeaves()
	t.keepUntilUpdate()
	if t.Recipe.Trainer {
		t.Drop(counted...)
		t.Drop(batch...)
	}
	if !t.Recipe.NextBatchEarly {
		t.fetch(first, len(batch))
	}
	t.cut() // what follows backward until the next forward counts as backward
	t.backward = false
	return t.Prog
}

// batch is what the loop puts on the GPU for a micro-step.
func (t *Tape) batch(net Network) []T {
	if o := t.Recipe.Objective; o != nil {
		return o.Batch(t)
	}
	return net.Batch(t)
}

// forward is the micro-step up to its loss: the model's own forward, or what a trainer makes of it.
func (t *Tape) forward(net Network, batch []T) (loss T, outputs []T) {
	if o := t.Recipe.Objective; o != nil { // whose passes have the hooks around them
		return o.Forward(t, net, batch), nil
	}
	inputs := t.hooks.BeforeForward(batch)
	t.EnterAutocast()
	loss, outputs = net.Forward(t, inputs)
	loss = t.hooks.AfterForward(loss, outputs)
	t.Drop(inputs...)
	for _, x := range outputs {
		t.realize(x)
	}
	if t.Recipe.FloatsOutputs && len(outputs) > 0 && outputs[0].dtype != F32 {
		t.Release(t.Alloc(outputs[0].numel*F32.Size(), LogitsAndLoss, LabelLogitsFloat))
	}
	t.ExitAutocast()
	return t.returned(loss, outputs), outputs
}

// RecordEvaluation records the evaluation of one batch, whose outputs live to its end; with keepLogits, a variable
// keeps the logits until those of the next batch are there. Of an objective it is what its trainer does with a batch.
func (t *Tape) RecordEvaluation(net Network, keepLogits bool) *Program {
	t.noGrad = true
	for i := range t.spaces[0] { // training has been there
		t.spaces[0][i] = true
	}
	if o := t.Recipe.Objective; o != nil {
		t.evaluates(net, o)
		t.Drop(t.graphHolds...)
		t.cut()
		return t.Prog
	}
	batch := net.Batch(t)
	inputs := t.hooks.BeforeForward(batch)
	t.EnterAutocast()
	loss, outputs := net.Forward(t, inputs)
	loss = t.hooks.AfterForward(loss, outputs)
	t.Drop(inputs...)
	t.ExitAutocast()
	if t.Recipe.HoldFloat32 || t.Recipe.SmoothsLabels && t.Recipe.WidensOutputs {
		loss = t.floatOutputs(loss, outputs)
	}
	if t.Recipe.SmoothsLabels {
		loss = t.smoothedLoss(outputs[0])
	}
	for i, x := range outputs {
		if i == 0 && keepLogits {
			t.freePrevious(t.realize(x)) // which leaves a compiled graph
			continue
		}
		t.Drop(x)
	}
	t.Drop(loss)
	t.Drop(t.graphHolds...) // what would go with a graph or after its backward
	for _, x := range batch {
		t.Drop(x)
	}
	if e, ok := hooksAs[Evaluates](t.hooks); ok {
		e.EndEvaluation()
	}
	t.cut()
	return t.Prog
}

// RecordReading records a pass without a graph before anything else has run, and returns its program.
func (t *Tape) RecordReading(read func(t *Tape)) *Program {
	t.noGrad = true
	read(t)
	t.cut()
	return t.Prog
}

// returned is what is left of the model's outputs when the function that called it has
// returned: nothing where the loop keeps only the loss; where it holds them, what the last
// micro-step held goes as the variables are assigned anew.
func (t *Tape) returned(loss T, outputs []T) T {
	sink, sinks := hooksAs[Sinks](t.hooks)
	if t.Recipe.HoldLogits && t.Recipe.HoldFloat32 || t.Recipe.WidensOutputs {
		loss = t.floatOutputs(loss, outputs)
	}
	if t.Recipe.SmoothsLabels {
		loss = t.smoothedLoss(outputs[0])
	}
	if sinks {
		loss = sink.Sink(loss, outputs)
	}
	if !t.Recipe.HoldLogits {
		for _, x := range outputs {
			t.Drop(x)
		}
		return loss
	}
	for _, x := range outputs {
		t.freePrevious(x)
	}
	t.freePrevious(loss)
	t.graph.formerGone(t)
	for _, x := range t.kept {
		t.freePrevious(x)
	}
	t.freePreviousLeaves()
	return loss
}

// floatOutputs is accelerate's convert_to_fp32: float32 copies of the loss, which stands second among the outputs where
// it does, of the logits and of what else is no cache. The originals go when all are made.
// Source: accelerate/utils/operations.py (convert_to_fp32).
func (t *Tape) floatOutputs(loss T, outputs []T) T {
	old := append([]T(nil), outputs...)
	if loss.dtype != F32 && loss != NoTensor {
		wide := t.Float(loss, LabelLoss)
		for i := range outputs {
			if outputs[i].storage == loss.storage {
				outputs[i] = t.Hold(wide)
			}
		}
		t.Drop(loss)
		loss = wide
	}
	for i, x := range outputs {
		switch {
		case x.storage == loss.storage || t.inCache(x):
			continue
		case i == 0:
			outputs[i] = t.FloatLogits(x)
		default:
			outputs[i] = t.Float(x, LabelCast)
		}
	}
	for i, x := range old {
		if outputs[i].storage == loss.storage && x.storage == loss.storage || t.inCache(x) {
			continue
		}
		t.Drop(x)
	}
	return loss
}

// inCache says that an output belongs to the cache, an object that is not looked into: keys and values, and the length
// of a window.
func (t *Tape) inCache(x T) bool { return x.dtype == I64 || t.Label(x) == LabelCache }

// Label names what x is.
func (t *Tape) Label(x T) Label {
	if x.storage == None || t.storages[x.storage].slot == None {
		return LabelNone
	}
	return t.Prog.Slots[t.storages[x.storage].slot].Label
}

// freePrevious frees what the micro-step before left where x is now.
func (t *Tape) freePrevious(x T) {
	if x.storage != None && t.storages[x.storage].slot != None {
		t.Prog.Events = append(t.Prog.Events, Event{t.storages[x.storage].slot, FreePrev})
	}
}

// fetch puts the next batch on the GPU, in n slots from first on.
func (t *Tape) fetch(first int32, n int) {
	for i := range int32(n) {
		t.Prog.Events = append(t.Prog.Events, Event{first + i, Alloc})
	}
}

// Input is a tensor of the batch, of positions or of masks: numel elements of type d that no gradient reaches.
func (t *Tape) Input(numel int64, d DType) T { return t.fresh(numel, d, LabelInput) }

// Buffered is a view of a buffer of the model, such as the ids of the positions.
func (t *Tape) Buffered(numel int64, d DType) T {
	return T{storage: None, edge: noEdge, form: plain(d), numel: numel}
}

// Table is a precomputed factor, such as the cosines of rotary positions.
func (t *Tape) Table(numel int64, d DType) T { return t.fresh(numel, d, LabelRotary) }

// Workspace says that a matrix product runs here.
func (t *Tape) Workspace() { t.workspace() }

// Autocast is x as an operation in autocast's list for half precision takes it.
func (t *Tape) Autocast(x T) T { return t.autocastTo(x, t.Recipe.Compute, LabelCast) }

// AutocastQKV casts the arguments of attention as autocast does, from the last to the first.
func (t *Tape) AutocastQKV(q, k, v T) (qc, kc, vc T) {
	vc = t.autocastTo(v, t.Recipe.Compute, LabelCast)
	kc = t.autocastTo(k, t.Recipe.Compute, LabelCast)
	qc = t.autocastTo(q, t.Recipe.Compute, LabelCast)
	return qc, kc, vc
}

// CopiesKVGradient says whether the gradients of keys or values arrive with the heads outermost and have to be
// copied back. Flash attention lays gradients out like its inputs, which a cache has put in that order; the
// memory-efficient kernel always puts tokens outermost; sums over repeated heads and the
// written-out formula do not.
func (t *Tape) CopiesKVGradient(h Heads, mask, cached bool) bool {
	switch {
	case h.KV == 1: // there is but one order
		return false
	case t.Recipe.Attention == AttentionEager, t.PadsHeads(h, mask):
		return true
	case t.usesFlash(h, mask):
		return cached
	}
	repeats := h.KV < h.Query && (mask || !t.Recipe.Software.Has(groupsEfficient) || t.RepeatsWide(h))
	if !repeats && t.usesCuDNN(h, false) { // which lays gradients out as flash attention does
		return cached
	}
	return repeats || t.writtenOut(h, mask)
}

// CopiesQueryGradient says the same of queries: their gradient comes from a kernel with tokens outermost, and from
// the written-out formula with the heads outermost.
func (t *Tape) CopiesQueryGradient(h Heads, mask bool) bool {
	return h.Query > 1 && (t.WritesOut(h, mask) || t.PadsHeads(h, mask))
}
