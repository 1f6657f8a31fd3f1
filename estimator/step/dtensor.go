package step

// What torch.distributed.tensor does where the matrices of a layer are cut over GPUs and tokens are dealt out between
// the blocks. Collectives along another dimension than the first go through a copy that has the GPUs' parts one after
// the other. Source: torch/distributed/_functional_collectives.py (all_gather_tensor, reduce_scatter_tensor), torch
// 2.9.

// collective is a buffer of numel elements that GPUs send each other, or that is put in order for it.
func (t *Tape) collective(numel int64, d DType) T {
	return T{storage: t.Alloc(numel*d.Size(), Communication, LabelCollective), edge: noEdge, form: plain(d),
		numel: numel}
}

// GatherTokens is x, this GPU's tokens, beside those of the other GPUs. In backward the gradients are summed and dealt
// out. apart says that those that come are DTensors, of which none is added to another in place. Source:
// torch/csrc/autograd/input_buffer.cpp (can_accumulate_inplace), torch 2.9.
func (t *Tape) GatherTokens(x T, gpus int64, apart bool) T {
	raw := t.collective(x.numel*gpus, x.dtype)
	y := t.fresh(x.numel*gpus, x.dtype, LabelGatheredTokens)
	t.Drop(raw)
	const ordered = 1
	o := t.op(x)
	if o.i != None {
		o.node().apart = apart
	}
	return o.alloc(ordered, y.bytes(), LabelCollective).alloc(0, x.bytes(),
		LabelInputGradient).free(ordered).send(0, 0).out(y, 0)
}

// SharedInput is x, which every GPU has, as the input of a layer of which each has some of the outputs: the gradients
// that come back are summed in a tensor of their own. Source: torch/distributed/tensor/_api.py
// (_FromTorchTensor.backward), torch/distributed/_functional_collectives.py (all_reduce), torch 2.9.
func (t *Tape) SharedInput(x T) T {
	return t.op(x).alloc(0, x.bytes(), LabelCollective).send(0, 0).out(t.Hold(x), 0)
}

// SumOverGPUs is the sum of what the GPUs have made, y here, which it takes over. Backward hands the gradient on.
// Source: torch/distributed/tensor/_redistribute.py (Redistribute.backward), torch 2.9.
func (t *Tape) SumOverGPUs(y T) T {
	x := t.op(y).pass(0, 0).out(t.fresh(y.numel, y.dtype, LabelResidual), 0)
	t.Drop(y)
	return x
}

// GatherVocabulary is the same for logits of which every GPU has a part of the columns, numel elements together: of the
// gradient each keeps its part, copied. Parts that are not even travel as if they were, and what is too much is cut off
// into a copy. Source: torch/distributed/tensor/placement_types.py (Shard._to_replicate_tensor, _maybe_unpad_tensor),
// torch 2.15.
func (t *Tape) GatherVocabulary(x T, gpus, numel int64) T {
	raw := t.collective(x.numel*gpus, x.dtype)
	y := t.wide(x.numel*gpus, x.dtype, LabelLogits)
	t.Drop(raw)
	if numel < y.numel {
		even := t.wide(numel, x.dtype, LabelLogits)
		t.Drop(y)
		y = even
	}
	return t.wideGradient(t.op(x), x).out(y, 0)
}

// ScatterTokens is this GPU's tokens of the sum of what the GPUs have made, y here, which it takes over. In backward
// the gradients of all tokens are gathered.
func (t *Tape) ScatterTokens(y T, gpus int64) T {
	ordered := t.collective(y.numel, y.dtype)
	x := t.fresh(y.numel/gpus, y.dtype, LabelResidual)
	const raw = 1
	x = t.op(y).alloc(raw, y.bytes(), LabelCollective).alloc(0, y.bytes(), LabelInputGradient).free(raw).send(0,
		0).out(x, 0)
	t.Drop(y, ordered)
	return x
}

// EmbedRows is nn.Embedding where this GPU has the rows of w among all those of the vocabulary: ids of other rows are
// taken for the first, and a mask says which. The gradient has all rows, until somebody wants it as the parameter is.
// Source: torch/distributed/tensor/_ops/_embedding_ops.py (_MaskPartial._partition_value,
// embedding_dense_backward_strategy), torch 2.9.
func (t *Tape) EmbedRows(ids T, w Weight, all int64) T {
	return t.embedRows(ids, t.Parameter(w), w, all)
}

