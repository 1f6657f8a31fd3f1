package step

// What CLIP does with the outputs of its two towers.

// MulByNumber is x · c, where c is a tensor of one element without dimensions, which leaves x its type. Both factors'
// gradients are formed before that of c is summed.
func (t *Tape) MulByNumber(x, c T) T {
	y := t.fresh(x.numel, x.dtype, LabelLogits)
	if !c.RequiresGrad() { // a frozen one asks for no factor
		return t.op(x).save(c).alloc(0, x.bytes(), LabelLogitsGradient).send(0, 0).out(y, 0)
	}
	o := t.op(x, c).save(c, x)
	if o.i == None {
		return y
	}
	const gradX, product, sum, number = 0, 1, 2, 3
	o.alloc(product, x.bytes(), LabelLogitsGradient).alloc(gradX, x.bytes(), LabelLogitsGradient).validate()
	o.alloc(sum, x.dtype.Size(), LabelReduction)
	if scratch, semaphores := t.Recipe.Reduction(OverAll, x.numel, 1); scratch > 0 {
		o.alloc(maxRegs-1, scratch, LabelReduction).alloc(maxRegs-2, semaphores,
			LabelReduction).free(maxRegs - 2).free(maxRegs - 1)
	}
	o.free(product)
	last := sum
	if c.dtype != x.dtype {
		last = number
		o.alloc(number, c.bytes(), LabelWeightGradient).free(sum)
	}
	return o.send(gradX, 0).send(last, 1).out(y, 0)
}

// Exp is torch.exp(x), which keeps its result; float32 under autocast.
func (t *Tape) Exp(x T) T {
	x32 := t.autocastTo(x, F32, LabelCast)
	y := t.fresh(x32.numel, x32.dtype, LabelElementwise)
	y = t.op(x32).save(y).alloc(0, x32.bytes(), LabelElementwise).send(0, 0).out(y, 0)
	t.Drop(x32)
	return y
}

// Transposed is x.t() of a matrix, which is laid out anew wherever that matters. It takes over x.
func (t *Tape) Transposed(x T) T { return t.View(x) }

// DivideRows is x / norm, where norm has one value for each row of x.
func (t *Tape) DivideRows(x, norm T) T {
	y := t.fresh(x.numel, promote(x.dtype, norm.dtype), LabelElementwise)
	o := t.op(x, norm).save(norm, x)
	if o.i == None {
		return y
	}
	const gradX, narrow, divisor, quotient = 0, 1, 6, 5
	o.divisorGradient(y.bytes(), y.bytes()).alloc(gradX, y.bytes(), LabelElementwise).validate()
	last := gradX
	if x.dtype != y.dtype {
		last = narrow
		o.alloc(narrow, x.bytes(), LabelElementwise).free(gradX)
	}
	o.alloc(divisor, norm.bytes(), LabelReduction).free(quotient)
	return o.send(last, 0).send(divisor, 1).out(y, 0)
}

// RowNorm is the Euclidean norm of each row of x, of d elements, written out as a power of a sum of powers.
// Source: transformers/models/clip/modeling_clip.py (_get_vector_norm), 4.57.
func (t *Tape) RowNorm(x T, d int64) T {
	square := t.Pow(x, LabelElementwise)
	sum := t.SumRowsKept(square, d)
	norm := t.Pow(sum, LabelElementwise)
	t.Drop(square, sum)
	return norm
}

// ContrastiveLoss is F.cross_entropy of a square matrix of similarities, each row of which has its own column for a
// target. transposed says that its columns are meant, which log-softmax lays out first.
func (t *Tape) ContrastiveLoss(similarity T, transposed bool) T {
	targets := t.Input(t.Shape.Batch, I64)
	logp := t.fresh(similarity.numel, similarity.dtype, LabelLogProbabilities)
	if transposed && t.Shape.Batch > 1 {
		t.Drop(t.fresh(similarity.numel, similarity.dtype, LabelContiguous))
	}
	logp = t.op(similarity).save(logp).alloc(0, similarity.bytes(), LabelLogitsGradient).send(0, 0).out(logp, 0)
	input := t.autocastTo(logp, F32, LabelLogitsFloat)
	t.Drop(logp)
	loss, weight := t.fresh(1, input.dtype, LabelLoss), t.fresh(1, input.dtype, LabelLoss)
	loss = t.op(input).save(input, targets, weight).alloc(0, input.bytes(), LabelLogitsGradient).send(0, 0).out(loss, 0)
	t.Drop(weight, input, targets)
	return loss
}

// QuickGELU is x · sigmoid(1.702 · x) as transformers writes it.
// Source: transformers/activations.py (QuickGELUActivation), 4.57.
func (t *Tape) QuickGELU(x T) T { return t.exec.inSteps(t, x, quickGELU) }

func quickGELU(t *Tape, x T) T {
	scaled := t.MulScalar(x, LabelElementwise)
	gate := t.Sigmoid(scaled, LabelElementwise)
	t.Drop(scaled)
	y := t.Mul(x, gate, false, LabelActivation)
	t.Drop(gate)
	return y
}

// PickTokens is x[rows, columns] of rows of d elements: one token of every sequence.
func (t *Tape) PickTokens(x T, d int64, rows, columns T) T {
	y := t.fresh(rows.numel*d, x.dtype, LabelNormOutput)
	o := t.op(x).save(rows, columns).alloc(0, x.bytes(), LabelInputGradient).scatterScratch(rows.numel, x.numel/d, 2)
	return o.send(0, 0).out(y, 0)
}
