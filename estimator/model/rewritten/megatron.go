package rewritten

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/model/undescribed"
	"github.com/vramplan/vramplan/estimator/step"
)

// megatron is Megatron-LM's GPTModel, of which a GPU has some layers and a part of every matrix. Sources:
// megatron/core/models/gpt/gpt_model.py, megatron/core/transformer/transformer_layer.py, Megatron-LM 0.14.
type megatron struct {
	a                *arch.Architecture
	cut              *megatronCut
	heads            step.Heads
	embed, positions step.Weight
	layers           []megatronLayer
	final            arch.Norm
	output           step.Weight
}

type megatronLayer struct {
	attentionNorm, forwardNorm arch.Norm
	queryNorm, keyNorm         arch.Norm
	qkv, out, up, down         arch.Linear
}

// megatronCut is what of the model this GPU has.
type megatronCut struct {
	layerNorm, rotary bool
	// tensor GPUs share every matrix; sequence says that they share the tokens between the blocks, too.
	tensor   int64
	sequence bool
	// layers are those of the whole model, chunks those of each of this GPU's stages; nil for all.
	layers      int64
	chunks      []StageOf
	first, last bool
	vocabulary  int64 // padded
}

// dealt is over how many GPUs tokens are dealt out between the blocks.
func (c *megatronCut) dealt() int64 {
	if c.sequence {
		return c.tensor
	}
	return 1
}

// Megatron says whether the model is written as Megatron-LM writes it.
func Megatron(a *arch.Architecture) bool { return megatronOf(a) != nil }

// megatronOf is what this GPU has of a model of Megatron-LM's; nil of others.
func megatronOf(a *arch.Architecture) *megatronCut {
	c, _ := a.Written.(*megatronCut)
	return c
}

// WriteAsMegatron makes a a model of Megatron-LM's, where that has one like it.
func WriteAsMegatron(a *arch.Architecture) {
	c := megatronCut{rotary: a.Rotary, tensor: 1, layers: a.Layers, first: true, last: true, vocabulary: a.Vocabulary}
	switch a.Described {
	case &decoders.GPT2Family:
		c.layerNorm = true
	case &decoders.LlamaFamily, &decoders.MistralFamily, &decoders.Qwen2Family, &decoders.Qwen3Family:
		c.rotary = true
	default:
		own, ok := a.Own.(*undescribed.Block)
		if !ok || own.Parallel || own.PostNorm || own.PlainNorms || own.EmbeddingNorm || own.Norms != 2 ||
			own.Experts != nil || own.HeadBias || own.Position == "alibi" || own.WideQKNorm {
			return
		}
		c.layerNorm, c.rotary = own.LayerNorm, own.Position == "rope"
	}
	head := a.Class == arch.ClassCausalLM || a.Class == arch.ClassLMHead || a.Class == ""
	if !head || a.Decoder > 0 || a.LoRA != nil || len(a.Sliding) > 0 {
		return
	}
	a.Written = &c
	a.UseCache, a.BufferSide = false, 0
}

// MegatronLM is what Megatron-LM's arguments have to say of a beside its sizes, where Megatron-LM has a model like it.
func MegatronLM(a *arch.Architecture) (layerNorm, rotary, ok bool) {
	own := *a
	WriteAsMegatron(&own)
	c := megatronOf(&own)
	if c == nil {
		return false, false, false
	}
	return c.layerNorm, c.rotary, true
}

// CutMegatron leaves of every matrix one of n parts; the vocabulary is padded to a multiple of 128 rows a GPU. Source:
// megatron/training/tokenizer/tokenizer.py (_vocab_size_with_padding), make_vocab_size_divisible_by.
func CutMegatron(a *arch.Architecture, n int64, sequence bool) {
	const rows = 128
	cut := *megatronOf(a)
	cut.tensor, cut.sequence = n, sequence && n > 1
	cut.vocabulary = step.CeilDiv(a.Vocabulary, rows*n) * rows * n
	a.Written = &cut
}

// CutMegatronStages leaves of the model stages of so many layers.
func CutMegatronStages(a *arch.Architecture, chunks []StageOf, first, last bool) {
	cut := *megatronOf(a)
	cut.chunks, cut.first, cut.last = chunks, first, last
	a.Written, a.Layers = &cut, 0
	for _, s := range chunks {
		a.Layers += s.Layers
	}
}

