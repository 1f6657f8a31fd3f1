package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Batch is input_features, in the type of the weights that they meet unconverted, and labels.
func (m *whisper) Batch(t *step.Tape) []step.T {
	features := step.F32
	if !t.Recipe.Autocast {
		features = t.Recipe.Stored
	}
	b := t.Shape.Batch
	return []step.T{t.Input(b*m.own.bins*2*m.a.FixedTokens, features), t.Input(b*t.Shape.Target, step.I64)}
}

func (m *whisper) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	features, labels := batch[0], batch[1]
	m.decoder.cache = nil
	shifted := shiftRight(t)
	encoded := m.encode(t, features)
	decoded := m.decode(t, shifted, encoded)
	logits := t.Head(decoded, m.head, step.NoWeight)
	loss := t.CrossEntropy(logits, labels)
	t.Drop(decoded, shifted)
	return loss, append([]step.T{logits, t.Hold(loss), encoded}, m.decoder.cache...)
}

// encode is WhisperEncoder: two convolutions, of which the second halves the frames, and the layers.
func (m *whisper) encode(t *step.Tape, features step.T) step.T {
	frames, s := m.a.FixedTokens, &m.encoder
	t.EndLayers()
	t.In(step.PartEmbedding)
	first := t.TowerInput(t.Convolution(features, m.conv1.W, m.conv1.B, 2*frames, false))
	act := t.GELU(first)
	t.Drop(first)
	second := t.Convolution(act, m.conv2.W, m.conv2.B, frames, s.transpose &&
		t.Parameter(m.sinusoids).Dtype() != step.F16)
	embedded := t.GELU(second)
	t.Drop(second, act)
	places := t.Input(frames, step.I64)
	sinusoids := t.Embedding(places, m.sinusoids, step.LabelPositions)
	sum := t.Add(embedded, sinusoids, step.LabelEmbedding)
	t.Drop(sinusoids)
	x := t.DropoutFunction(sum, m.a.EmbeddingDropout)
	t.Drop(sum)
	x, probabilities := blocks.RunEncoderHolding(t, m.a, len(s.layers), x, step.Besides{}, s.encoderLayer)
	y := s.normed(t, s.final, x)
	t.Drop(x, probabilities, embedded, places)
	return y
}

// decode is WhisperDecoder.
func (m *whisper) decode(t *step.Tape, ids, encoded step.T) step.T {
	s, n := &m.decoder, t.Shape.Target
	t.In(step.PartEmbedding)
	words := t.Embedding(ids, m.words, step.LabelEmbedding)
	order := blocks.PositionNumbersOf(t, n)
	places := t.Input(t.Shape.Batch*n, step.I64)
	if t.Recipe.Software.Has(blocks.OffsetsPositions) {
		t.Drop(order)
		order = step.NoTensor
	}
	positions := t.IndexRows(m.positions, places, step.LabelPositions)
	sum := t.Add(words, positions, step.LabelEmbedding)
	x := t.DropoutFunction(sum, m.a.EmbeddingDropout)
	t.Drop(sum)
	caches := m.a.UseCache && (t.Recipe.UseCache || !t.Recipe.Software.Has(blocks.DropsCacheFirst))
	s.mask = blocks.DecoderOnlyMask(t, !caches, words.Dtype())
	besides := step.Besides{Captured: []step.T{encoded, order}}
	if s.mask != nil {
		besides.Captured = append(besides.Captured, *s.mask)
	}
	for i := range s.layers {
		x = t.Layer(int32((len(m.encoder.layers)+i)/int(m.a.UnitLayers())), x, func(t *step.Tape, x step.T) step.T {
			return s.decoderLayer(t, i, x, encoded)
		}, besides)
	}
	t.EndLayers()
	y := s.normed(t, s.final, x)
	t.Drop(x, words, order, places, positions)
	if s.mask != nil {
		t.Drop(*s.mask)
	}
	return y
}

// encoderLayer is WhisperEncoderLayer.
func (s *whisperStack) encoderLayer(t *step.Tape, i int, x step.T) step.T {
	l, frames := &s.layers[i], s.m.a.FixedTokens
	h := s.normed(t, l.selfNorm, x)
	out, probabilities := s.attention(t, &l.self, h, h, lookup{queries: frames, keys: frames})
	t.Drop(h)
	middle := s.residual(t, x, out)
	y := s.feedForward(t, l, middle)
	if s.clamps(y) {
		clamped := t.ClampBetween(y)
		t.Drop(y)
		y = clamped
	}
	t.Drop(middle)
	if probabilities != step.NoTensor {
		t.AlsoReturns(probabilities)
	}
	return y
}