// EmbedSharedRows is the same where the head has these rows, too. Its gradient, which comes first, is of this GPU's
// rows alone: they are copied out of the embedding's, and the two added into a third. Source:
// torch/distributed/tensor/_dispatch.py (redistribute_local_args), torch 2.15.
func (t *Tape) EmbedSharedRows(ids T, w Weight, all int64) T {
	p := t.Parameter(w)
	t.params[w.Index].summed = true
	const own = 1
	p = t.op(p).alloc(own, p.bytes(), LabelGradient).alloc(0, p.bytes(), LabelGradientSum).free(own).send(0,
		0).out(t.Hold(p), 0)
	y := t.embedRows(ids, p, w, all)
	t.Drop(p)
	return y
}

func (t *Tape) embedRows(ids, p T, w Weight, all int64) T {
	mask, own := t.ownIDs(ids.numel)
	w.Rows = all
	y := t.exec.lookup(t, p, ids, w, LabelEmbedding)
	t.Drop(own, mask)
	return y
}

// ownIDs is which of n ids are not this GPU's, and the ids as this GPU counts.
func (t *Tape) ownIDs(n int64) (mask, own T) {
	mask = t.fresh(n, Bool, LabelInput)
	above := t.fresh(n, Bool, LabelInput)
	either := t.fresh(n, Bool, LabelInput)
	t.Drop(mask, above)
	clone := t.fresh(n, I64, LabelInput)
	own = t.fresh(n, I64, LabelInput)
	t.Drop(clone)
	return either, own
}

// LossParallel is the cross-entropy of logits of which every GPU has a part of the columns: largest values and sums go
// over all GPUs. The log-probabilities are kept; backward forms the gradient in four tensors of their size. Source:
// torch/distributed/tensor/parallel/loss.py (_log_softmax, _nll_loss_forward, _nll_loss_and_log_softmax_backward),
// torch 2.9.
func (t *Tape) LossParallel(logits, targets T) T {
	rows := targets.numel
	row := func() T { return t.fresh(rows, logits.dtype, LabelLoss) }
	reduced := func() T {
		own := row()
		sum := row()
		t.Drop(own)
		return sum
	}
	largest := reduced()
	shifted := t.wide(logits.numel, logits.dtype, LabelLogits)
	exponential := t.wide(logits.numel, logits.dtype, LabelLogits)
	own := row()
	t.Drop(exponential)
	sum := row()
	t.Drop(own)
	log := row()
	logp := t.wide(logits.numel, logits.dtype, LabelLogProbabilities)
	t.Drop(shifted, largest, sum, log)
	logp = t.op(logits).save(logp).pass(0, 0).out(logp, 0)

	safe := t.fresh(rows, I64, LabelInput)
	mask, own64 := t.ownIDs(rows)
	picked := row()
	all := row()
	result := row()
	negated := row()
	loss := t.fresh(1, logits.dtype, LabelLoss)
	weight := t.fresh(1, logits.dtype, LabelLoss)
	o := t.op(logp).save(logp, targets, weight)
	const zeros, exponent, product, ids = 1, 2, 3, 4
	wide := func(r uint8) {
		o.act(act{verb: actAllocLogits, route: route{reg: r}, bytes: logits.bytes(), label: LabelLogitsGradient})
	}
	// bytes a row: ids that count, which are this GPU's, where, minus one, numbers, the gradient
	indices := [...]int64{8, 1, 8, 4, 8, 4}
	o.alloc(ids, indices[0]*rows, LabelInput)
	wide(zeros)
	for i, bytes := range indices[1:] {
		o.alloc(ids+1+i, bytes*rows, LabelInput)
	}
	wide(exponent)
	wide(product)
	o.free(exponent)
	wide(0)
	o.free(product)
	for i := range indices {
		o.free(ids + i)
	}
	loss = o.free(zeros).send(0, 0).out(loss, 0)
	t.Drop(safe, mask, own64, picked, all, result, negated, weight, logp)
	return loss
}

// SumsApart is x, whose gradients are DTensors, of which none is added to another in place.
func (t *Tape) SumsApart(x T) T {
	if x.edge != noEdge {
		if _, parameter := x.edge.param(); !parameter {
			t.nodes[x.edge.node()].apart = true
		}
	}
	return x
}
