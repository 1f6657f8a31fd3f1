package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// interfacesBART is BART's and mBART's masks by the library, and tables of both stacks of an untied model.
var interfacesBART = release.Declare("interfaces-bart", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "BART and mBART of transformers 5 have their masks made by the library; before, they made them, an " +
		"additive one for every query where attention is eager; and where the head is not tied to the embedding, " +
		"encoder and decoder have one each, and no token is looked up in the shared one",
	Source: "models/bart/modeling_bart.py (_update_full_mask, _update_causal_mask, _update_cross_attn_mask, BartModel), " +
		"models/mbart/modeling_mbart.py, 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
	Shown: "traces of BART and mBART with 4.57 and 5.23",
})

// encode is BartEncoder.
func (m *bart) encode(t *step.Tape, ids step.T) step.T {
	s := &m.encoder
	t.EndLayers()
	t.In(step.PartEmbedding)
	words := t.NumberedEmbedding(ids, s.words, step.LabelEmbedding)
	order := t.Input(t.Shape.Tokens, step.I64)
	places := t.Input(t.Shape.N(), step.I64)
	positions := t.Embedding(places, s.positions, step.LabelPositions)
	t.Drop(places, order)
	x := s.embedded(t, words, positions)
	mask := m.bidirectional(t, t.Shape.Tokens, words.Dtype())
	var besides step.Besides
	if mask != nil {
		besides.Arguments = []step.T{*mask}
	}
	// mBART's layers return the probabilities, too, before transformers 5 (MBartEncoderLayer.forward, 4.57.6).
	returns := m.own.normFirst && !t.Recipe.Software.Has(interfacesBART) && t.Recipe.Attention == step.AttentionEager
	x, held := blocks.RunEncoderHolding(t, m.a, len(s.layers), x, besides, func(t *step.Tape, i int, x step.T) step.T {
		l, n := &s.layers[i], t.Shape.Tokens
		attended, probabilities := s.attend(t, t.Hold(x), l.selfNorm, &l.self, step.NoTensor,
			lookup{queries: n, keys: n, mask: mask}, step.NoTensor)
		y := s.bounded(t, s.feedForward(t, l, attended))
		if returns {
			t.AlsoReturns(probabilities)
		} else {
			t.Drop(probabilities)
		}
		return y
	})
	x = s.normed(t, x)
	t.Drop(words, positions, held)
	if mask != nil {
		t.Drop(*mask)
	}
	return x
}

// decode is BartDecoder. Its own tokens are never padding: the mask is made of ones.
func (m *bart) decode(t *step.Tape, ids, encoded step.T) step.T {
	s, n := &m.decoder, t.Shape.Target
	t.In(step.PartEmbedding)
	words := t.NumberedEmbedding(ids, s.words, step.LabelEmbedding)
	order, places := t.Input(n, step.I64), step.NoTensor
	if t.Recipe.Software.Has(blocks.OffsetsPositions) {
		places = t.Input(n, step.I64)
		t.Drop(order)
		order = step.NoTensor
	}
	ones := t.Input(t.Shape.Batch*n, step.F32)
	mask := m.causal(t, n, words.Dtype())
	if !m.own.normFirst { // mBART names its mask otherwise
		t.Drop(ones)
		ones = step.NoTensor
	}
	crossed := m.bidirectional(t, n, words.Dtype())
	shifted := t.Input(n, step.I64)
	positions := t.Embedding(shifted, s.positions, step.LabelPositions)
	t.Drop(shifted)
	if m.own.normFirst {
		t.Drop(places)
		places = step.NoTensor
	}
	x := s.embedded(t, words, positions)
	positional, keyword := []step.T{x, step.NoTensor, encoded}, step.NoTensor
	if mask != nil {
		positional[1] = *mask
	}
	if crossed != nil {
		keyword = *crossed
	}
	layer := func(t *step.Tape, l *bartLayer, x, encoded step.T) step.T {
		x, own := s.attend(t, x, l.selfNorm, &l.self, step.NoTensor,
			lookup{queries: n, keys: n, mask: mask, causal: true},
			step.NoTensor)
		before := own
		if !t.Recipe.Software.Has(interfacesBART) { // each has a variable of its own
			before = step.NoTensor
		} else {
			own = step.NoTensor
		}
		y, probabilities := s.attend(t, x, l.crossNorm, &l.cross, encoded,
			lookup{queries: n, keys: t.Shape.Tokens, mask: crossed}, before)
		z := s.feedForward(t, l, y)
		t.Drop(probabilities, own)
		return z
	}
	for i := range s.layers {
		unit := (s.first + i) / int(m.a.UnitLayers())
		x = t.Blocks(int32(unit), positional, func(t *step.Tape, in []step.T) []step.T {
			return []step.T{layer(t, &s.layers[i], t.Hold(in[0]), in[2])}
		}, keyword, order)[0]
		t.Drop(positional[0])
		positional = []step.T{x, positional[1], encoded}
	}
	x = s.normed(t, x)
	t.Drop(words, order, places, positions, ones)
	for _, gone := range [...]*step.T{mask, crossed} {
		if gone != nil {
			t.Drop(*gone)
		}
	}
	return x
}

// bidirectional is the mask of the batch's tokens for so many queries: before transformers 5, for eager attention
// always an additive one.
// Source: transformers/models/bart/modeling_bart.py (_update_full_mask, _update_cross_attn_mask), 4.57.
func (m *bart) bidirectional(t *step.Tape, queries int64, d step.DType) *step.T {
	if t.Recipe.Software.Has(interfacesBART) {
		return blocks.CrossedMask(t, queries, d)
	}
	if t.Recipe.Attention == step.AttentionEager {
		return blocks.ExpandedMaskOf(t, queries, d)
	}
	lookAtOnes(t, t.Shape.N())
	if !t.Recipe.ExplicitMask {
		return nil
	}
	return blocks.ExpandedMaskOf(t, queries, d)
}

