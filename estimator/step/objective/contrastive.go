package objective

import "github.com/vramplan/vramplan/estimator/step"

// Pooling makes one embedding of the tokens of a text.
type Pooling uint8

// The poolings: the mean of the tokens, the first and the last of them.
const (
	PoolMean Pooling = iota
	PoolFirst
	PoolLast
)

// Contrastive is sentence-transformers' trainer with a loss over embeddings: so many columns of texts, each of which is
// passed by itself.
type Contrastive struct {
	Rows, Tokens, Width int64
	Columns             int64
	Pooling             Pooling
	// MiniBatch is how many texts of a column are passed at once by GradCache; 0 without.
	MiniBatch int64
	// Loss is what is computed of the embeddings.
	Loss EmbeddingLoss
	// Dims are the lengths to which Matryoshka cuts the embeddings, the first of them the longest; 0 is none.
	Dims [MaxDims]int64
	// Caches says that the model fills a key/value cache.
	Caches bool
}

// MaxDims is how many lengths of embeddings are trained at once.
const MaxDims = 8

// Batch is ids and masks of every column, and labels.
func (o Contrastive) Batch(t *step.Tape) []step.T {
	var all []step.T
	for range 2 * o.Columns {
		all = append(all, t.Input(o.Rows*o.Tokens, step.I64))
	}
	if width := o.Loss.LabelWidth(o.Width); width > 0 {
		all = append(all, row(t, o.Rows*width))
	}
	return all
}

// Unfolds says that GradCache goes forward and backward in turns.
func (o Contrastive) Unfolds() bool { return o.MiniBatch > 0 }

// Forward passes the columns, whose graphs and hidden states all live until the loss is there, or runs GradCache's
// first two steps. Sources: sentence_transformers/sentence_transformer/losses/multiple_negatives_ranking.py,
// triplet.py, matryoshka.py, base/losses/gradcache.py (forward_cached), 5.7.
func (o Contrastive) Forward(t *step.Tape, net step.Network, batch []step.T) step.T {
	if o.MiniBatch > 0 {
		return o.cached(t, net, batch)
	}
	if t.Recipe.Reentrant { // every layer's backward is one of its own
		t.SeveralGraphs()
	}
	embeddings := make([]step.T, o.Columns)
	var features []step.T
	for c := range embeddings {
		out, tokens := o.embed(t, net, batch, c, o.Rows, false)
		embeddings[c] = out
		features = append(features, tokens)
	}
	var loss step.T
	if o.Dims[0] == 0 {
		loss = o.loss(t, embeddings, o.Width)
	} else {
		loss = o.matryoshka(t, embeddings, features)
		features = nil
	}
	for i, x := range embeddings {
		t.Drop(x)
		if features != nil {
			t.Drop(features[i])
		}
	}
	return loss
}

// embed passes so many texts of a column. It also returns the hidden states, which the dictionary of inputs keeps.
// Source: sentence_transformers/base/model.py (forward), base/modules/transformer.py (forward), 5.7.
func (o Contrastive) embed(t *step.Tape, net step.Network, batch []step.T, column int, rows int64,
	without bool) (embedding, tokens step.T) {
	tokens = step.NoTensor
	p := step.Pass{Shape: step.Shape{Batch: rows, Tokens: o.Tokens}, Embeds: true, Caches: o.Caches,
		WithoutGraph: without, After: func(t *step.Tape, outputs []step.T) []step.T {
			hidden := outputs[0]
			var pooled step.T
			if o.Pooling == PoolMean {
				pooled = t.MeanOfTokens(hidden, o.Width)
			} else {
				pooled = t.OneToken(hidden, o.Width, o.Pooling == PoolLast)
			}
			copied := t.JoinPictures(pooled)
			t.Drop(pooled)
			tokens = t.Hold(hidden)
			return []step.T{copied, hidden}
		}}
	if column > 0 && o.MiniBatch == 0 && t.Another != nil {
		net = t.Another() // checkpointed layers see in backward what their own forward made
	}
	n := rows * o.Tokens
	ids, mask := batch[2*column].Sized(n, step.I64, step.NoTensor), batch[2*column+1].Sized(n, step.I64, step.NoTensor)
	out := t.Run(net, []step.T{ids, mask, step.NoTensor}, p)
	embedding = t.Hold(out.Logits)
	t.DropOutput(out)
	return embedding, tokens
}

// loss is the loss of embeddings of the given width, which it borrows.
func (o Contrastive) loss(t *step.Tape, embeddings []step.T, width int64) step.T {
	switch o.Loss {
	case LossTriplet:
		return o.triplets(t, embeddings)
	case LossRanking:
		return o.ranking(t, embeddings, o.Rows, width)
	case LossSymmetric:
		return o.symmetric(t, embeddings, width)
	}
	return o.labelled(t, embeddings)
}