// DecoderLayer is WhisperDecoderLayer.
func (s *whisperStack) decoderLayer(t *step.Tape, i int, x, encoded step.T) step.T {
	l, n := &s.layers[i], t.Shape.Target
	h := s.normed(t, l.selfNorm, x)
	out, own := s.attention(t, &l.self, h, h, lookup{queries: n, keys: n, mask: s.mask, causal: true})
	t.Drop(h)
	middle := s.residual(t, x, out)
	h = s.normed(t, l.crossNorm, middle)
	out, crossed := s.attention(t, &l.cross, h, encoded, lookup{queries: n, keys: s.m.a.FixedTokens})
	t.Drop(h)
	crossedMiddle := s.residual(t, middle, out)
	t.Drop(middle)
	y := s.feedForward(t, l, crossedMiddle)
	t.Drop(crossedMiddle, own, crossed)
	return y
}

// clamps says whether the encoder keeps its results from overflowing, which makes the gradients of the residual stream
// transposed views as well.
func (s *whisperStack) clamps(x step.T) bool { return !s.decodes && x.Dtype() == step.F16 }

func (s *whisperStack) normed(t *step.Tape, n arch.Norm, x step.T) step.T {
	t.In(step.PartNorm)
	if s.transpose {
		return t.TransposedLayerNorm(x, n.W, n.B)
	}
	return n.Layer(t, x)
}

// residual is x + dropout(out). It takes over out.
func (s *whisperStack) residual(t *step.Tape, x, out step.T) step.T {
	t.In(step.PartNorm)
	out = t.Heads(out, s.transpose && s.clamps(x))
	dropped := t.DropoutFunction(out, s.m.a.ResidualDropout)
	t.Drop(out)
	y := t.Add(x, dropped, step.LabelResidual)
	t.Drop(dropped)
	return y
}

// feedForward is x + dropout(fc2(dropout(activation(fc1(norm(x)))))).
func (s *whisperStack) feedForward(t *step.Tape, l *whisperLayer, x step.T) step.T {
	h := s.normed(t, l.final, x)
	t.In(step.PartMLP)
	up := l.fc1.Forward(t, h)
	act := arch.Activation(t, s.m.a.Activation, up)
	t.Drop(up, h)
	dropped := t.DropoutFunction(act, s.m.own.activationDropout)
	t.Drop(act)
	down := l.fc2.Forward(t, dropped)
	t.Drop(dropped)
	return s.residual(t, x, down)
}

// lookup is which tokens an attention looks from and at.
type lookup struct {
	queries, keys int64
	mask          *step.T
	causal        bool
}

// laysKeysOutFirst lays Whisper's keys out by head before it computes the values.
var laysKeysOutFirst = release.Declare("lays-keys-out-first", release.Change{
	Library: "transformers", After: "4.57", From: "5.23",
	What:   "Whisper's attention in transformers 5.23 lays keys out by head before it computes values",
	Source: "models/whisper/modeling_whisper.py (WhisperAttention), 4.57.6 and 5.23.0",
	Shown:  "traces of Whisper",
})

// attention is WhisperAttention.forward on x with keys and values from source. It returns its output and, where they
// are formed, the probabilities.
func (s *whisperStack) attention(t *step.Tape, at *whisperAttention, x, source step.T,
	to lookup) (out, probabilities step.T) {
	t.In(step.PartAttention)
	h := s.heads
	h.Queries, h.Keys, h.Bidirectional, h.Drops = to.queries, to.keys, !to.causal, s.m.a.AttentionDropout > 0
	copied := to.mask == nil || t.Recipe.Attention == step.AttentionEager
	projected := at.q.Forward(t, x)
	scaled := t.MulScalar(projected, step.LabelLinear)
	t.Drop(projected)
	q := t.Heads(scaled, copied && t.CopiesOutermost(h, to.queries))
	q = t.Outermost(q, to.queries, h.Query)
	k := t.Heads(at.k.Forward(t, source), copied && t.CopiesOutermostKeys(h, to.keys))
	values := func() step.T { return t.Heads(at.v.Forward(t, source), copied && t.CopiesOutermost(h, to.keys)) }
	var v step.T
	if t.Recipe.Software.Has(laysKeysOutFirst) {
		k = t.Outermost(k, to.keys, h.Query)
		v = values()
	} else {
		v = values()
		k = t.Outermost(k, to.keys, h.Query)
	}
	v = t.Outermost(v, to.keys, h.Query)
	if s.decodes {
		k, v = blocks.AppendKV(t, &s.cache, k, v)
	}
	var context step.T
	probabilities = step.NoTensor
	if t.Recipe.Attention == step.AttentionEager {
		context, probabilities = t.WrittenAttention(q, k, v, h, to.mask, s.m.a.AttentionDropout)
	} else {
		context = t.TokensFirst(t.SDPA(q, k, v, h, to.mask, s.m.a.AttentionDropout), h, to.mask != nil)
	}
	out = at.out.Forward(t, context)
	t.Drop(context, q, k, v)
	return out, probabilities
}