// Whole is the model before it was cut.
func (c *megatronCut) Whole(a *arch.Architecture) *arch.Architecture {
	w, cut := *a, *c
	cut.tensor, cut.chunks, cut.first, cut.last, cut.vocabulary = 1, nil, true, true, a.Vocabulary
	w.Written, w.Layers = &cut, cut.layers
	return &w
}

func (cut *megatronCut) Modules(b *arch.Builder) step.Network {
	a := b.A
	n, d, dim := cut.tensor, a.Hidden, a.HeadDim
	m := &megatron{a: a, cut: cut, layers: make([]megatronLayer, b.Recorded),
		heads: step.Heads{Query: a.Heads / n, KV: max(a.KVHeads/n, 1), Dim: dim, Drops: a.AttentionDropout > 0}}
	if cut.first {
		m.embed = b.Embedding("embedding.word_embeddings", cut.vocabulary/n, d)
		if a.LearnedPositions {
			m.positions = b.Embedding("embedding.position_embeddings", a.MaxPositions, d)
		}
	}
	q, kv, up := m.heads.Width(), m.heads.KVWidth(), a.FFN/n
	if a.Gated {
		up *= 2
	}
	b.Stack(func(i int64) {
		l := &m.layers[i]
		l.attentionNorm = b.Norm("input_layernorm", d, a.NormBias)
		l.qkv = b.Linear("self_attention.linear_qkv", d, q+2*kv, a.QKVBias)
		if a.QKNorm {
			l.queryNorm = b.Norm("self_attention.q_layernorm", dim, a.NormBias)
			l.keyNorm = b.Norm("self_attention.k_layernorm", dim, a.NormBias)
		}
		l.out = b.Linear("self_attention.linear_proj", q, d, a.OutBias)
		l.forwardNorm = b.Norm("pre_mlp_layernorm", d, a.NormBias)
		l.up = b.Linear("mlp.linear_fc1", d, up, a.MLPBias)
		l.down = b.Linear("mlp.linear_fc2", a.FFN/n, d, a.MLPBias)
	})
	if !cut.last {
		return m
	}
	m.final = b.Norm("final_layernorm", d, a.NormBias)
	if m.output = m.embed; !a.Tied || !cut.first { // another stage has its own copy of a tied matrix
		m.output = b.Linear("output_layer", d, cut.vocabulary/n, false).W
	}
	return m
}

// Batch is tokens, labels, the loss mask and the positions.
func (m *megatron) Batch(t *step.Tape) []step.T {
	n := t.Shape.N() * t.MicroBatches()
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.F32), t.Input(n, step.I64)}
}

func (m *megatron) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	logits := m.Run(t, step.Stage{To: len(m.layers), First: true, Last: true}, batch[0])
	return m.Loss(t, logits, batch[1]), []step.T{logits}
}

// Width is that of the residual stream, of which this GPU may have some of the tokens.
func (m *megatron) Width() int64 { return m.a.Hidden / m.cut.dealt() }

// Stages are those that this GPU has of the model.
func (m *megatron) Stages() []step.Stage {
	stages, to := make([]step.Stage, len(m.cut.chunks)), 0
	for i, s := range m.cut.chunks {
		from := to
		to += int(s.Layers)
		stages[i] = step.Stage{From: from, To: to, First: m.cut.first && i == 0,
			Last: m.cut.last && i == len(stages)-1}
	}
	return stages
}

// Run is the forward of a stage.
func (m *megatron) Run(t *step.Tape, s step.Stage, x step.T) step.T {
	t.In(step.PartEmbedding)
	if s.First {
		x = m.embedded(t, x)
	} else {
		x = t.Hold(x)
	}
	unit := int(m.a.UnitLayers())
	for i := s.From; i < s.To; i++ {
		x = t.Layer(int32(i/unit), x, func(t *step.Tape, x step.T) step.T { return m.layer(t, i, x) }, step.Besides{})
	}
	t.EndLayers()
	if !s.Last {
		return x
	}
	t.In(step.PartNorm)
	normed := m.norm(t, m.final, x)
	t.Drop(x)
	logits := t.ParallelLinear(normed, m.output, step.NoWeight, m.cut.dealt(), 1, step.LabelLogits)
	t.Drop(normed)
	return logits
}