// triplets is the mean of relu(‖anchor − positive‖ − ‖anchor − negative‖ + margin).
func (o Contrastive) triplets(t *step.Tape, e []step.T) step.T {
	distance := func(other step.T) step.T {
		difference := t.SubRows(e[0], other, step.LabelLoss)
		y := row(t, o.Rows)
		r := t.Replay([]step.T{difference}, []step.T{difference, y})
		for k := range 2 {
			r.Alloc(k, difference.Numel()*4, step.LabelInputGradient)
		}
		r.Free(0)
		r.Send(1, 0, false, false)
		y = y.Attached(r.End(1))
		t.Drop(difference)
		return y
	}
	positive, negative := distance(e[1]), distance(e[2])
	both := join(t, []step.T{positive, negative}, o.Rows)
	loss := t.MeanLoss(both)
	t.Drop(both)
	return loss
}

// ranking is the cross-entropy of cosine similarities of the first rows anchors and all other texts, each of which has
// the text of its own row for a target.
func (o Contrastive) ranking(t *step.Tape, e []step.T, rows, width int64) step.T {
	others := e[0].Numel() / width * (o.Columns - 1)
	for _, x := range e[1:] { // join takes over
		t.Hold(x)
	}
	docs := join(t, e[1:], others*width)
	local, indices := t.Input(o.Rows, step.I64), t.Input(rows, step.I64)
	queries := picked(t, e[0], rows*width, local)
	unread := picked(t, e[1], rows*width, local)
	a, b := normalized(t, queries, rows), normalized(t, docs, others)
	similarity := product(t, a, b, rows, others, width)
	t.Drop(a, b, queries, docs)
	scaled := t.MulScalar(similarity, step.LabelLoss)
	t.Drop(similarity)
	scores := t.JoinPictures(scaled) // torch.cat of one matrix
	t.Drop(scaled)
	sums := logSumExp(t, scores, rows*others, rows)
	t.Drop(scores)
	loss := t.MeanLoss(sums)
	for _, x := range []step.T{sums, unread, indices, local} {
		t.Drop(x)
	}
	return loss
}

// picked is x[indices]: a copy of so many elements.
func picked(t *step.Tape, x step.T, numel int64, indices step.T) step.T {
	y := row(t, numel)
	r := t.Replay([]step.T{x}, []step.T{indices})
	r.Alloc(0, x.Numel()*4, step.LabelInputGradient)
	r.Send(0, 0, false, false)
	return y.Attached(r.End(1))
}

// normalized is F.normalize(x) over rows: their norms, at least a number, and a quotient.
// Source: torch/nn/functional.py (normalize), torch 2.9.
func normalized(t *step.Tape, x step.T, rows int64) step.T {
	bytes := x.Numel() * x.Dtype().Size()
	norm, least := row(t, rows), row(t, rows)
	y := t.Made(x.Numel(), x.Dtype(), step.LabelLoss, true)
	r := t.Replay([]step.T{x}, []step.T{x, norm, least})
	for k := range 4 { // the quotient's gradients, and that of the norm's
		r.Alloc(k, bytes, step.LabelInputGradient)
	}
	r.Free(2)
	r.Free(1)
	r.Free(0)
	r.Send(3, 0, false, false)
	t.Drop(norm, least)
	return y.Attached(r.End(1))
}

// matryoshka is the loss of the embeddings cut to each length in turn. The hidden states are cut and normalized with
// them, and what was cut before is cut again. It takes over embeddings and hidden states.
// Source: sentence_transformers/sentence_transformer/losses/matryoshka.py (ForwardDecorator, shrink), 5.7.
func (o Contrastive) matryoshka(t *step.Tape, embeddings, features []step.T) step.T {
	width := o.Width
	tokens := append([]step.T(nil), features...)
	var total step.T
	var graphs []func()
	for i, dim := range o.Dims {
		if dim == 0 {
			break
		}
		for c := range embeddings {
			old := tokens[c]
			_, forget := t.Pooled(func() step.T {
				tokens[c] = normalized(t, cut(t, old, width, dim), o.Rows*o.Tokens)
				return t.Hold(tokens[c])
			})
			graphs = append(graphs, forget)
			t.Drop(old)
			whole := embeddings[c]
			embeddings[c] = normalized(t, cut(t, whole, width, dim), o.Rows)
			t.Drop(whole)
		}
		width = dim
		loss := o.loss(t, embeddings, dim)
		if i == 0 {
			total = loss
			continue
		}
		sum := addLoss(t, total, loss)
		t.Drop(total, loss)
		total = sum
	}
	for _, x := range tokens {
		t.Drop(x)
	}
	for _, forget := range graphs {
		forget()
	}
	return total
}

// cut is x[..., :dim] of rows of width elements, a view whose gradient is as large as x. The view refers to x.
func cut(t *step.Tape, x step.T, width, dim int64) step.T {
	numel := x.Numel() / width * dim
	r := t.Replay([]step.T{x}, nil)
	r.Alloc(0, x.Numel()*x.Dtype().Size(), step.LabelInputGradient)
	r.Send(0, 0, false, false)
	return x.Sized(numel, x.Dtype(), r.End(1))
}
