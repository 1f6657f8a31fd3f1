package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// tokens is the length of the stack's own sequence.
func (s *t5Stack) tokens(t *step.Tape) int64 {
	if s.decodes {
		return t.Shape.Target
	}
	return t.Shape.Tokens
}

// Forward is T5Stack.forward on ids; encoded is what the encoder returned, for the decoder.
func (s *t5Stack) Forward(t *step.Tape, ids, encoded step.T) step.T {
	a := s.M.A
	s.cache = nil
	t.EndLayers()
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, s.M.Shared, step.LabelEmbedding)
	mask, crossMask, held := s.masks(t, embedded.Dtype())
	held = append(held, embedded)
	t.In(step.PartEmbedding)
	x := t.Dropout(embedded, a.EmbeddingDropout)

	state := []step.T{x, mask}
	for i := range s.blocks {
		in := state
		if s.decodes { // the biases stand where the library's positional arguments have them
			in = append([]step.T{state[0], mask}, state[2:]...)
			in = append(in, encoded, crossMask)
		} else if i > 0 {
			in = append([]step.T{state[0], mask}, state[2:]...)
		}
		unit := (s.First + i) / int(a.UnitLayers())
		outs := t.Blocks(int32(unit), in, func(t *step.Tape, in []step.T) []step.T {
			return s.block(t, i, in)
		}, s.cachePosition)
		t.Drop(state[0])
		for _, bias := range state[2:] {
			t.Drop(bias)
		}
		state = append([]step.T{outs[0], mask}, outs[1:]...)
	}
	t.EndLayers()
	t.In(step.PartNorm)
	normed := T5Norm(t, s.final, state[0])
	t.Drop(state[0])
	y := t.Dropout(normed, a.ResidualDropout)
	t.Drop(normed)
	t.Drop(append(held, state[2:]...)...)
	return y
}

// masks are those of the stack's own tokens and of the encoder's, NoTensor for none, and what variables keep with them.
func (s *t5Stack) masks(t *step.Tape, d step.DType) (own, cross step.T, held []step.T) {
	own, cross, s.cachePosition = step.NoTensor, step.NoTensor, step.NoTensor
	if t.Recipe.Software.Has(step.InterfacesT5) {
		t.In(step.PartAttention)
		var given *step.T
		if s.decodes {
			given = blocks.DecoderOnlyMask(t, false, d) // without positions there are no packed sequences to look for
		} else {
			given = blocks.EncoderMask(t, d)
		}
		if given != nil {
			own, held = *given, append(held, *given)
		}
		if !s.decodes {
			return own, cross, held
		}
		if given = blocks.CrossedMask(t, t.Shape.Target, d); given != nil {
			cross, held = *given, append(held, *given)
		}
		return own, cross, held
	}
	s.cachePosition = t.Input(s.tokens(t), step.I64)
	t.In(step.PartAttention)
	held = []step.T{s.cachePosition}
	if !s.decodes {
		own = invertedMask(t, d)
		return own, cross, append(held, own)
	}
	ones := t.Input(t.Shape.Batch*t.Shape.Target, step.F32)
	own, cross = decoderMask(t, d), invertedMask(t, d)
	return own, cross, append(held, ones, own, cross)
}

// invertedMask is (1 - mask) * minimum for a mask over the encoder's tokens.
func invertedMask(t *step.Tape, d step.DType) step.T {
	given := t.Input(t.Shape.N(), d)
	inverted := t.Input(t.Shape.N(), d)
	mask := t.Input(t.Shape.N(), d)
	t.Drop(inverted, given)
	return mask
}

// decoderMask is _update_causal_mask of an all-ones mask in float32.
func decoderMask(t *step.Tape, d step.DType) step.T {
	b, n := t.Shape.Batch, t.Shape.Target
	causal := t.Input(n*n, d)
	if n != 1 {
		upper := t.Input(n*n, d)
		t.Drop(causal)
		causal = upper
	}
	places, later := t.Input(n, step.I64), t.Input(n*n, step.Bool)
	t.Drop(places, later)
	mask := t.Input(b*n*n, d)
	t.Drop(causal)
	sum := t.Input(b*n*n, step.F32)
	padding := t.Input(b*n*n, step.Bool)
	t.Drop(sum)
	filled := t.Input(b*n*n, d)
	t.Drop(filled, padding)
	return mask
}

// block is T5Block.forward. in are the hidden states and their mask, then the position bias where there is one already;
// in the decoder that of the cross attention too, and at the end what the encoder returned and its mask. The results
// are the hidden states and the biases.
func (s *t5Stack) block(t *step.Tape, i int, in []step.T) []step.T {
	l := &s.blocks[i]
	m := s.M
	var bias, crossBias *step.T
	if i > 0 {
		bias = &in[2]
	}
	limit := noLimit
	x, selfBias, weights := m.attend(t, in[0], l.selfNorm, func(h step.T) (step.T, step.T, step.T) {
		return s.attention(t, &l.self, h, h, attended{mask: in[1], bias: bias, keys: s.tokens(t)})
	})
	clamped := m.clamp(t, x, &limit)
	returned := s.keeps(t, nil, x)
	x = clamped
	outs := []step.T{x, selfBias}
	if s.decodes {
		if i > 0 {
			crossBias = &in[3]
		}
		encoded, crossMask := in[len(in)-2], in[len(in)-1]
		position := step.NoTensor
		if !t.Recipe.Software.Has(step.InterfacesT5) {
			position = t.Input(1, step.I64) // cache_position[-1] + 1
		}
		y, bias, crossWeights := m.attend(t, x, l.crossNorm, func(h step.T) (step.T, step.T, step.T) {
			return s.attention(t, &l.cross, h, encoded, attended{mask: crossMask, bias: crossBias, keys: t.Shape.Tokens,
				cross: true})
		})
		t.Drop(position, weights)
		weights = crossWeights
		t.Drop(x)
		clamped := m.clamp(t, y, &limit)
		returned = s.keeps(t, returned, y)
		x = clamped
		outs = append(outs, bias)
	}
	y := m.feedForward(t, l, x)
	t.Drop(x)
	outs[0] = m.clamp(t, y, &limit)
	t.Drop(y)
	t.Drop(append(returned, weights)...)
	limit.drop(t)
	return outs
}

