package objective

import "github.com/vramplan/vramplan/estimator/step"

// EmbeddingLoss is what sentence-transformers computes of the embeddings of a batch. Each is a few vectors and matrices
// of the batch, beside the graphs of all columns.
type EmbeddingLoss uint8

// The losses. The first two and TripletLoss have no labels; MSELoss has an embedding for one, the others a number.
const (
	// LossRanking is MultipleNegativesRankingLoss, LossSymmetric the same with the anchors told apart by each positive.
	LossRanking EmbeddingLoss = iota
	LossSymmetric
	LossTriplet
	// LossCosine is CosineSimilarityLoss, LossContrastive ContrastiveLoss and OnlineContrastiveLoss, which chooses
	// among the distances of its pairs: a number each.
	LossCosine
	LossContrastive
	// LossCoSENT compares every pair with every other, LossAngle those by angles of complex numbers.
	LossCoSENT
	LossAngle
	// LossDistance is MSELoss, of every column.
	LossDistance
)

// LabelWidth is how many numbers label an example, of embeddings of so many elements.
func (l EmbeddingLoss) LabelWidth(width int64) int64 {
	switch l {
	case LossCosine, LossContrastive, LossCoSENT, LossAngle:
		return 1
	case LossDistance:
		return width
	}
	return 0
}

// OfBatch says that the loss compares examples of a micro-batch with each other, so that accumulated micro-steps are
// not one larger batch.
func (l EmbeddingLoss) OfBatch() bool {
	return l != LossTriplet && l != LossCosine && l != LossContrastive && l != LossDistance
}

// labelled is a loss of embeddings and their labels, which it borrows. Sources:
// sentence_transformers/sentence_transformer/losses/cosine_similarity.py, contrastive.py, online_contrastive.py,
// cosent.py, angle.py, embed_distill.py (compute_loss_from_embeddings), util/similarity.py, 5.7.
func (o Contrastive) labelled(t *step.Tape, e []step.T) step.T {
	switch o.Loss {
	case LossDistance:
		return o.distances(t, e)
	case LossCoSENT, LossAngle:
		scores := o.similarities(t, e)
		loss := o.compared(t, scores)
		t.Drop(scores)
		return loss
	}
	scores := o.similarities(t, e)
	distance := t.MulScalar(scores, step.LabelLoss) // 1 - cos(a, b), or what is squared
	t.Drop(scores)
	loss := t.MeanLoss(distance)
	t.Drop(distance)
	return loss
}

// similarities is a number for each pair: the sum of the product of what normalize makes of both, or of the real and
// imaginary parts of their quotient as complex numbers, which are half as many elements each.
func (o Contrastive) similarities(t *step.Tape, e []step.T) step.T {
	a, b := normalized(t, e[0], o.Rows), normalized(t, e[1], o.Rows)
	var parts []step.T
	if o.Loss == LossAngle {
		for range 4 { // both parts before and after they are divided by the lengths
			parts = append(parts, row(t, a.Numel()/2))
		}
	}
	product := row(t, a.Numel())
	y := row(t, o.Rows)
	r := t.Replay([]step.T{a, b}, append([]step.T{a, b}, parts...))
	bytes := a.Numel() * a.Dtype().Size()
	r.Alloc(1, bytes, step.LabelInputGradient)
	r.Alloc(0, bytes, step.LabelInputGradient)
	r.Send(1, 1, false, false)
	r.Send(0, 0, false, false)
	y = y.Attached(r.End(1))
	t.Drop(product, a, b)
	t.Drop(parts...)
	return y
}

// compared is the logarithm of the sum over all pairs of pairs, of which those that the labels order the other way are
// moved far down.
func (o Contrastive) compared(t *step.Tape, scores step.T) step.T {
	n := o.Rows * o.Rows
	scaled := t.MulScalar(scores, step.LabelLoss)
	difference := row(t, n)
	r := t.Replay([]step.T{scaled}, nil)
	r.Alloc(0, n*4, step.LabelInputGradient)
	r.Alloc(1, scaled.Numel()*4, step.LabelInputGradient)
	r.Free(0)
	r.Send(1, 0, false, false)
	difference = difference.Attached(r.End(1))
	t.Drop(scaled)
	less := t.Input(n, step.Bool)
	labels := row(t, n)
	t.Drop(less)
	inverted := row(t, n)
	far := row(t, n)
	t.Drop(inverted)
	moved := t.JoinPictures(difference)
	t.Drop(far, difference)
	all := t.JoinPictures(moved) // behind a zero
	t.Drop(moved)
	loss := logSumExp(t, all, n, 1)
	t.Drop(all, labels)
	return loss
}

// distances is the mean of the squared differences of every column from the labels.
func (o Contrastive) distances(t *step.Tape, e []step.T) step.T {
	var parts []step.T
	for _, x := range e {
		target := row(t, x.Numel())
		squares := t.SubRows(x, target, step.LabelLoss)
		t.Drop(target)
		parts = append(parts, t.MeanLoss(squares))
		t.Drop(squares)
	}
	return join(t, parts, 1)
}

// symmetric is the ranking of texts for each anchor and, of the same embeddings, of anchors for each positive. Source:
// sentence_transformers/sentence_transformer/losses/multiple_negatives_ranking.py (partition_mode per_direction), 5.7.
func (o Contrastive) symmetric(t *step.Tape, e []step.T, width int64) step.T {
	forth := o.ranking(t, e, o.Rows, width)
	a, b := normalized(t, e[0], o.Rows), normalized(t, e[1], o.Rows)
	similarity := product(t, a, b, o.Rows, o.Rows, width)
	t.Drop(a, b)
	scaled := t.MulScalar(similarity, step.LabelLoss)
	t.Drop(similarity)
	sums := logSumExp(t, scaled, o.Rows*o.Rows, o.Rows)
	t.Drop(scaled)
	back := t.MeanLoss(sums)
	t.Drop(sums)
	loss := addLoss(t, forth, back)
	t.Drop(forth, back)
	return loss
}

// product is a matrix of the similarities of so many rows with so many others.
func product(t *step.Tape, a, b step.T, rows, others, width int64) step.T {
	similarity := row(t, rows*others)
	mm := t.Replay([]step.T{a, b}, []step.T{a, b})
	mm.Alloc(1, others*width*4, step.LabelInputGradient)
	mm.Alloc(0, rows*width*4, step.LabelInputGradient)
	mm.Send(1, 1, true, false)
	mm.Send(0, 0, false, false)
	return similarity.Attached(mm.End(1))
}
