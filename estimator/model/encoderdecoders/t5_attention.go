package encoderdecoders

import "github.com/vramplan/vramplan/estimator/step"

// attended is what an attention looks at besides its keys' source.
type attended struct {
	mask  step.T
	bias  *step.T // made by the stack's first block
	keys  int64   // tokens
	cross bool
}

// attention is T5Attention.forward on x with keys and values from source. It returns its output, the
// position bias and what a variable of the block keeps.
func (s *t5Stack) attention(t *step.Tape, at *t5Attention, x, source step.T, to attended) (y, bias, kept step.T) {
	if t.Recipe.Software.Has(step.InterfacesT5) {
		return s.interfaced(t, at, x, source, to)
	}
	a := s.M.A
	h := a.Geometry()
	queries := s.tokens(t)
	q := t.ByHeads(at.q.Forward(t, x), queries, h.Query)
	k := at.k.Keys(t, source, t.CopiesKeys(to.keys))
	v := t.ByHeads(at.v.Forward(t, source), to.keys, h.Query)
	cached := s.decodes && t.Recipe.UseCache
	if cached {
		kc, vc := t.CacheAppend(k, k.Dtype()), t.CacheAppend(v, v.Dtype())
		t.Drop(k, v)
		k, v = kc, vc
		s.cache = append(s.cache, t.Hold(kc), t.Hold(vc))
	}
	keys := to.keys
	if cached { // the cache has put the heads outermost
		keys = 1
	}
	qc, kc := t.Folded(q, queries, h.Query), t.Folded(k, keys, h.Query)
	scores := t.BMM(qc, kc, t.Shape.Batch*h.Query*queries*to.keys, step.LabelAttentionScores)
	t.Drop(qc, kc)
	var length step.T
	if to.bias != nil {
		bias = t.Hold(*to.bias)
	} else {
		if !to.cross {
			length = t.Input(1, step.I64) // cache_position[-1] + 1
		}
		bias = s.positionBias(t, at, scores, queries, to)
	}
	scores = t.AddInPlace(scores, bias)
	weights := s.softmax(t, scores)
	vc := t.Folded(v, keys, h.Query)
	product := t.Unfolded(t.BMM(weights, vc, q.Numel(), step.LabelAttentionOutput), queries, h.Query)
	t.Drop(vc)
	flat := t.ByTokens(product, queries, h.Query)
	y = at.o.Forward(t, flat)
	t.Drop(flat, q, k, v, scores, weights)
	if to.bias == nil && !to.cross {
		t.Drop(length)
	}
	return y, bias, step.NoTensor
}

// softmax is dropout(softmax(scores.float()).type_as(scores)).
func (s *t5Stack) softmax(t *step.Tape, scores step.T) step.T {
	wide := t.Float(scores, step.LabelAttentionScores)
	p := t.Softmax(wide, step.LabelAttentionProbabilities)
	t.Drop(wide)
	back := t.Cast(p, scores.Dtype(), step.LabelAttentionProbabilities)
	t.Drop(p)
	dropped := t.Dropout(back, s.M.A.AttentionDropout)
	t.Drop(back)
	return dropped
}

// positionBias is what a stack's first block adds to the scores, mask and all: looked up by distance, or zeros where
// the attention has no table.
func (s *t5Stack) positionBias(t *step.Tape, at *t5Attention, scores step.T, queries int64, to attended) step.T {
	if !at.positions.Exists() {
		zeros := t.Scratch(s.M.A.Heads*queries*to.keys, scores.Dtype(), step.LabelAttentionMask)
		if t.Recipe.CheckpointEvery > 0 { // position_bias.requires_grad = True
			zeros = t.Leaf(zeros)
		}
		bias := t.AddMask(zeros, to.mask, scores.Numel())
		t.Drop(zeros)
		return bias
	}
	values := t.PositionBias(queries, to.keys, !s.decodes, at.positions)
	bias := t.AddMask(values, to.mask, scores.Numel())
	t.Drop(values)
	return t.Permuted(bias)
}
