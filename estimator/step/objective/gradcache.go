package objective

import "github.com/vramplan/vramplan/estimator/step"

// mostPasses is how many mini-batches of a column are passed in a replay, in either direction: those between them leave
// their embeddings alone, which are there.
const mostPasses = 4

// miniBatches are the sizes of a column's mini-batches.
func (o Contrastive) miniBatches() []int64 {
	var sizes []int64
	for left := o.Rows; left > 0; left -= o.MiniBatch {
		sizes = append(sizes, min(left, o.MiniBatch))
	}
	return sizes
}

// Passes is how often a layer runs in a replayed micro-step, in either direction.
func (o Contrastive) Passes() int64 {
	if o.MiniBatch == 0 {
		return o.Columns
	}
	return 2 * o.Columns * min(mostPasses, step.CeilDiv(o.Rows, o.MiniBatch))
}

// passes says whether mini-batch i of so many is one that is passed.
func passes(i, count int) bool { return i < mostPasses-1 || i == count-1 }

// cached is the first two steps of GradCache: embeddings of all texts without a graph, then the loss of them, so many
// rows at a time, with its backward. The gradients of the embeddings stay.
// Source: sentence_transformers/base/losses/gradcache.py (CachedLossMixin.forward_cached),
// sentence_transformer/losses/cached_multiple_negatives_ranking.py (calculate_loss), 5.7.
func (o Contrastive) cached(t *step.Tape, net step.Network, batch []step.T) step.T {
	t.HoldThroughBackward(batch...) // the hook's
	sizes := o.miniBatches()
	var reps, gradients []step.T
	for c := range int(o.Columns) {
		for i, rows := range sizes {
			if !passes(i, len(sizes)) {
				reps = append(reps, row(t, rows*o.Width))
				continue
			}
			rep, tokens := o.embed(t, net, batch, c, rows, true)
			t.Drop(tokens)
			reps = append(reps, rep)
		}
	}
	dims := o.Dims
	if dims[0] == 0 {
		dims[0] = o.Width
	}
	for _, dim := range dims {
		if dim > 0 {
			o.calculate(t, dim)
		}
	}
	for range o.Columns {
		for _, rows := range sizes {
			gradients = append(gradients, row(t, rows*o.Width))
		}
	}
	for _, x := range reps {
		t.Drop(x)
	}
	t.HoldThroughBackward(gradients...)
	for _, x := range gradients {
		t.Drop(x)
	}
	return row(t, 1)
}

// calculate is the loss of embeddings of so many elements, chunk by chunk, each with its backward, of which the largest
// moment of one is replayed.
func (o Contrastive) calculate(t *step.Tape, dim int64) {
	rows, others := min(o.MiniBatch, o.Rows), o.Rows*(o.Columns-1)
	var alive []step.T
	add := func(numel int64) { alive = append(alive, row(t, numel)) }
	for range o.Columns { // every column put together
		add(o.Rows * dim)
	}
	add(others * dim)
	for range 3 { // anchors, their positives, and the anchors normalized
		add(rows * dim)
	}
	add(others * dim)
	for range 4 { // similarities, scaled, joined, and the gradient
		add(rows * others)
	}
	for range 4 { // the gradients of the texts, and of their norms
		add(others * dim)
	}
	for _, x := range alive {
		t.Drop(x)
	}
}

// Backward is GradCache's third step, in a hook of the loss: every mini-batch is passed again with a graph, whose
// backward begins from the product of its embeddings and their gradients.
// Source: sentence_transformers/base/losses/gradcache.py (_backward_hook), 5.7.
func (o Contrastive) Backward(t *step.Tape, net step.Network) {
	if o.MiniBatch == 0 {
		return
	}
	sizes := o.miniBatches()
	batch := make([]step.T, 2*o.Columns)
	for i := range batch {
		batch[i] = t.Buffered(o.Rows*o.Tokens, step.I64)
	}
	shape := t.Shape
	last := step.NoTensor // what the loop's variable refers to
	for c := range int(o.Columns) {
		for i, rows := range sizes {
			if !passes(i, len(sizes)) {
				continue
			}
			t.Shape = step.Shape{Batch: rows, Tokens: o.Tokens}
			t.Inner(func() (step.T, []step.T) {
				rep, tokens := o.embed(t, net, batch, c, rows, false)
				t.Drop(tokens, last)
				last = t.Hold(rep).Detached()
				dot := row(t, 1)
				r := t.Replay([]step.T{rep}, []step.T{rep})
				r.Alloc(0, rep.Numel()*4, step.LabelInputGradient)
				r.Send(0, 0, false, false)
				return dot.Attached(r.End(1)), []step.T{rep}
			})
		}
	}
	t.Shape = shape
	t.Drop(last)
}
