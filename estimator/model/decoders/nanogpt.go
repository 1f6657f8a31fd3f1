package decoders

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// nanoGPT is karpathy/nanoGPT's model.py: learned positions, one matrix for q, k and v,
// nn.GELU, tied head, cross-entropy inside the model and under autocast.
type nanoGPT struct {
	a                *arch.Architecture
	embed, positions step.Weight
	layers           []nanoBlock
	final            arch.Norm
}

type nanoBlock struct {
	ln1, ln2           arch.Norm
	qkv, out, up, down arch.Linear
}

var nanoGPTFamily = arch.Family{
	Keys:  arch.FieldNames{Heads: "n_head", Hidden: "n_embd", KV: "n_head", Dim: "n_embd"},
	Build: buildNanoGPT, TrainPy: true,
}

func buildNanoGPT(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &nanoGPT{a: a, layers: make([]nanoBlock, b.Recorded)}
	m.embed, m.positions = b.Embedding("wte", a.Vocabulary, d), b.Embedding("wpe", a.MaxPositions, d)
	b.Stack(func(i int64) {
		l := &m.layers[i]
		l.ln1 = b.Norm("ln_1", d, a.NormBias)
		l.qkv, l.out = b.Linear("attn.c_attn", d, 3*d, a.QKVBias), b.Linear("attn.c_proj", d, d, a.OutBias)
		if a.BufferSide > 0 {
			b.Buffer("attn.bias", a.BufferSide*a.BufferSide, b.Dtype)
		}
		l.ln2 = b.Norm("ln_2", d, a.NormBias)
		l.up, l.down = b.Linear("mlp.c_fc", d, a.FFN, a.MLPBias), b.Linear("mlp.c_proj", a.FFN, d, a.MLPBias)
	})
	m.final = b.Norm("ln_f", d, a.NormBias)
	return m
}

// Batch is X and Y.
func (m *nanoGPT) Batch(t *step.Tape) []step.T {
	return []step.T{t.Input(t.Shape.N(), step.I64), t.Input(t.Shape.N(), step.I64)}
}

func (m *nanoGPT) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, targets := batch[0], batch[1]
	t.In(step.PartEmbedding)
	positions := t.Input(t.Shape.Tokens, step.I64)
	tokens := t.Embedding(ids, m.embed, step.LabelEmbedding)
	learned := t.Embedding(positions, m.positions, step.LabelPositions)
	sum := t.AddUnbatched(tokens, learned, step.LabelEmbedding)
	t.Drop(tokens, learned)
	x := t.Dropout(sum, m.a.EmbeddingDropout)
	t.Drop(sum)

	x = blocks.RunLayers(t, m.a, len(m.layers), x, step.Besides{}, m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x)
	logits := t.Head(normed, m.embed, step.NoWeight)
	loss := t.CrossEntropy(logits, targets)
	t.Drop(normed, positions)
	return loss, []step.T{logits}
}

// block is x + attn(ln_1(x)), then x + mlp(ln_2(x)).
func (m *nanoGPT) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.ln1.Layer(t, x)
	t.In(step.PartAttention)
	attn := m.attention(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attn, step.LabelResidual)
	t.Drop(attn)

	h = l.ln2.Layer(t, middle)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := t.Add(middle, mlp, step.LabelResidual)
	t.Drop(mlp, middle)
	return y
}

func (m *nanoGPT) attention(t *step.Tape, l *nanoBlock, x step.T) step.T {
	qkv := l.qkv.Forward(t, x)
	q, k, v := t.Split3(qkv)
	t.Drop(qkv)
	var y, probabilities step.T
	eager, several := t.Recipe.Attention == step.AttentionEager, m.a.Heads > 1
	if eager {
		k, q, v = t.Heads(k, false), t.Heads(q, several), t.Heads(v, several)
		y, probabilities = t.Eager(step.EagerAttention{Heads: m.a.Geometry(), Dropout: m.a.AttentionDropout,
			Fill: true}, q, k, v)
	} else {
		padded, written := several && t.PadsHeads(m.a.Geometry(), false), several && t.WritesOut(m.a.Geometry(), false)
		k, q, v = t.Heads(k, padded), t.Heads(q, padded || written), t.Heads(v, padded || written)
		y = t.TokensFirst(t.SDPA(q, k, v, m.a.Geometry(), nil, m.a.AttentionDropout), m.a.Geometry(), false)
	}
	out := l.out.Forward(t, y)
	dropped := t.Dropout(out, m.a.ResidualDropout)
	t.Drop(out, y, q, k, v)
	if eager {
		t.Drop(probabilities)
	}
	return dropped
}

func (m *nanoGPT) mlp(t *step.Tape, l *nanoBlock, x step.T) step.T {
	up := l.up.Forward(t, x)
	act := t.GELU(up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}

func (m *nanoGPT) PlainHead() bool { return true }

// FromNanoGPT is nanoGPT's model in train.py's numbers.
func FromNanoGPT(n arch.NanoGPT, pointer string, errs *invalid.List) arch.Architecture {
	a := arch.Architecture{
		Name: "nanogpt", Family: "nanogpt", Described: &nanoGPTFamily, LearnedPositions: true,
		Layers: n.Layers, Hidden: n.Embedding, Heads: n.Heads, KVHeads: n.Heads, FFN: 4 * n.Embedding,
		Vocabulary: n.Vocabulary, MaxPositions: n.BlockSize, Tied: true, Activation: "gelu",
		NormBias: n.Bias, QKVBias: n.Bias, OutBias: n.Bias, MLPBias: n.Bias,
		EmbeddingDropout: n.Dropout, AttentionDropout: n.Dropout, ResidualDropout: n.Dropout,
	}
	if a.Vocabulary == 0 {
		a.Vocabulary = 50304 // train.py, where the data set has no meta.pkl
	}
	if a.MaxPositions == 0 {
		a.MaxPositions = 1024
	}
	for _, f := range []struct {
		name         string
		value, limit int64
	}{{"n_layer", n.Layers, arch.MaxLayers}, {"n_head", n.Heads, arch.MaxWidth}, {"n_embd", n.Embedding, arch.MaxWidth},
		{"vocab_size", a.Vocabulary, arch.MaxRows}, {"block_size", a.MaxPositions, arch.MaxRows}} {
		if f.value < 1 || f.value > f.limit {
			errs.Add(pointer+"/"+f.name, "out_of_range", "%s is %d; it is from 1 to %d", f.name, f.value, f.limit)
			return a
		}
	}
	if !(n.Dropout >= 0 && n.Dropout < 1) {
		errs.Add(pointer+"/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", n.Dropout)
	}
	a.HeadDim = n.Embedding / n.Heads
	a.Check(pointer, errs, nanoGPTFamily.Keys)
	return a
}
