package step

// InBackward is an objective that goes on in a hook of its loss: forwards, each with a backward of its own, run inside
// backward.
type InBackward interface {
	// Backward records it. The loss and its gradient are there.
	Backward(t *Tape, net Network)
}

// Unfolded is an objective that runs layers forward and backward in turns, so that every layer is recorded.
type Unfolded interface{ Unfolds() bool }

// Inner records a forward inside backward, whose result is a scalar, and its backward, which adds to the gradients of
// the parameters. f returns that scalar and what variables refer to until the backward is over, all of which goes.
func (t *Tape) Inner(f func() (loss T, held []T)) {
	base, acts, layers := int32(len(t.nodes)), len(t.acts), len(t.layers)
	holds, kept := len(t.graphHolds), len(t.kept)
	t.forwardAgain = true
	t.SeveralGraphs()
	loss, held := f()
	t.forwardAgain = false
	root := t.fresh(1, loss.dtype, LabelLoss)
	t.Hold(root)
	t.deliver(loss.edge, root.storage)
	t.backwardRange(base, int32(len(t.nodes)))
	t.releaseUnreached(base)
	t.enter(-1)
	t.Drop(root)
	t.Drop(held...)
	t.Drop(t.graphHolds[holds:]...)
	t.endGraph(kept)
	t.graphs--
	t.nodes, t.acts, t.layers, t.graphHolds = t.nodes[:base], t.acts[:acts], t.layers[:layers], t.graphHolds[:holds]
	t.Drop(loss)
}

// SeveralGraphs says that parameters get gradients from several graphs in a micro-step: from the second on they are
// added in place to the one that is there.
func (t *Tape) SeveralGraphs() { t.graphs++ }

// Pooled is what a pooler makes of a model's output where nobody reads it: f records it, and its graph goes with its
// result.
func (t *Tape) Pooled(f func() T) (pooled T, forget func()) {
	base := t.GraphSize()
	pooled = f()
	top := t.GraphSize()
	return pooled, func() {
		t.Drop(pooled)
		t.Abandon(base, top)
	}
}

// MeanOfTokens is the mean of the tokens of x, in rows of width elements, that are no padding, as sentence-transformers
// writes it: the mask is laid out for every element. Its sums are float32 under autocast.
// Source: sentence_transformers/sentence_transformer/modules/pooling.py (_forward_padded), 5.7.
func (t *Tape) MeanOfTokens(x T, width int64) T {
	wide := t.fresh(x.numel, x.dtype, LabelElementwise)
	masked := t.fresh(x.numel, x.dtype, LabelElementwise)
	masked = t.op(x).save(wide).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(masked, 0)
	d := x.dtype
	if t.autocast {
		d = F32
	}
	rows := x.numel / t.Shape.Tokens
	sum := t.fresh(rows, d, LabelElementwise)
	o := t.op(masked)
	if d == x.dtype {
		o.act(act{verb: actPassView})
	} else {
		o.alloc(0, rows*x.dtype.Size(), LabelInputGradient).sendView(0, 0)
	}
	sum = o.out(sum, 0)
	t.Drop(masked)
	counted := t.fresh(rows, d, LabelElementwise)
	count := t.fresh(rows, d, LabelElementwise)
	t.Drop(counted)
	mean := t.fresh(rows, d, LabelElementwise)
	mean = t.op(sum).save(count).alloc(0, sum.bytes(), LabelInputGradient).send(0, 0).out(mean, 0)
	t.Drop(sum, count, wide)
	return mean
}

// OneToken is the first or last token of every sequence of x, looked up by the mask, in rows of width elements; last
// says that all of x is multiplied by the mask before. Source: as MeanOfTokens.
func (t *Tape) OneToken(x T, width int64, last bool) T {
	from := t.Hold(x)
	places := t.fresh(t.Shape.Batch, I64, LabelInput)
	if last {
		wide := t.fresh(x.numel, x.dtype, LabelElementwise)
		t.Drop(from)
		from = t.fresh(x.numel, x.dtype, LabelElementwise)
		from = t.op(x).save(wide).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(from, 0)
		t.Drop(wide)
	}
	y := t.fresh(t.Shape.Batch*width, x.dtype, LabelElementwise)
	y = t.op(from).save(from, places).alloc(0, from.bytes(), LabelInputGradient).send(0, 0).out(y, 0)
	t.Drop(from, places)
	return y
}

// ExpandedBias is x.expand(batch, …).contiguous() of a bias without a batch dimension.
func (t *Tape) ExpandedBias(x T) T {
	y := t.fresh(x.numel*t.Shape.Batch, x.dtype, LabelPositions)
	o := t.op(x)
	if t.Shape.Batch == 1 {
		return o.pass(0, 0).out(y, 0)
	}
	return o.sumRows(0, x.dtype, t.Shape.Batch, x.numel, LabelReduction).send(0, 0).out(y, 0)
}

// BiasedAttention is MPNet's attention written out: position biases are added to the scores in place, and the mask to a
// copy. Source: transformers/models/mpnet/modeling_mpnet.py (MPNetSelfAttention), 4.57 and 5.23.
func (t *Tape) BiasedAttention(q, k, v, bias, mask T, h Heads, dropout float64) (y T, locals []T) {
	n := t.Shape.Tokens
	qc, kc := t.foldHeads(q, h), t.foldHeads(k, h)
	products := t.BMM(qc, kc, t.Shape.Batch*h.Query*n*n, LabelAttentionScores)
	t.Drop(qc, kc)
	scores := t.MulScalar(products, LabelAttentionScores)
	t.Drop(products)
	scores = t.AddInPlace(scores, bias)
	masked := t.Add(scores, mask, LabelAttentionScores)
	t.Drop(scores)
	p := t.AutocastSoftmax(masked)
	probabilities := t.Dropout(p, dropout)
	t.Drop(p)
	ph := t.autocastTo(probabilities, t.Recipe.Compute, LabelAttentionProbabilities)
	vc := t.foldHeads(v, h)
	product := t.BMM(ph, vc, q.numel, LabelAttentionOutput)
	t.Drop(vc, ph)
	return t.unfoldHeads(product, h), []T{masked, probabilities}
}

// BucketBias looks up so many buckets in w, a row for each, and puts the heads first.
func (t *Tape) BucketBias(buckets T, w Weight) T { return t.biasOf(buckets, w) }
