package step

// LossKind is how the loss over the vocabulary is computed.
type LossKind uint8

// The kinds of loss.
const (
	LossStandard LossKind = iota
	// LossFused is one kernel that writes the gradient over the logits, as Liger-Kernel's CrossEntropy.
	LossFused
	// LossChunked runs the head and the loss over chunks of rows, as torchtune's LinearCrossEntropyLoss.
	LossChunked
	// LossChunkedWhole runs the head at once and the loss over chunks, as torchtune's CEWithChunkedOutputLoss.
	LossChunkedWhole
	// LossFusedLinear forms the gradients of head and input in forward, chunk by chunk, as Liger-Kernel's
	// FusedLinearCrossEntropy.
	LossFusedLinear
)

// Loss is a kind of loss and how the rows are divided into chunks: so many, or so many rows each.
type Loss struct {
	Kind              LossKind
	Chunks, ChunkRows int64
	// Listed keeps the chunks' logits in a list, in float32, as the output of the model (litgpt under Lightning's
	// Fabric).
	Listed bool
}

// TakesHead says that the loss runs the head itself, so that there are no logits.
func (l Loss) TakesHead() bool { return l.Kind == LossChunked || l.Kind == LossFusedLinear }

func (t *Tape) takesHead() bool { return t.Recipe.Loss.TakesHead() }

// deferred is a head that waits for the loss.
type deferred struct {
	input T
	w, b  Weight
	run   func(x T) T
}

// chunkRows is the rows of every chunk of n but the last.
func (l Loss) chunkRows(n int64) int64 {
	if l.ChunkRows > 0 {
		return min(l.ChunkRows, n)
	}
	return CeilDiv(n, max(l.Chunks, 1))
}

// Pieces is into how many chunks n rows are divided.
func (l Loss) Pieces(n int64) int64 { return CeilDiv(n, max(l.chunkRows(n), 1)) }

// otherLoss is every kind of loss but the standard one.
func (t *Tape) otherLoss(logits, targets T) T {
	switch t.Recipe.Loss.Kind {
	case LossFused:
		return t.fusedLoss(logits, targets)
	case LossFusedLinear:
		return t.fusedLinearLoss(t.head.input, t.head.w, t.head.b, targets)
	}
	return t.chunkedLoss(logits, targets)
}

// chunkedLoss adds up F.cross_entropy(head(rows).float(), targets, reduction="sum") over chunks of rows.
// Source: torchtune/modules/loss/cross_entropy_loss.py and ce_chunked_output_loss.py, torchtune 0.6.
func (t *Tape) chunkedLoss(logits, targets T) T {
	whole := logits
	if t.takesHead() {
		whole = t.head.input
	}
	n := targets.numel
	rows := t.Recipe.Loss.chunkRows(n)
	split := t.op(whole).collect(whole.bytes()).out(whole, 0).edge
	var total T
	parts := make([]T, 0, CeilDiv(n, rows))
	for first := int64(0); first < n; first += rows {
		part := t.Hold(whole)
		part.numel = whole.numel / n * min(rows, n-first)
		part.edge = split
		parts = append(parts, part)
	}
	for i, part := range parts {
		first := int64(i) * rows
		label := t.Hold(targets)
		label.numel = min(rows, n-first)
		loss := t.chunkLoss(part, label)
		t.Drop(part, label)
		if first == 0 {
			total = t.AddScalar(loss, LabelLoss)
		} else {
			sum := t.Add(total, loss, LabelLoss)
			t.Drop(total)
			total = sum
		}
		t.Drop(loss)
	}
	mean := t.MulScalar(total, LabelLoss)
	t.Drop(total)
	return mean
}

func (t *Tape) chunkLoss(part, label T) T {
	logits := t.Hold(part)
	if t.takesHead() {
		t.Drop(logits)
		logits = t.runHead(part, t.head.run)
	}
	wide := t.FloatLogits(logits)
	loss := t.crossEntropy(wide, label)
	t.Drop(wide, logits)
	return loss
}

// fusedLoss keeps the logits, over which its kernel has written their gradient.
// Source: liger_kernel/ops/cross_entropy.py (LigerCrossEntropyFunction), Liger-Kernel 0.6.
func (t *Tape) fusedLoss(logits, targets T) T {
	n := targets.numel
	rows := t.fresh(n, logits.dtype, LabelLoss)
	mask := t.countTargets(n)
	for range 2 { // the range of the targets is checked
		kept := t.fresh(n, I64, LabelLoss)
		bound := t.reduced(1, I64, OverAll, n, 1)
		t.Drop(kept)
		t.Drop(t.fresh(1, Bool, LabelLoss))
		t.Drop(bound)
	}
	sum := logits.dtype
	if t.autocast {
		sum = F32 // torch.sum is in autocast's float32 list
	}
	loss := t.reduced(1, sum, OverAll, n, 1)
	t.Drop(mask, rows)
	return t.equalsOne(t.op(logits).save(logits)).sendSaved(0, 0).out(loss, 0)
}

