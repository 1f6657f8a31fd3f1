package rewritten

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// torchtune is torchtune's own Llama, which its Mistral is, too: norms and rotary positions in float32, keys and values
// repeated for all query heads, and a loss outside the model, which may be of the logits of one chunk after another.
// Sources: torchtune/modules/transformer.py (TransformerDecoder, TransformerSelfAttentionLayer), attention.py,
// rms_norm.py, feed_forward.py, models/llama3_2/_component_builders.py, and the _loss_step of
// recipes/full_finetune_single_device.py, 0.6.1.
type torchtune struct {
	a      *arch.Architecture
	embed  step.Weight
	layers []blocks.DecoderLayer
	final  arch.Norm
	head   arch.Linear
	// packed says that several samples share a sequence, of which a mask of blocks and positions tell.
	packed bool
}

// WriteAsTorchtune makes a a model of torchtune's, where that has one like it.
func WriteAsTorchtune(a *arch.Architecture) {
	if a.Described != &decoders.LlamaFamily && a.Described != &decoders.MistralFamily ||
		a.Class != arch.ClassCausalLM || a.QKVBias || a.OutBias ||
		a.MLPBias || a.QKNorm || a.Activation != "silu" || a.AttentionDropout > 0 || a.Scored {
		return
	}
	a.Written, a.Castless = torchtuneLibrary{}, true
	a.SlidingWindow = 0 // its Mistral has none
	a.UseCache, a.Reentrant = false, false
}

// Torchtune says whether the model is written as torchtune writes it.
func Torchtune(a *arch.Architecture) bool {
	_, is := a.Written.(torchtuneLibrary)
	return is
}

type torchtuneLibrary struct{}

// Whole is a: its models are not cut.
func (torchtuneLibrary) Whole(a *arch.Architecture) *arch.Architecture { return a }

// Modules declares TransformerDecoder.
func (torchtuneLibrary) Modules(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	m := &torchtune{a: a, layers: make([]blocks.DecoderLayer, b.Recorded)}
	m.embed = b.Embedding("tok_embeddings", a.Vocabulary, d)
	b.Stack(func(i int64) {
		l := &m.layers[i]
		l.Q, l.K = b.Linear("self_attn.q_proj", d, q, false), b.Linear("self_attn.k_proj", d, kv, false)
		l.V, l.Out = b.Linear("self_attn.v_proj", d, kv, false), b.Linear("self_attn.o_proj", q, d, false)
		l.Gate, l.Down = b.Linear("mlp.gate_proj", d, a.FFN, false), b.Linear("mlp.down_proj", a.FFN, d, false)
		l.Up = b.Linear("mlp.up_proj", d, a.FFN, false)
		l.InputNorm, l.PostAttentionNorm = b.Norm("sa_norm", d, false), b.Norm("mlp_norm", d, false)
	})
	m.final = b.Norm("norm", d, false)
	b.Buffer("theta", a.HeadDim/2, step.F32)
	b.Buffer("cache", a.MaxPositions*a.HeadDim, step.F32)
	m.head = b.Head("lm_head", d, false)
	return m
}

// Batch is tokens and labels, and of packed sequences the tokens' positions; their mask tells of blocks of 128 tokens
// and is small.
func (m *torchtune) Batch(t *step.Tape) []step.T {
	n := t.Shape.N()
	batch := []step.T{t.Input(n, step.I64), t.Input(n, step.I64)}
	if m.packed = t.Recipe.ExplicitMask; m.packed {
		batch = append(batch, t.Input(n, step.I64))
	}
	return batch
}

func (m *torchtune) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	n := t.Shape.N()
	t.In(step.PartEmbedding)
	counted := t.Input(1, step.I64) // of the tokens with a label
	t.HoldThroughBackward(batch[2:]...)
	t.HoldThroughBackward(batch[0])
	x := t.Embedding(batch[0], m.embed, step.LabelEmbedding)
	x = blocks.RunLayers(t, m.a, len(m.layers), x, step.Besides{}, m.layer)
	t.In(step.PartNorm)
	normed := t.TorchtuneRMSNorm(x, m.final.W)
	if t.Recipe.Loss.Kind == step.LossChunkedWhole {
		logits := t.ChunkedOutput(normed, m.head.Forward)
		t.Drop(x)
		shifted := t.Input(n, step.I64)
		loss := t.ChunkedOutputLoss(logits, shifted)
		t.Drop(shifted, counted)
		return loss, []step.T{t.Hold(loss)}
	}
	logits := m.head.Logits(t, normed)
	t.Drop(x, normed)
	wide := t.FloatLogits(logits)
	t.Drop(logits)
	shifted := t.Input(n, step.I64)
	loss := t.CrossEntropy(wide, shifted)
	t.Drop(shifted)
	scaled := t.MulScalar(loss, step.LabelLoss)
	t.Drop(loss, counted)
	return scaled, []step.T{wide, t.Hold(scaled)}
}

func (m *torchtune) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	if t.CompilesBlocks() {
		return t.CompiledBlock(x, &step.LlamaBlock{AttentionNorm: l.InputNorm.W, Query: l.Q.W, Key: l.K.W, Value: l.V.W,
			Out: l.Out.W, MLPNorm: l.PostAttentionNorm.W, Gate: l.Gate.W, Up: l.Up.W, Down: l.Down.W,
			Heads: m.a.Geometry(), TurnsPairs: true})
	}
	t.In(step.PartNorm)
	normed := t.TorchtuneRMSNorm(x, l.InputNorm.W)
	t.In(step.PartAttention)
	attended := m.attention(t, l, normed)
	t.In(step.PartNorm)
	middle := t.Add(attended, x, step.LabelResidual)
	t.Drop(normed)
	normed = t.TorchtuneRMSNorm(middle, l.PostAttentionNorm.W)
	t.In(step.PartMLP)
	gate := l.Gate.Forward(t, normed)
	active := t.SiLU(gate)
	up := l.Up.Forward(t, normed)
	product := t.Mul(active, up, false, step.LabelActivation)
	t.Drop(active, up, gate)
	fed := l.Down.Forward(t, product)
	t.Drop(product, normed)
	t.In(step.PartNorm)
	y := t.Add(middle, fed, step.LabelResidual)
	t.Drop(middle, attended, fed)
	return y
}

func (m *torchtune) attention(t *step.Tape, l *blocks.DecoderLayer, x step.T) step.T {
	heads := m.a.Geometry()
	q := l.Q.Forward(t, x)
	turned := t.TurnPairs(q, heads.Dim, m.packed)
	t.Drop(q)
	k := l.K.Forward(t, x)
	v := l.V.Forward(t, x)
	keys := t.TurnPairs(k, heads.Dim, m.packed)
	t.Drop(k)
	if heads.KV < heads.Query {
		repeated := t.RepeatKV(keys, heads)
		t.Drop(keys)
		keys = repeated
		v = t.Heads(v, heads.KV > 1)
		repeated = t.RepeatKV(v, heads)
		t.Drop(v)
		v = repeated
		heads.KV = heads.Query
	}
	var y step.T
	if m.packed {
		y = t.PackedAttention(turned, keys, v, heads)
	} else {
		y = t.TokensFirst(t.SDPA(turned, keys, v, heads, nil, m.a.AttentionDropout), heads, false)
	}
	out := l.Out.Forward(t, y)
	t.Drop(turned, keys, v, y)
	return out
}