// keeps adds x, which a layer returned, to what the block keeps to its end; in later releases its variable is assigned
// anew.
func (s *t5Stack) keeps(t *step.Tape, returned []step.T, x step.T) []step.T {
	if t.Recipe.Software.Has(step.InterfacesT5) {
		t.Drop(x)
		return returned
	}
	return append(returned, x)
}

// clampLimit is the variable clamp_value, once there is one.
type clampLimit struct {
	x   step.T
	set bool
}

var noLimit clampLimit

func (c *clampLimit) drop(t *step.Tape) {
	if c.set {
		t.Drop(c.x)
	}
}

// clamp keeps float16 from overflowing; it leaves other types alone.
func (m *T5) clamp(t *step.Tape, x step.T, limit *clampLimit) step.T {
	if x.Dtype() != step.F16 {
		return t.Hold(x)
	}
	value := t.FiniteLimit(x)
	limit.drop(t)
	*limit = clampLimit{value, true}
	return t.Clamp(x, value)
}

// attend is T5LayerSelfAttention or T5LayerCrossAttention: x + dropout(attention(norm(x))), the position bias, and the
// probabilities where they are returned.
func (m *T5) attend(t *step.Tape, x step.T, n arch.Norm,
	attention func(step.T) (y, bias, weights step.T)) (y, bias, weights step.T) {
	t.In(step.PartNorm)
	h := T5Norm(t, n, x)
	t.In(step.PartAttention)
	out, bias, weights := attention(h)
	y = m.residual(t, x, out)
	t.Drop(h, out)
	return y, bias, weights
}

// feedForward is T5LayerFF: x + dropout(mlp(norm(x))).
func (m *T5) feedForward(t *step.Tape, l *t5Block, x step.T) step.T {
	t.In(step.PartNorm)
	h := T5Norm(t, l.mlpNorm, x)
	t.In(step.PartMLP)
	out := m.mlp(t, l, h)
	t.Drop(h) // the variable is assigned anew
	y := m.residual(t, x, out)
	t.Drop(out)
	return y
}

// residual is x + dropout(out).
func (m *T5) residual(t *step.Tape, x, out step.T) step.T {
	t.In(step.PartNorm)
	dropped := t.Dropout(out, m.A.ResidualDropout)
	y := t.Add(x, dropped, step.LabelResidual)
	t.Drop(dropped)
	return y
}

// mlp is T5DenseActDense or T5DenseGatedActDense: the input of wo is brought to the type of its weight first, which
// under autocast means float32 and back.
func (m *T5) mlp(t *step.Tape, l *t5Block, x step.T) step.T {
	var y, gate, up step.T
	if m.Own.gated {
		wide := l.gate.Forward(t, x)
		gate = arch.Activation(t, m.A.Activation, wide)
		t.Drop(wide)
		up = l.up.Forward(t, x)
		y = t.Mul(gate, up, false, step.LabelActivation)
	} else {
		wide := l.up.Forward(t, x)
		y = arch.Activation(t, m.A.Activation, wide)
		t.Drop(wide)
	}
	dropped := t.Dropout(y, m.A.ResidualDropout)
	t.Drop(y)
	stored := t.Cast(dropped, t.Recipe.Stored, step.LabelCast)
	t.Drop(dropped)
	out := l.down.Forward(t, stored)
	t.Drop(stored)
	if m.Own.gated {
		t.Drop(gate, up)
	}
	return out
}

// T5Norm is T5LayerNorm as transformers writes it; apex's fused kernel would take its place where that is installed.
func T5Norm(t *step.Tape, n arch.Norm, x step.T) step.T {
	x32 := t.Float(x, step.LabelNormScaled)
	square := t.Pow(x32, step.LabelElementwise)
	t.Drop(x32)
	variance := t.MeanRows(square, n.W.Rows, step.LabelNormStatistics)
	t.Drop(square)
	eps := t.AddScalar(variance, step.LabelNormStatistics)
	rstd := t.Rsqrt(eps, step.LabelNormStatistics)
	t.Drop(eps)
	scaled := t.Mul(x, rstd, true, step.LabelNormScaled)
	t.Drop(rstd)
	if w := t.Parameter(n.W); w.Dtype().Half() {
		back := t.Cast(scaled, w.Dtype(), step.LabelNormScaled)
		t.Drop(scaled)
		scaled = back
	}
	y := t.Mul(t.Parameter(n.W), scaled, false, step.LabelNormOutput)
	t.Drop(scaled, variance)
	return y
}
