package step

import "github.com/vramplan/vramplan/estimator/release"

// What the text encoders of transformers do besides what decoders do.

// AddInPlace is a += b; b is broadcast over the leading dimensions of a and, where it has all of them, may be of
// another type, in which it then gets its gradient. It takes over a.
func (t *Tape) AddInPlace(a, b T) T { return t.exec.addInPlace(t, a, b) }

func (eager) addInPlace(t *Tape, a, b T) T {
	o := t.op(a, b)
	if o.needs(0) {
		o.pass(0, 0)
	}
	if o.needs(1) {
		switch {
		case b.numel < a.numel:
			o.sumRows(0, a.dtype, a.numel/b.numel, b.numel, LabelReduction).send(0, 1)
		case b.dtype != a.dtype:
			o.alloc(0, b.bytes(), LabelAttentionScores).send(0, 1)
		default:
			o.pass(0, 1)
		}
	}
	return o.out(a, 0)
}

// ExpandedEmbedding is nn.Embedding for the same row of ids in every sequence of the batch, a view that
// repeats it: forward and backward each lay the ids out densely for a moment, unless there is one sequence.
func (t *Tape) ExpandedEmbedding(row T, w Weight, l Label) T {
	p, n := t.Parameter(w), t.Shape.N()
	ids := T{storage: row.storage, edge: noEdge, form: plain(I64), numel: n}
	return t.exec.expandedLookup(t, p, ids, w, l)
}

func (eager) expandedLookup(t *Tape, p, ids T, w Weight, l Label) T {
	n := ids.numel
	copied := NoTensor
	repeated := t.Shape.Batch > 1
	if repeated && t.Shape.Tokens > 1 { // one column is a view
		copied = t.fresh(n, I64, LabelInput)
	}
	y := t.fresh(n*w.Cols, p.dtype, l)
	t.Drop(copied)
	o := t.op(p).save(ids)
	const copyOfIDs = 11 // a register that embeddingGradient leaves alone
	if repeated {
		o.alloc(copyOfIDs, n*8, LabelInput)
	}
	o.embeddingGradient(n, w.Rows, w.Cols, p.dtype)
	if repeated {
		o.free(copyOfIDs)
	}
	return o.send(0, 0).out(y, 0)
}

// FirstToken is x[:, 0] of x with rows of width elements: a view, whose gradient is as large as x.
func (t *Tape) FirstToken(x T, width int64) T {
	y := t.Hold(x)
	y.numel = t.Shape.Batch * width
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// foldHeads is how matmul lays out x, of shape (B, h, T, dim) with tokens outermost in memory, for a batched product:
// one sequence or one head is a view. Source: aten/src/ATen/native/LinearAlgebra.cpp (_matmul_impl), torch 2.9.
func (t *Tape) foldHeads(x T, h Heads) T {
	if t.Shape.Batch == 1 || h.Query == 1 {
		return t.Hold(x)
	}
	return t.Contiguous(x)
}

// unfoldHeads is permute(0, 2, 1, 3).contiguous() of a batched product, which it takes over. Its gradient is laid out
// for the product in turn.
func (t *Tape) unfoldHeads(x T, h Heads) T {
	if h.Query == 1 {
		return x
	}
	if t.Shape.Batch > 1 {
		x = t.relaid(x)
	}
	y := t.Contiguous(x)
	t.Drop(x)
	return y
}

// ReassignsScores lets go of the scores of BERT's eager attention as soon as they are probabilities.
var ReassignsScores = release.Declare("reassigns-scores", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "eager attention of BERT and its like in transformers 5.10 has one variable for scores " +
		"and probabilities; that of DistilBERT, which filled scores before, is written like theirs",
	Source: "models/bert/modeling_bert.py, models/distilbert/modeling_distilbert.py (eager_attention_forward), " +
		"4.57.6 and 5.23.0",
	Shown: "traces of BERT, RoBERTa and DistilBERT with eager attention",
})

// EncoderAttention is BERT's attention written out: softmax(q·kᵀ/√d + mask)·v, every step of which is a statement of
// its own. It also returns the probabilities, and the masked scores, whose variable lasts until the function returns;
// NoTensor where that variable has become the probabilities. Sources: transformers/models/bert/modeling_bert.py
// (BertSelfAttention), 4.57; (eager_attention_forward), 5.23, which has one variable for scores and probabilities.
func (t *Tape) EncoderAttention(q, k, v T, h Heads, mask *T, dropout float64) (y, probabilities, scores T) {
	return t.encoderAttention(q, k, v, h, mask, dropout, t.Recipe.Software.Has(ReassignsScores))
}

// ReassignedAttention is EncoderAttention with one variable for scores and probabilities in every release.
// Source: transformers/models/bart/modeling_bart.py (eager_attention_forward), 4.57.6 and 5.23.0.
func (t *Tape) ReassignedAttention(q, k, v T, h Heads, mask *T, dropout float64) (y, probabilities T) {
	y, probabilities, _ = t.encoderAttention(q, k, v, h, mask, dropout, true)
	return y, probabilities
}

