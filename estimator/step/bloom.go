package step

// BiasedScores is bias.baddbmm(q, k, alpha): scores of batched queries and keys, which it keeps, on top of a bias
// without gradient. Under autocast the bias is cast each time.
func (t *Tape) BiasedScores(bias, q, k T, numel int64) T {
	return t.exec.biasedScores(t, bias, q, k, numel)
}

func (eager) biasedScores(t *Tape, bias, q, k T, numel int64) T {
	cast := t.autocastTo(bias, t.Recipe.Compute, LabelCast)
	y := t.fresh(numel, q.dtype, LabelAttentionScores)
	t.workspace()
	t.Drop(cast)
	o := t.op(q, k)
	o.keepOperands(0, 1, q, k)
	for i, x := range [...]T{q, k} {
		if o.needs(i) {
			o.alloc(i+2, x.bytes(), LabelInputGradient).workspace().alloc(i, x.bytes(), LabelInputGradient).free(i + 2)
		}
	}
	for i := range 2 {
		if o.needs(i) {
			o.send(i, i)
		}
	}
	return o.out(y, 0)
}

// Batched is x, heads of sequences, as a batch of matrices.
func (t *Tape) Batched(x T) T { return t.batched(x) }

// Probabilities is F.softmax(scores, dtype=torch.float32).to(d).
func (t *Tape) Probabilities(scores T, d DType) T {
	p := t.SoftmaxFloat(scores, LabelAttentionScores, LabelAttentionProbabilities)
	y := t.Cast(p, d, LabelAttentionProbabilities)
	t.Drop(p)
	return y
}

// FloatProbabilities is F.softmax(scores.float()).to(d).
func (t *Tape) FloatProbabilities(scores T, d DType) T {
	wide := t.Float(scores, LabelAttentionScores)
	p := t.Softmax(wide, LabelAttentionProbabilities)
	t.Drop(wide)
	y := t.Cast(p, d, LabelAttentionProbabilities)
	t.Drop(p)
	return y
}

// MergeHeads is a batch of products as tokens again, copied. It takes over x.
func (t *Tape) MergeHeads(x T) T {
	x = t.unbatched(x)
	y := t.Contiguous(x)
	t.Drop(x)
	return y
}

// BloomGELU is Bloom's own autograd function: the tanh formula without a graph, which keeps its input and forms
// everything anew in backward. Source: transformers/models/bloom/modeling_bloom.py (GeLUFunction, bloom_gelu_forward,
// bloom_gelu_back), 4.57.
func (t *Tape) BloomGELU(x T) T { return t.exec.inSteps(t, x, bloomGELU) }

func bloomGELU(t *Tape, x T) T {
	next := func(gone ...T) T {
		y := t.fresh(x.numel, x.dtype, LabelElementwise)
		for _, g := range gone {
			t.Drop(g)
		}
		return y
	}
	half, scaled := next(), next()
	sum := next(next(next()))
	tanh := next(next(scaled, sum))
	one := next(tanh)
	y := t.fresh(x.numel, x.dtype, LabelActivation)
	t.Drop(half, one)

	o := t.op(x).save(x)
	const tanhOut, slope, rest = 1, 2, 3
	form := func(r int, gone ...int) { // one more tensor in register r
		o.alloc(r, x.bytes(), LabelElementwise)
		for _, g := range gone {
			o.free(g)
		}
	}
	form(4)
	form(5)
	form(6, 5)
	form(7, 6)
	form(8, 4, 7)
	form(tanhOut, 8)
	form(slope)
	form(4)
	form(5, 4)
	form(6)
	form(7, 6)
	form(8, 7)
	form(9, 5, 8)
	form(rest, slope, 9)
	form(4)
	form(5, 4)
	form(6, rest, 5)
	o.alloc(0, x.bytes(), LabelInputGradient).free(tanhOut).free(6).send(0, 0)
	return o.out(y, 0)
}