// embedded is LanguageModelEmbedding: sums with the positions, tokens laid out before sequences, and this GPU's.
func (m *megatron) embedded(t *step.Tape, ids step.T) step.T {
	x := t.Embedding(ids, m.embed, step.LabelEmbedding)
	if m.a.LearnedPositions {
		positions := t.Input(t.Shape.N(), step.I64)
		learned := t.Embedding(positions, m.positions, step.LabelPositions)
		sum := t.Add(x, learned, step.LabelEmbedding)
		t.Drop(x, learned, positions)
		x = sum
	}
	turned := t.Contiguous(x)
	t.Drop(x)
	if n := m.cut.dealt(); n > 1 {
		own := t.DealTokens(turned, n)
		t.Drop(turned)
		turned = own
	}
	y := t.Dropout(turned, m.a.EmbeddingDropout)
	t.Drop(turned)
	return y
}

// Loss is the mean over the tokens.
func (m *megatron) Loss(t *step.Tape, logits, targets step.T) step.T {
	wide := t.FloatLogits(logits)
	loss := t.ParallelCrossEntropy(wide, targets)
	t.Drop(wide)
	return loss
}

func (m *megatron) norm(t *step.Tape, n arch.Norm, x step.T) step.T {
	if m.cut.layerNorm {
		return t.LayerNorm(x, n.W, n.B)
	}
	return t.NativeRMSNorm(x, n.W)
}

func (m *megatron) layer(t *step.Tape, i int, x step.T) step.T {
	l, n := &m.layers[i], m.cut.dealt()
	t.In(step.PartNorm)
	normed := m.norm(t, l.attentionNorm, x)
	t.In(step.PartAttention)
	branch := m.attention(t, l, normed)
	t.Drop(normed)
	t.In(step.PartNorm)
	middle := t.DropoutAdd(branch, x, m.a.ResidualDropout)
	t.Drop(branch)

	normed = m.norm(t, l.forwardNorm, middle)
	t.In(step.PartMLP)
	up := t.ParallelLinear(normed, l.up.W, l.up.B, n, 1, step.LabelLinear)
	t.Drop(normed)
	var acted step.T
	if m.a.Gated {
		acted = t.FusedGLU(up)
	} else {
		acted = t.GELU(up) // megatron/core/fusions/fused_bias_gelu.py (GeLUFunction), which keeps its input
	}
	t.Drop(up)
	branch = t.ParallelLinear(acted, l.down.W, l.down.B, 1, n, step.LabelLinear)
	t.Drop(acted)
	t.In(step.PartNorm)
	y := t.DropoutAdd(branch, middle, m.a.ResidualDropout)
	t.Drop(middle, branch)
	return y
}

func (m *megatron) attention(t *step.Tape, l *megatronLayer, x step.T) step.T {
	h, n := m.heads, m.cut.dealt()
	qkv := t.ParallelLinear(x, l.qkv.W, l.qkv.B, n, 1, step.LabelLinear)
	rows := qkv.Numel() / (h.Width() + 2*h.KVWidth())
	parts := t.SplitParts(qkv, rows*h.Width(), rows*h.KVWidth(), rows*h.KVWidth())
	t.Drop(qkv)
	for k, w := range [...]arch.Norm{l.queryNorm, l.keyNorm} {
		if m.a.QKNorm {
			normed := m.norm(t, w, parts[k])
			t.Drop(parts[k])
			parts[k] = normed
		}
		if m.cut.rotary {
			turned := t.FusedRotary(parts[k])
			t.Drop(parts[k])
			parts[k] = turned
		}
	}
	q, k, v := parts[0], parts[1], parts[2]
	var y step.T
	if t.Recipe.Attention == step.AttentionEager {
		y = t.UnfusedAttention(q, k, v, h, m.a.AttentionDropout)
	} else {
		y = t.TokensFirst(t.SDPA(q, k, v, h, nil, m.a.AttentionDropout), h, false)
	}
	out := t.ParallelLinear(y, l.out.W, l.out.B, 1, n, step.LabelLinear)
	t.Drop(y, q, k, v)
	return out
}