// countTargets is the mask of the targets that count, which are counted.
func (t *Tape) countTargets(n int64) T {
	mask := t.fresh(n, Bool, LabelLoss)
	count := t.fresh(1, I64, LabelLoss)
	cast := t.fresh(n, I64, LabelLoss)
	t.scratchOf(OverAll, n, 1, I64)
	t.Drop(cast, count)
	return mask
}

// equalsOne is torch.equal(grad_output, torch.tensor(1.0)), by which a backward sees whether it has to scale its
// gradients.
func (t *Tape) equalsOne(o op) op {
	return o.alloc(0, 4, LabelLoss).alloc(1, 1, LabelLoss).alloc(2, 1, LabelLoss).free(2).free(1).free(0)
}

// reduced is a reduction of a (rows, cols) matrix to numel elements.
func (t *Tape) reduced(numel int64, d DType, over Over, rows, cols int64) T {
	y := t.fresh(numel, d, LabelLoss)
	t.scratchOf(over, rows, cols, d)
	return y
}

// scratchOf is what a reduction computes with; integers are summed up in eight bytes.
func (t *Tape) scratchOf(over Over, rows, cols int64, d DType) {
	scratch, semaphores := t.Recipe.Reduction(over, rows, cols)
	if scratch == 0 {
		return
	}
	if d == I64 {
		scratch *= 2
	}
	a := t.Alloc(scratch, Temporaries, LabelReduction)
	b := t.Alloc(semaphores, Temporaries, LabelReduction)
	t.Release(b)
	t.Release(a)
}

// fusedLinearLoss runs over chunks whose logits take about as much as the input does, and keeps the gradients of the
// input and of the head's matrix. Sums under autocast go through a half-precision product and a float32 copy of it.
// Source: liger_kernel/ops/fused_linear_cross_entropy.py (fused_linear_cross_entropy_forward), Liger-Kernel 0.6.
func (t *Tape) fusedLinearLoss(x T, w, b Weight, targets T) T {
	p := t.Parameter(w)
	n, width := targets.numel, w.Cols
	rows := fusedLinearRows(n, w.Rows, width)
	o := t.op(x, p)
	inputGrad := T{storage: t.Alloc(x.bytes(), Temporaries, LabelInputGradient), form: plain(x.dtype), numel: x.numel}
	weightGrad := T{storage: None, form: plain(p.dtype), numel: p.numel}
	if o.needs(1) {
		weightGrad.storage = t.Alloc(p.bytes(), Gradients, LabelGradient)
	}
	losses := t.fresh(n, F32, LabelLoss)
	mask := t.countTargets(n)
	before := T{storage: None}
	old := t.noGrad
	t.noGrad = true // inside an autograd function
	for first := int64(0); first < n; first += rows {
		logits := t.fusedLinearChunk(x.dtype, p, w, min(rows, n-first), before, o.needs(1))
		before = logits
	}
	t.noGrad = old
	loss := t.reduced(1, F32, OverAll, n, 1)
	t.Drop(mask, losses, before)
	o = t.equalsOne(o.save(inputGrad, weightGrad)).sendSaved(0, 0)
	if o.needs(1) {
		o.sendSaved(1, 1)
	}
	loss = o.out(loss, 0)
	t.Drop(inputGrad, weightGrad)
	return loss
}

// FusedLinearPieces is into how many chunks n rows of so many features are divided for so large a vocabulary.
func FusedLinearPieces(n, vocabulary, width int64) int64 {
	return CeilDiv(n, fusedLinearRows(n, vocabulary, width))
}

// fusedLinearRows is Liger's rule for the size of a chunk: logits as large as the input, rounded up to a power of two.
func fusedLinearRows(n, vocabulary, width int64) int64 {
	rows := CeilDiv(n, CeilDiv(vocabulary, width))
	p := int64(1)
	for p < rows {
		p *= 2
	}
	return p
}

// fusedLinearChunk takes over the logits of the chunk before, which the variables still hold, and returns those of this
// one.
func (t *Tape) fusedLinearChunk(d DType, p T, w Weight, rows int64, before T, needsWeight bool) T {
	half := t.autocast && p.dtype != t.Recipe.Compute
	compute := p.dtype
	if t.autocast {
		compute = t.Recipe.Compute
	}
	cast := func(numel int64, is bool, l Label) T {
		if !is {
			return T{storage: None}
		}
		return t.fresh(numel, compute, l)
	}
	inputCast := t.autocast && d != compute
	transposed := cast(p.numel, half, LabelWeightCopy) // a view is not cached
	input := cast(rows*w.Cols, inputCast, LabelCast)
	logits := t.wide(rows*w.Rows, compute, LabelLogits)
	t.workspace()
	t.Drop(input, transposed, before)
	weight := t.weight(w)
	product := t.fresh(rows*w.Cols, compute, LabelInputGradient)
	t.Drop(weight, product)
	if !needsWeight {
		return logits
	}
	input = cast(rows*w.Cols, inputCast, LabelCast)
	sum := T{storage: t.Alloc(p.numel*compute.Size(), Temporaries, LabelWeightGradient)}
	t.Drop(input)
	if compute != F32 {
		wide := t.Alloc(p.numel*4, Temporaries, LabelWeightGradient)
		t.Drop(sum)
		t.Release(wide)
		return logits
	}
	t.Drop(sum)
	return logits
}
