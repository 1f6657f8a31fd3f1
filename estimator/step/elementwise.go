package step

// Cast is x.to(d): x itself when it has that type already.
func (t *Tape) Cast(x T, d DType, l Label) T {
	if x.dtype == d {
		return t.Hold(x)
	}
	p := pointwise{form: form{dtype: d, layout: x.layout}, label: l, gradient: LabelInputGradient}
	if x.layout == repeated {
		p.layout = headsFirst
	}
	return t.exec.pointwise(t, x, p)
}

// Float is x.float().
func (t *Tape) Float(x T, l Label) T { return t.Cast(x, F32, l) }

// autocastTo is what torch.autocast does with an argument of an operation in its
// list for d; nothing happens outside autocast.
// Source: aten/src/ATen/autocast_mode.cpp (cached_cast), torch 2.9.
func (t *Tape) autocastTo(x T, d DType, l Label) T {
	if !t.autocast || x.dtype == I64 || x.dtype == Bool {
		return t.Hold(x)
	}
	if d == t.Recipe.Compute {
		if y, ok := t.LeafCopy(x, l); ok {
			return y
		}
	}
	return t.Cast(x, d, l)
}

// LeafCopy is autocast's copy in half precision of x where that is the input of a layer that runs again.
func (t *Tape) LeafCopy(x T, l Label) (y T, ok bool) {
	if !t.autocast || x.edge == noEdge || x.dtype != F32 {
		return y, false
	}
	for k := range t.detached {
		if x.edge == t.detached[k].edge {
			return t.leafCopy(&t.detached[k], x, l), true
		}
	}
	return y, false
}

// promote is the type of an operation on a and b; the two half-precision types meet in float32.
func promote(a, b DType) DType {
	if a == F32 || b == F32 || a.Half() && b.Half() && a != b {
		return F32
	}
	return a
}

// Add is a + b; the smaller one is broadcast over the leading dimensions of the other.
func (t *Tape) Add(a, b T, l Label) T { return t.exec.add(t, a, b, false, l) }

// AddUnbatched is a + b where b has no batch dimension: its gradient is summed over the batch even when
// that is one sequence.
func (t *Tape) AddUnbatched(a, b T, l Label) T { return t.exec.add(t, a, b, true, l) }

func (eager) add(t *Tape, a, b T, unbatched bool, l Label) T {
	n := broadcast(a, b)
	y := t.fresh(n, promote(a.dtype, b.dtype), l)
	o := t.op(a, b)
	if o.i == None {
		return y
	}
	r := 0
	for k := range 2 {
		x := a
		if k == 1 {
			x = b
		}
		if !o.needs(k) {
			continue
		}
		reduced := x.numel != n || unbatched && k == 1
		if x.dtype == y.dtype && !reduced {
			o.pass(0, k)
			continue
		}
		if reduced {
			o.sumRows(r, y.dtype, n/max(x.numel, 1), x.numel, LabelReduction)
		} else {
			o.alloc(r, x.bytes(), LabelInputGradient)
		}
		if reduced && x.dtype != y.dtype {
			o.alloc(r+4, x.bytes(), LabelInputGradient).free(r).send(r+4, k)
		} else {
			o.send(r, k)
		}
		r++
	}
	return o.out(y, 0)
}

// broadcast is how many elements the result of an operation on two tensors has, of which one may be repeated along
// dimensions of the other: none where one is empty, as for an expert without tokens.
func broadcast(a, b T) int64 {
	if a.numel == 0 || b.numel == 0 {
		return 0
	}
	return max(a.numel, b.numel)
}

// AddScalar is x + c.
func (t *Tape) AddScalar(x T, l Label) T {
	return t.exec.pointwise(t, x, pointwise{form: plain(x.dtype), label: l})
}

// MulScalar is c * x.
func (t *Tape) MulScalar(x T, l Label) T {
	return t.exec.pointwise(t, x, pointwise{form: plain(x.dtype), label: l, gradient: LabelInputGradient})
}

// Mul is a * b, where either may be broadcast: rows says that the smaller operand
// has one value for each row (keepdim), otherwise it is one row repeated.
// Its gradient is formed in full before it is reduced or cast to the operand's shape and type.
func (t *Tape) Mul(a, b T, rows bool, l Label) T {
	return t.exec.mul(t, a, b, broadcast(a, b), rows, l)
}

func (eager) mul(t *Tape, a, b T, n int64, rows bool, l Label) T {
	o := t.op(a, b)
	if o.needs(0) {
		o.save(b)
	}
	if o.needs(1) {
		o.save(a)
	}
	// operands are saved before: where checkpointing waits for these alone, it does not run
	y := t.fresh(n, promote(a.dtype, b.dtype), l)
	if o.i == None {
		return y
	}
	x := [2]T{a, b}
	for _, k := range [2]int{1, 0} {
		if o.needs(k) {
			o.alloc(k, y.bytes(), LabelInputGradient)
		}
	}
	o.validate()
	for k := range 2 {
		if !o.needs(k) {
			continue
		}
		if x[k].numel == n && x[k].dtype == y.dtype {
			o.send(k, k)
			continue
		}
		r := k
		if x[k].numel != n {
			r += 2
			if rows {
				o.alloc(r, x[k].numel*y.dtype.Size(), LabelReduction)
			} else {
				o.sumRows(r, y.dtype, n/x[k].numel, x[k].numel, LabelWeightGradient)
			}
			o.free(k)
		}
		if x[k].dtype != y.dtype {
			o.alloc(r+4, x[k].bytes(), LabelInputGradient).free(r)
			r += 4
		}
		o.send(r, k)
	}
	return o.out(y, 0)
}

