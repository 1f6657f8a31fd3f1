package step

// What Inductor makes of the steps of an attention, of lookups and of logits.

func (inductor) rotary(t *Tape, x, cos, _ T, d DType) T {
	return t.fuse(x.numel, promote(d, cos.dtype), LabelRotary, []T{x})
}

func (inductor) repeatKV(t *Tape, x T, h Heads) T {
	return t.fuse(x.numel/h.KV*h.Query, x.dtype, LabelExpandedKV, []T{x})
}

// cacheAppend is written, since the caller gets it.
func (inductor) cacheAppend(t *Tape, x T, d DType) T {
	return t.realize(t.fuse(x.numel, d, LabelCache, []T{x}))
}

// relaid is x: the kernel that writes its gradient writes it in the layout that is wanted.
func (inductor) relaid(_ *Tape, x T) T { return x }

func (inductor) batchable(l headLayout) bool { return l == headsFirst || l == repeated }

// divided is a product with a number: the tensor of one element is a constant of the graph.
func (inductor) divided(t *Tape, scores T) T { return t.MulScalar(scores, LabelAttentionScores) }

// whereCausal is read off the positions by whoever reads the scores.
func (inductor) whereCausal(_ *Tape, scores T) (y, minimum T) { return scores, NoTensor }

func (inductor) whereMask(t *Tape, mask, bias T, numel int64) T {
	return t.fuse(numel, bias.dtype, LabelAttentionMask, []T{bias}, mask)
}

// attentionBias was made additive once, for all layers.
func (inductor) attentionBias(t *Tape, mask T, _ DType, _ Heads) (bias, cast T) {
	return t.Hold(mask), NoTensor
}

// alignsMask: a mask is laid out for the kernel when it is made.
func (inductor) alignsMask(mask bool) bool { return mask }

func (inductor) softmaxReads(DType) bool { return false }

func (inductor) findUnreachable(*Tape, T, int64, DType) {}

// biasedScores is a product, and a sum that is fused.
func (inductor) biasedScores(t *Tape, bias, q, k T, numel int64) T {
	product := t.BMM(q, k, numel, LabelAttentionScores)
	y := t.fuse(numel, product.dtype, LabelAttentionScores, []T{product, bias})
	t.Drop(product)
	return y
}

// productAddsBias: whoever reads the product does.
func (inductor) productAddsBias() bool { return false }

// cachesCasts: a cast is part of the graph at every use.
func (inductor) cachesCasts() bool { return false }

func (inductor) lookup(t *Tape, p, ids T, w Weight, l Label) T {
	return t.gather(p, ids, ids.numel*w.Cols, l)
}

func (inductor) expandedLookup(t *Tape, p, ids T, w Weight, l Label) T {
	return t.gather(p, ids, ids.numel*w.Cols, l)
}

// positionBias is gathered, and its buckets are counted again, wherever it is read.
func (inductor) positionBias(t *Tape, queries, keys int64, _ bool, w Weight) T {
	return t.gather(t.Parameter(w), T{storage: None}, queries*keys*w.Cols, LabelPositions)
}

// floatLogits are read as they are by the kernel of the loss.
func (inductor) floatLogits(t *Tape, logits T) T { return t.Hold(logits) }

// softCapLogits are written by one kernel, which backward repeats.
func (inductor) softCapLogits(t *Tape, x T) T {
	y := t.wide(x.numel, x.dtype, LabelLogits)
	y = t.op(x).save(x).pass(0, 0).out(y, 0)
	t.Drop(x)
	return y
}

// scaleLogits scales them where they are.
func (inductor) scaleLogits(_ *Tape, x T) T { return x }