// causal is the mask of the decoder's n tokens, none of which is padding.
// Source: transformers/models/bart/modeling_bart.py (_update_causal_mask), 4.57.
func (m *bart) causal(t *step.Tape, n int64, d step.DType) *step.T {
	if t.Recipe.Software.Has(interfacesBART) {
		return blocks.MaskOf(t, blocks.TokensOfMask{Count: n}, d, true)
	}
	if t.Recipe.Attention != step.AttentionEager {
		lookAtOnes(t, t.Shape.Batch*n)
		return nil
	}
	mask := blocks.AdditiveTriangleOf(t, n, d, step.F32) // the ones are float32
	return &mask
}

// lookAtOnes asks whether all of so many entries are one.
func lookAtOnes(t *step.Tape, entries int64) {
	ones, all := t.Input(entries, step.Bool), t.Input(1, step.Bool)
	t.Drop(all, ones)
}

// embedded is dropout(norm(words + positions)).
func (s *bartStack) embedded(t *step.Tape, words, positions step.T) step.T {
	sum := t.Add(words, positions, step.LabelEmbedding)
	normed := s.norm.Layer(t, sum)
	t.Drop(sum)
	x := t.DropoutFunction(normed, s.m.a.EmbeddingDropout)
	t.Drop(normed)
	return x
}

// normed ends the layers with mBART's last norm. It takes over x.
func (s *bartStack) normed(t *step.Tape, x step.T) step.T {
	t.EndLayers()
	if !s.m.own.normFirst {
		return x
	}
	t.In(step.PartNorm)
	y := s.final.Layer(t, x)
	t.Drop(x)
	return y
}

// around is x + dropout(run(x)) with the norm n before or behind. It takes over x; run takes over its input.
func (s *bartStack) around(t *step.Tape, x step.T, n arch.Norm, run func(h step.T) step.T) step.T {
	h := t.Hold(x)
	if s.m.own.normFirst {
		t.In(step.PartNorm)
		t.Drop(h)
		h = n.Layer(t, x)
	}
	out := run(h)
	t.In(step.PartNorm)
	dropped := t.DropoutFunction(out, s.m.a.ResidualDropout)
	t.Drop(out)
	y := t.Add(x, dropped, step.LabelResidual)
	t.Drop(dropped)
	if !s.m.own.normFirst {
		normed := n.Layer(t, y)
		t.Drop(y)
		y = normed
	}
	t.Drop(x)
	return y
}

// bounded is what an encoder layer does in float16: mBART's bounds its output, BART's looks whether it has to. It takes
// over x. Source: transformers/models/bart/modeling_bart.py (BartEncoderLayer.forward),
// models/mbart/modeling_mbart.py, 4.57.6 and 5.23.0.
func (s *bartStack) bounded(t *step.Tape, x step.T) step.T {
	switch {
	case x.Dtype() != step.F16:
		return x
	case s.m.own.normFirst:
		y := t.ClampBetween(x)
		t.Drop(x)
		return y
	}
	t.LookForInfinities(x, !t.Recipe.Software.Has(blocks.OffsetsPositions))
	return x
}

// feedForward is fc2(dropout(activation(fc1(x)))) and what is around it.
func (s *bartStack) feedForward(t *step.Tape, l *bartLayer, x step.T) step.T {
	return s.around(t, x, l.finalNorm, func(h step.T) step.T {
		t.In(step.PartMLP)
		up := l.fc1.Forward(t, h)
		act := arch.Activation(t, s.m.a.Activation, up)
		t.Drop(up, h)
		dropped := t.DropoutFunction(act, s.m.own.activationDropout)
		t.Drop(act)
		down := l.fc2.Forward(t, dropped)
		t.Drop(dropped)
		return down
	})
}

// attend is BartAttention and what is around it; encoded is where keys and values come from, NoTensor for x itself. It
// also returns the probabilities where they are formed, in the variable of those before, which it takes over.
func (s *bartStack) attend(t *step.Tape, x step.T, n arch.Norm, at *bartAttention, encoded step.T,
	to lookup, before step.T) (y, probabilities step.T) {
	y = s.around(t, x, n, func(h step.T) step.T {
		source := encoded
		if source == step.NoTensor {
			source = h
		}
		var out step.T
		out, probabilities = s.attention(t, at, h, source, to)
		t.Drop(before, h)
		return out
	})
	return y, probabilities
}

// attention is BartAttention.forward.
func (s *bartStack) attention(t *step.Tape, at *bartAttention, x, source step.T,
	to lookup) (out, probabilities step.T) {
	t.In(step.PartAttention)
	h := s.heads
	h.Queries, h.Keys, h.Bidirectional = to.queries, to.keys, !to.causal
	copiesQV, copiesK := t.CopiesEncoderGradient(h, to.mask != nil)
	q := t.Heads(at.q.Forward(t, x), copiesQV)
	k := at.k.Keys(t, source, copiesK)
	v := t.Heads(at.v.Forward(t, source), copiesQV)
	var context step.T
	probabilities = step.NoTensor
	if t.Recipe.Attention == step.AttentionEager {
		context, probabilities = t.ReassignedAttention(q, k, v, h, to.mask, s.m.a.AttentionDropout)
	} else {
		context = t.TokensFirst(t.SDPA(q, k, v, h, to.mask, s.m.a.AttentionDropout), h, to.mask != nil)
	}
	out = at.out.Forward(t, context)
	t.Drop(context, q, k, v)
	return out, probabilities
}