// Pow is x ** c for a constant c other than 1, with x in float32 under autocast.
func (t *Tape) Pow(x T, l Label) T {
	x32 := t.autocastTo(x, F32, LabelCast)
	y := t.exec.pow(t, x32, l)
	t.Drop(x32)
	return y
}

func (eager) pow(t *Tape, x T, l Label) T {
	y := t.fresh(x.numel, x.dtype, l)
	b := x.bytes()
	return t.op(x).save(x).
		alloc(0, b, LabelElementwise).alloc(1, b, LabelElementwise).alloc(2, b, LabelInputGradient).
		free(1).free(0).send(2, 0).out(y, 0)
}

// MeanRows is x.mean(-1, keepdim=True) for rows of d elements.
func (t *Tape) MeanRows(x T, d int64, l Label) T {
	y := t.fresh(x.numel/d, x.dtype, l)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// Rsqrt is torch.rsqrt(x).
func (t *Tape) Rsqrt(x T, l Label) T {
	y := t.fresh(x.numel, x.dtype, l)
	b := y.bytes()
	return t.op(x).save(y).
		alloc(0, b, LabelElementwise).alloc(1, b, LabelElementwise).alloc(2, b, LabelInputGradient).
		free(1).free(0).send(2, 0).out(y, 0)
}

// Tanh is torch.tanh(x), which keeps its result.
func (t *Tape) Tanh(x T, l Label) T {
	return t.exec.pointwise(t, x, pointwise{form: plain(x.dtype), label: l, keeps: keepsResult,
		gradient: LabelInputGradient})
}

// GELU is nn.GELU, exact or with tanh, in one kernel that keeps its input.
func (t *Tape) GELU(x T) T { return t.SiLU(x) }

// SiLU is F.silu, which keeps its input.
func (t *Tape) SiLU(x T) T {
	t.Modules(1)
	return t.exec.pointwise(t, x, activation(x))
}

// ReLU is F.relu, which keeps its result.
func (t *Tape) ReLU(x T) T {
	t.Modules(1)
	return t.exec.relu(t, x)
}

func (eager) relu(t *Tape, x T) T { return t.Tanh(x, LabelActivation) }

// activation is a function of x in one kernel that keeps its input.
func activation(x T) pointwise {
	return pointwise{form: plain(x.dtype), label: LabelActivation, keeps: keepsInput,
		gradient: LabelInputGradient}
}

// inSteps is a function of x that the model's code writes out.
func (eager) inSteps(t *Tape, x T, written func(*Tape, T) T) T { return written(t, x) }

// NewGELU is the tanh formula written out in Python, 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))),
// which allocates at every step. Source: transformers/activations.py (NewGELUActivation).
func (t *Tape) NewGELU(x T) T { return t.exec.inSteps(t, x, newGELU) }

func newGELU(t *Tape, x T) T {
	if t.Recipe.Kernels.BiasGELU {
		t.Applied.Kernels.BiasGELU = true
		return t.GELU(x)
	}
	half := t.MulScalar(x, LabelElementwise)
	cube := t.Pow(x, LabelElementwise)
	scaled := t.MulScalar(cube, LabelElementwise)
	t.Drop(cube)
	sum := t.Add(x, scaled, LabelElementwise)
	t.Drop(scaled)
	inner := t.MulScalar(sum, LabelElementwise)
	t.Drop(sum)
	tanh := t.Tanh(inner, LabelElementwise)
	t.Drop(inner)
	one := t.AddScalar(tanh, LabelElementwise)
	t.Drop(tanh)
	y := t.Mul(half, one, false, LabelActivation)
	t.Drop(half, one)
	return y
}

// Dropout is nn.Dropout in training: nothing at all when p is 0.
func (t *Tape) Dropout(x T, p float64) T {
	t.Modules(1)
	return t.DropoutFunction(x, p)
}

// DropoutFunction is F.dropout, as a model calls it by itself.
func (t *Tape) DropoutFunction(x T, p float64) T {
	if p == 0 || t.Recipe.Evaluation {
		return t.Hold(x)
	}
	t.Applied.Dropout = true
	mask := t.fresh(x.numel, Bool, LabelDropoutMask)
	y := t.exec.dropout(t, x, mask)
	t.Drop(mask)
	return y
}

func (e eager) dropout(t *Tape, x, mask T) T {
	return e.masked(t, x, mask, pointwise{form: plain(x.dtype), label: LabelDropout, gradient: LabelInputGradient})
}

// Contiguous is x.contiguous() of a view that is not.
func (t *Tape) Contiguous(x T) T { return t.AddScalar(x, LabelContiguous) }
