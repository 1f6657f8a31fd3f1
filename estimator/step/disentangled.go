package step

import "github.com/vramplan/vramplan/estimator/release"

// What the disentangled attention of DeBERTa takes besides what other encoders do.
// Source: transformers/models/deberta_v2/modeling_deberta_v2.py, 4.57.

// HeadRows is transpose_for_scores: a copy with the heads outermost of x, sequences of n tokens. The gradient is copied
// back, unless the layer below can take a view of it: of one sequence whose only gradient is that of a transposed
// product. It takes over x.
func (t *Tape) HeadRows(x T, n int64, h Heads, viewed bool) T {
	if h.Query == 1 || n == 1 {
		return x
	}
	if !viewed {
		x = t.relaid(x)
	}
	y := t.Contiguous(x)
	t.Drop(x)
	return y
}

// RepeatForBatch is x.repeat(B, 1, 1): a copy for every sequence. It takes over x.
func (t *Tape) RepeatForBatch(x T) T {
	y := t.fresh(x.numel*t.Shape.Batch, x.dtype, LabelPositions)
	o := t.op(x)
	if t.Shape.Batch > 1 {
		o.alloc(0, x.bytes(), LabelInputGradient).send(0, 0)
	} else {
		o.act(act{verb: actPassView})
	}
	t.Drop(x)
	return o.out(y, 0)
}

// GatherColumns is torch.gather along the rows of x, which gives square elements for each head of each sequence. It
// keeps x and the index.
func (t *Tape) GatherColumns(x, index T, heads, square int64) T {
	y := t.fresh(t.Shape.Batch*heads*square, x.dtype, LabelAttentionScores)
	return t.op(x).save(x, index).alloc(0, x.bytes(), LabelAttentionScores).send(0, 0).out(y, 0)
}

// unscriptsBuckets is DeBERTa whose buckets of distances are plain Python, not scripted.
var unscriptsBuckets = release.Declare("unscripts-buckets", release.Change{
	Library: "transformers", After: "4.57", From: "5.23",
	What:   "DeBERTa of transformers 5.23 computes the buckets of distances in plain Python, step by step",
	Source: "models/deberta_v2/modeling_deberta_v2.py (make_log_bucket_position), 4.57.6 and 5.23.0",
	Shown:  "traces of DeBERTa v3",
})

// RelativeBuckets is build_relative_position for n tokens. The logarithmic buckets are a scripted function, whose
// elementwise steps TorchScript fuses.
func (t *Tape) RelativeBuckets(n int64, bucketed bool) T {
	in := func(numel int64, d DType) T { return t.fresh(numel, d, LabelPositions) }
	queries, keys := in(n, I64), in(n, I64)
	distance := in(n*n, I64)
	if bucketed && t.Recipe.Software.Has(unscriptsBuckets) {
		buckets := t.logBuckets(n * n)
		t.Drop(distance)
		distance = in(n*n, I64)
		t.Drop(buckets)
	} else if bucketed {
		sign := in(n*n, I64)
		middle := in(1, I64)
		ratio := in(n*n, F32)
		absolute := in(n*n, I64)
		t.Drop(middle)
		logarithm := in(n*n, F32)
		t.Drop(ratio)
		buckets := in(n*n, F32)
		t.Drop(logarithm, absolute, sign, distance)
		distance = in(n*n, I64)
		t.Drop(buckets)
	}
	t.Drop(queries, keys)
	return distance
}

// logBuckets is make_log_bucket_position of so many distances as plain Python runs it, a tensor a step.
// Source: transformers/models/deberta_v2/modeling_deberta_v2.py, 5.23.
func (t *Tape) logBuckets(n int64) T {
	in := func(d DType) T { return t.fresh(n, d, LabelPositions) }
	sign := in(I64)
	below, above := in(Bool), in(Bool)
	near := in(Bool)
	t.Drop(below, above)
	middle := t.fresh(1, I64, LabelPositions)
	distance := in(I64)
	absolute := in(I64)
	t.Drop(near, middle, distance)
	logarithm := in(F32)
	for range 5 { // log, / log, * (middle - 1), ceil, + middle
		next := in(F32)
		t.Drop(logarithm)
		logarithm = next
	}
	within := in(Bool)
	plain, signed := in(F32), in(F32)
	buckets := in(F32)
	t.Drop(within, plain, signed, sign, absolute, logarithm)
	return buckets
}

// ProbabilityProduct is softmax(scores)·v of DeBERTa, with dropout between: its output as (B, T, h·dim), and the
// probabilities.
func (t *Tape) ProbabilityProduct(scores, v T, h Heads, dropout float64) (y, probabilities T) {
	p := t.AutocastSoftmax(scores)
	probabilities = t.Dropout(p, dropout)
	t.Drop(p)
	ph := t.autocastTo(probabilities, t.Recipe.Compute, LabelAttentionProbabilities)
	product := t.BMM(ph, v, v.numel, LabelAttentionOutput)
	t.Drop(ph)
	return t.unfoldHeads(product, h), probabilities
}

// HoldWithGraph keeps xs, which the layers got besides their inputs, as long as the graph of the layers that
// non-reentrant checkpointing runs again.
func (t *Tape) HoldWithGraph(xs ...T) {
	if len(t.layers) == 0 || t.Recipe.Reentrant { // none is run again: of few layers perhaps not even one
		return
	}
	for _, x := range xs {
		t.graphHolds = append(t.graphHolds, t.Hold(x))
	}
}
