package step

// Attention as Whisper and CLIP write it, where queries, keys and values are laid out with the heads outermost before
// anything is computed of them, and where tokens of one sequence may look at those of another.

// lengths is how many tokens ask and how many are asked.
func (t *Tape) lengths(h Heads) (queries, keys int64) {
	queries, keys = h.Queries, h.Keys
	if queries == 0 {
		queries = t.Shape.Tokens
	}
	if keys == 0 {
		keys = t.Shape.Tokens
	}
	return queries, keys
}

// Outermost is x.transpose(1, 2).contiguous() of n tokens by heads. It takes over x.
func (t *Tape) Outermost(x T, n, heads int64) T {
	if n == 1 || heads == 1 {
		return x
	}
	y := t.Contiguous(x)
	y.layout = headsFirst
	t.Drop(x)
	return y
}

// CopiesOutermost says whether the gradients of what Outermost made of n tokens come back with the heads outermost, so
// that linear layers copy them: flash attention lays them out like its inputs, and so does the written-out formula; the
// memory-efficient kernel does not.
func (t *Tape) CopiesOutermost(h Heads, n int64) bool {
	return n > 1 && h.Query > 1 && (t.Recipe.Attention == AttentionEager || t.usesFlash(h, false) ||
		t.writtenOut(h, false))
}

// CopiesOutermostKeys is CopiesOutermost for keys, which the written-out formula transposes: their gradient can be read
// in the order of tokens as long as there is one sequence.
func (t *Tape) CopiesOutermostKeys(h Heads, n int64) bool {
	if t.Recipe.Attention == AttentionEager || t.writtenOut(h, false) {
		return n > 1 && t.Shape.Batch > 1
	}
	return t.CopiesOutermost(h, n)
}

// WrittenAttention is dropout(softmax(q·kᵀ·c + mask))·v, each step of which is assigned to the same variable. It also
// returns the probabilities.
// Source: transformers/models/whisper/modeling_whisper.py (eager_attention_forward), 4.57.
func (t *Tape) WrittenAttention(q, k, v T, h Heads, mask *T, dropout float64) (y, probabilities T) {
	queries, keys := t.lengths(h)
	products := t.BMM(q, k, t.Shape.Batch*h.Query*queries*keys, LabelAttentionScores)
	scores := t.MulScalar(products, LabelAttentionScores)
	t.Drop(products)
	if mask != nil {
		masked := t.Add(scores, *mask, LabelAttentionScores)
		t.Drop(scores)
		scores = masked
	}
	var p T
	if t.autocast {
		p = t.SoftmaxFloat(scores, LabelAttentionScores, LabelAttentionProbabilities)
	} else {
		p = t.Softmax(scores, LabelAttentionProbabilities)
	}
	t.Drop(scores)
	probabilities = t.Dropout(p, dropout)
	t.Drop(p)
	ph := t.autocastTo(probabilities, t.Recipe.Compute, LabelAttentionProbabilities)
	product := t.Unfolded(t.BMM(ph, v, q.numel, LabelAttentionOutput), queries, h.Query)
	t.Drop(ph)
	return t.ByTokens(product, queries, h.Query), probabilities
}