func (t *Tape) encoderAttention(q, k, v T, h Heads, mask *T, dropout float64,
	reassigns bool) (y, probabilities, scores T) {
	queries, keys := t.lengths(h)
	qc, kc := t.foldHeads(q, h), t.foldHeads(k, h)
	products := t.BMM(qc, kc, t.Shape.Batch*h.Query*queries*keys, LabelAttentionScores)
	t.Drop(qc, kc)
	scores = t.MulScalar(products, LabelAttentionScores)
	t.Drop(products)
	if mask != nil {
		masked := t.Add(scores, *mask, LabelAttentionScores)
		t.Drop(scores)
		scores = masked
	}
	p := t.AutocastSoftmax(scores)
	if reassigns {
		t.Drop(scores)
		scores = NoTensor
	}
	probabilities = t.Dropout(p, dropout)
	t.Drop(p)
	ph := t.autocastTo(probabilities, t.Recipe.Compute, LabelAttentionProbabilities)
	vc := t.foldHeads(v, h)
	product := t.BMM(ph, vc, q.numel, LabelAttentionOutput)
	t.Drop(vc, ph)
	return t.unfoldHeads(product, h), probabilities, scores
}

// CopiesEncoderGradient says whether the gradients of queries and values, and of keys, are copied before the linear
// layers take them: from the written-out formula the former come with the heads outermost, the latter transposed
// besides, which is a view of one sequence.
func (t *Tape) CopiesEncoderGradient(h Heads, mask bool) (queriesAndValues, keys bool) {
	if t.Recipe.Attention != AttentionEager && !t.writtenOut(h, mask) {
		padded := t.PadsHeads(h, mask)
		return padded, padded
	}
	return h.Query > 1, t.Shape.Batch > 1
}

// MeanLoss is x.mean(): what stands in for a loss where a model has no head.
func (t *Tape) MeanLoss(x T) T {
	y := t.fresh(1, x.dtype, LabelLoss)
	return t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
}

// SquaredError is F.mse_loss(x, targets), float32 under autocast.
func (t *Tape) SquaredError(x, targets T) T {
	x32 := t.autocastTo(x, F32, LabelCast)
	y := t.fresh(x32.numel, x32.dtype, LabelLoss) // whose shape is that of the differences until their mean is in it
	y.numel = 1
	t.Drop(t.fresh(x32.numel, x32.dtype, LabelLoss))
	y = t.op(x32).save(x32, targets).alloc(0, x32.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	t.Drop(x32)
	return y
}

// WideningSum is torch.cumsum of 32-bit integers x over the tokens as 64-bit ones: x is brought to that type first, and
// one sequence alone is summed by CUB. Source: aten/src/ATen/native/cuda/ScanKernels.cpp, torch 2.9.
func (t *Tape) WideningSum(x T) T {
	y := t.fresh(x.numel, I64, LabelInput)
	wide := t.fresh(x.numel, I64, LabelInput)
	if t.Shape.Batch == 1 {
		t.Drop(t.fresh(t.scanScratch(x.numel), Bool, LabelInput))
	}
	t.Drop(wide)
	return y
}

// AutocastSoftmax is F.softmax(x, -1), which autocast asks for float32: the kernel reads float16 as it is, and bfloat16
// is cast before. Source: aten/src/ATen/native/SoftMax.cpp (softmax, half_to_float), torch 2.9.
func (t *Tape) AutocastSoftmax(x T) T {
	if !t.autocast || !t.exec.softmaxReads(x.dtype) {
		wide := t.autocastTo(x, F32, LabelAttentionScores)
		p := t.Softmax(wide, LabelAttentionProbabilities)
		t.Drop(wide)
		return p
	}
	p := t.fresh(x.numel, F32, LabelAttentionProbabilities)
	return t.op(x).keepSoftmax(x, p).alloc(0, x.bytes(), LabelAttentionScores).scratch(p.bytes(),
		LabelAttentionScores).send(0, 0).out(p, 0)
}

// FilledAttention is DistilBERT's attention written out, with queries that are scaled already: scores of padding are
// filled. It also returns the tensors that stay in variables until the function returns.
// Source: transformers/models/distilbert/modeling_distilbert.py (MultiHeadSelfAttention), 4.57.
func (t *Tape) FilledAttention(q, k, v T, h Heads, dropout float64) (y T, locals []T) {
	queries, keys := t.lengths(h)
	qc, kc := t.foldHeads(q, h), t.foldHeads(k, h)
	products := t.BMM(qc, kc, t.Shape.Batch*h.Query*queries*keys, LabelAttentionScores)
	t.Drop(qc, kc)
	mask := t.fresh(t.Shape.N(), Bool, LabelAttentionMask)
	scores := t.MaskedFill(products, mask)
	t.Drop(products)
	p := t.AutocastSoftmax(scores)
	weights := t.Dropout(p, dropout)
	t.Drop(p)
	ph := t.autocastTo(weights, t.Recipe.Compute, LabelAttentionProbabilities)
	vc := t.foldHeads(v, h)
	product := t.BMM(ph, vc, q.numel, LabelAttentionOutput)
	t.Drop(vc, ph)
	return t.unfoldHeads(product, h), []T{mask, scores, weights}
}
