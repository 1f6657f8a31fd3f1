package step

// What Inductor makes of operations that PyTorch runs one by one. The graph of what it fuses, and what of it exists, is
// in compiled.go.

func (inductor) pointwise(t *Tape, x T, p pointwise) T {
	if p.keeps == keepsNothing {
		return t.fuse(x.numel, p.dtype, p.label, []T{x})
	}
	return t.fuse(x.numel, p.dtype, p.label, []T{x}, x) // from which the result is made again
}

func (inductor) masked(t *Tape, x, mask T, p pointwise) T {
	return t.fuse(x.numel, p.dtype, p.label, []T{x}, mask)
}

// inSteps is one kernel, however many steps there are.
func (inductor) inSteps(t *Tape, x T, _ func(*Tape, T) T) T { return t.GELU(x) }

// relu keeps its result, which the next product keeps too.
func (inductor) relu(t *Tape, x T) T {
	y := t.fuse(x.numel, x.dtype, LabelActivation, []T{x})
	return t.op(y).save(y).pass(0, 0).out(y, 0)
}

func (inductor) add(t *Tape, a, b T, _ bool, l Label) T { return t.fusedAdd(a, b, l) }

// addInPlace writes nothing in place: a graph has no variables that others could see.
func (inductor) addInPlace(t *Tape, a, b T) T {
	y := t.fusedAdd(a, b, LabelResidual)
	t.Drop(a)
	return y
}

func (inductor) mul(t *Tape, a, b T, n int64, _ bool, l Label) T {
	return t.fuse(n, promote(a.dtype, b.dtype), l, []T{a, b}, a, b)
}

func (inductor) scaleInPlace(t *Tape, x T) T {
	y := t.MulScalar(x, LabelAttentionScores)
	t.Drop(x)
	return y
}

func (inductor) pow(t *Tape, x T, l Label) T { return t.fuse(x.numel, x.dtype, l, []T{x}, x) }

func (inductor) clamp(t *Tape, x T) T { return t.fuse(x.numel, x.dtype, LabelElementwise, []T{x}, x) }

func (inductor) dropout(t *Tape, x, mask T) T {
	y := t.fuse(x.numel, x.dtype, LabelDropout, []T{x}, mask)
	if t.sumsAgain { // the mask is read too
		t.lazies[t.storages[y.storage].lazy-1].depth++
	}
	return y
}

// norm writes its output in the type of the products. A LayerNorm keeps the normalised input, an
// RMSNorm, whose input is read more often, the input itself, a LayerNorm in half precision what its input is the sum
// of; all keep float32 statistics of a row.
func (inductor) norm(t *Tape, n *norm, x T, w, b Weight, width int64) T {
	ins := [3]T{x}
	inputs := 1
	for _, p := range [...]Weight{w, b} {
		if p.Exists() {
			ins[inputs] = t.Parameter(p)
			inputs++
		}
	}
	d := x.dtype
	if t.autocast {
		d = t.Recipe.Compute
	}
	rows := x.numel / width
	if t.Recipe.Evaluation && !n.rms { // nothing is kept: one kernel with what the input is the sum of
		return t.fuse(x.numel, d, LabelNormOutput, ins[:inputs])
	}
	kept, mean := t.Hold(x), T{storage: None}
	switch {
	case n.rms:
		t.realize(kept)
	// the residual is added up again: its summands are as small as the sum
	case x.dtype.Half() && (!t.autocast || t.Recipe.Stored.Half()), t.sumsAgain:
		mean = t.fresh(rows, F32, LabelNormStatistics)
	default:
		t.Drop(kept)
		kept = t.fresh(x.numel, F32, LabelNormScaled)
	}
	statistic := t.fresh(rows, F32, LabelNormStatistics)
	z := lazy{from: [3]int32{kept.storage}, n: 1, bytes: x.numel * d.Size(), label: LabelNormOutput, part: t.part}
	t.retain(kept.storage)
	y := t.unmade(z, x.numel, d)
	o := t.op(ins[:inputs]...).save(kept, statistic, mean)
	for k := 1; k < inputs; k++ {
		if o.needs(k) {
			o.alloc(k, ins[k].bytes(), LabelWeightGradient).send(k, k)
		}
	}
	if o.needs(0) {
		o.act(act{verb: actAddInPlace, bytes: x.bytes(), label: LabelInputGradient}).send(0, 0)
	}
	y = o.out(y, 0)
	t.Drop(kept, statistic, mean)
	return y
}

func (inductor) combined(t *Tape, a, b T, c combination) T {
	return t.fuse(c.numel, c.dtype, c.label, []T{a, b})
}

// slice leaves it to one kernel to join the gradients of all parts.
func (inductor) slice(t *Tape, x, part T) T {
	return t.op(x).act(act{verb: actAddInPlace, bytes: x.bytes(), label: LabelInputGradient}).send(0, 0).out(part, 0)
}

func (inductor) pick(t *Tape, x T, numel int64, _ bool) T { return t.Slice(x, numel) }
