package step

// EagerAttention is the formula as models write it: scores, scale, mask, softmax, dropout, product with v.
type EagerAttention struct {
	Heads   Heads
	Dropout float64
	// Mask is added to the scores (an additive float mask).
	Mask *T
	// MaskInPlace adds it to the scores where they are (StableLM).
	MaskInPlace bool
	// Fill replaces scores where this boolean mask of the whole context is zero; the comparison is made anew
	// each time (nanoGPT).
	Fill bool
	// Where is torch.where(mask, scores, minimum) with a view of a boolean buffer (GPT-2), after a division
	// by a tensor made for the purpose.
	Where bool
	// Upcast runs the softmax in float32 and casts back to the type of q.
	Upcast bool
	// Downcast casts the probabilities to the type of v even under autocast (GPT-2).
	Downcast bool
	// Wide forms the scores of float32 copies of q and k (GPT-J).
	Wide bool
	// Unscaled leaves the scores as the product makes them (GPT-Neo).
	Unscaled bool
	// SoftCap bounds the scaled scores by a tanh (Gemma 2).
	SoftCap bool

	queryType, valueType DType
}

// Eager runs a on q, k and v. It also returns the probabilities, which the model's code keeps in a variable.
func (t *Tape) Eager(a EagerAttention, q, k, v T) (y, probabilities T) {
	h := a.Heads
	n, m := t.lengths(h)
	a.queryType, a.valueType = q.dtype, v.dtype
	if a.Wide {
		q, k = t.Float(q, LabelCast), t.Float(k, LabelCast)
	}
	compute := q.dtype
	if t.autocast {
		compute = t.Recipe.Compute
	}
	kc := t.Cast(k, compute, LabelCast)
	qh := t.Cast(q, compute, LabelCast)
	queries, keys := t.matrices(qh, h), t.matrices(kc, h)
	scores := t.BMM(queries, keys, t.Shape.Batch*h.Query*n*m, LabelAttentionScores)
	t.Drop(qh, kc, queries, keys)
	p, minimum := t.probabilities(a, scores)
	dropped := t.Dropout(p, a.Dropout)
	t.Drop(p)
	if !t.autocast {
		compute = v.dtype
	}
	vc := t.Cast(v, compute, LabelCast)
	ph := t.Cast(dropped, compute, LabelAttentionProbabilities)
	values := t.matrices(vc, h)
	product := t.heads(t.BMM(ph, values, v.numel, LabelAttentionOutput), h)
	t.Drop(vc, values, ph, minimum)
	if a.Wide {
		t.Drop(q, k)
	}
	if h.Query == 1 { // whose tokens lie in order
		return product, dropped
	}
	y = t.Contiguous(product)
	t.Drop(product)
	return y, dropped
}

// probabilities takes over scores: they are scaled, masked and brought to probabilities. It also returns the constant
// that a mask puts in, which the model's code keeps in a variable.
func (t *Tape) probabilities(a EagerAttention, scores T) (p, minimum T) {
	minimum = T{storage: None}
	if t.Recipe.Kernels.Softmax {
		return t.fusedSoftmax(scores), minimum
	}
	scaled := scores
	if !a.Unscaled {
		scaled = t.scale(a, scores)
	}
	if a.SoftCap {
		scaled = t.SoftCap(scaled)
	}
	if a.Where {
		scaled, minimum = t.exec.whereCausal(t, scaled)
	}
	switch {
	case a.Mask != nil && a.MaskInPlace:
		scaled = t.op(scaled).pass(0, 0).out(scaled, 0)
	case a.Mask != nil:
		masked := t.Add(scaled, *a.Mask, LabelAttentionScores)
		t.Drop(scaled)
		scaled = masked
	case a.Fill:
		keep := t.fresh(t.Shape.Tokens*t.Shape.Tokens, Bool, LabelAttentionMask)
		y := t.MaskedFill(scaled, keep)
		t.Drop(keep, scaled)
		scaled = y
	}
	return t.softmaxUpcast(a, scaled), minimum
}

// batched is x as a batch of matrices, one for each head of each sequence: a copy with the heads outermost, unless x is
// laid out so or there is only one sequence, whose heads a view can number.
// Source: aten/src/ATen/native/LinearAlgebra.cpp (_matmul_impl: expand, then reshape), torch 2.9.
func (t *Tape) batched(x T) T {
	if t.Shape.Batch == 1 || t.exec.batchable(x.layout) {
		return t.Hold(x)
	}
	return t.Contiguous(x)
}

// unbatched is a batched product as heads of sequences; its gradient arrives with the tokens outermost and is batched
// again. It takes over x.
func (t *Tape) unbatched(x T) T { return t.Heads(x, t.Shape.Batch > 1) }

// matrices is batched of x, which has h.Query heads: a single one needs no copy.
func (t *Tape) matrices(x T, h Heads) T {
	if h.Query == 1 {
		return t.Hold(x)
	}
	return t.batched(x)
}

// heads is unbatched of x, which has h.Query heads. It takes over x.
func (t *Tape) heads(x T, h Heads) T {
	if h.Query == 1 {
		return x
	}
	return t.unbatched(x)
}

// scale takes over scores and divides them by the root of the head's size.
func (t *Tape) scale(a EagerAttention, scores T) T {
	var y T
	if a.Where {
		y = t.exec.divided(t, scores)
	} else {
		y = t.MulScalar(scores, LabelAttentionScores)
	}
	t.Drop(scores)
	return y
}

// divided is scores over a tensor of one element, which is made for the purpose.
func (eager) divided(t *Tape, scores T) T {
	divisor := t.fresh(1, scores.dtype, LabelAttentionScores)
	y := t.fresh(scores.numel, scores.dtype, LabelAttentionScores)
	y = t.op(scores).save(divisor).alloc(0, scores.bytes(), LabelAttentionScores).send(0, 0).out(y, 0)
	t.Drop(divisor)
	return y
}

// whereCausal is torch.where(mask, scores, minimum). It takes over scores.
func (eager) whereCausal(t *Tape, scores T) (y, minimum T) {
	minimum = t.fresh(1, scores.dtype, LabelAttentionScores)
	y = t.fresh(scores.numel, scores.dtype, LabelAttentionScores)
	y = t.op(scores).alloc(1, scores.dtype.Size(), LabelAttentionScores).alloc(0, scores.bytes(),
		LabelAttentionScores).free(1).
		send(0, 0).out(y, 0)
	t.Drop(scores)
	return y, minimum
}

// softmaxUpcast takes over x. Softmax runs in float32 under autocast and where the model asks for it.
func (t *Tape) softmaxUpcast(a EagerAttention, x T) T {
	before := a.valueType
	if a.Upcast || t.autocast {
		p := t.SoftmaxFloat(x, LabelAttentionScores, LabelAttentionProbabilities)
		to := F32
		switch {
		case a.Downcast:
			to = before
		case a.Upcast:
			to = a.queryType
		case !t.autocast:
			to = before
		}
		if !a.Upcast {
			t.Drop(x) // F.softmax and the cast are two statements
			x = T{storage: None}
		}
		back := t.Cast(p, to, LabelAttentionProbabilities)
		t.Drop(x, p)
		return back
	}
	p := t.Softmax(x, LabelAttentionProbabilities)
	t.Drop(x)
	if !a.Downcast {
		return p
	}
	back := t.Cast(p, before, LabelAttentionProbabilities)
	t.Drop(p)
	return back
}
