package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// GPTNeoFamily is GPT-Neo: GPT-2 whose attention forms its scores in float32, unscaled, behind a square mask that is a
// buffer; in every other layer it masks what lies outside a window. Source:
// transformers/models/gpt_neo/modeling_gpt_neo.py, configuration_gpt_neo.py, 4.57 and 5.23.
var GPTNeoFamily = arch.Family{ModelType: "gpt_neo", Classes: arch.ClassifyingLM, OwnClasses: true,
	Keys: arch.FieldNames{Heads: "num_heads", Hidden: "hidden_size", KV: "num_heads", Dim: "hidden_size"},
	Defaults: map[string]any{
		"vocab_size": 50257.0, "max_position_embeddings": 2048.0, "hidden_size": 2048.0, "num_layers": 24.0,
		"num_heads": 16.0, "activation_function": "gelu_new", "resid_dropout": 0.0, "embed_dropout": 0.0,
		"attention_dropout": 0.0, "use_cache": true, "tie_word_embeddings": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a.Layers, a.Hidden = c.Integer("num_layers", arch.MaxLayers), c.Integer("hidden_size", arch.MaxWidth)
		a.Heads = c.Integer("num_heads", arch.MaxWidth)
		if a.KVHeads = a.Heads; a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		if a.FFN = c.Optional("intermediate_size", arch.MaxRows); a.FFN == 0 {
			a.FFN = 4 * a.Hidden
		}
		a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
		a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
		a.Activation = c.Activation("activation_function", "gelu_new", "gelu", "gelu_pytorch_tanh", "relu", "silu")
		a.EmbeddingDropout, a.AttentionDropout, a.ResidualDropout = c.Probability("embed_dropout"),
			c.Probability("attention_dropout"), c.Probability("resid_dropout")
		a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
		a = alikeGPTNeo(a)
		return a
	},
	Spelled: map[string]string{"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads",
		"residual_dropout": "resid_dropout", "embedding_dropout": "embed_dropout"},
	Build: buildGPTNeo,
}

// alikeGPTNeo sets what all models of the family have.
func alikeGPTNeo(a arch.Architecture) arch.Architecture {
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias = true, false, true, true
	a.BufferSide, a.LearnedPositions, a.EagerOnly = a.MaxPositions, true, true
	a.WholeLogits = true
	return a
}

// gptNeo is GPTNeoForCausalLM.
type gptNeo struct {
	a                *arch.Architecture
	embed, positions step.Weight
	head             arch.Linear
	layers           []gptNeoBlock
	final            arch.Norm
	mask             *step.T
	cache            []step.T
}

type gptNeoBlock struct {
	ln1, ln2               arch.Norm
	k, v, q, out, up, down arch.Linear
}

func buildGPTNeo(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &gptNeo{a: a, layers: make([]gptNeoBlock, b.Recorded)}
	m.embed, m.positions = b.Embedding("wte", a.Vocabulary, d), b.Embedding("wpe", a.MaxPositions, d)
	b.StackAt("transformer.h", func(i int64) {
		l := &m.layers[i]
		l.ln1 = b.Norm("ln_1", d, true)
		l.k, l.v = b.Linear("attn.attention.k_proj", d, d, false), b.Linear("attn.attention.v_proj", d, d, false)
		l.q, l.out = b.Linear("attn.attention.q_proj", d, d, false), b.Linear("attn.attention.out_proj", d, d, true)
		b.Buffer("attn.attention.bias", a.BufferSide*a.BufferSide, step.Bool)
		if !a.Software.Has(dropsMaskBuffers) {
			b.Buffer("attn.attention.masked_bias", 1, b.Loaded())
		}
		l.ln2 = b.Norm("ln_2", d, true)
		l.up, l.down = b.Linear("mlp.c_fc", d, a.FFN, true), b.Linear("mlp.c_proj", a.FFN, d, true)
	})
	m.final = b.Norm("ln_f", d, true)
	m.head = blocks.DecoderHead(b, "lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *gptNeo) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *gptNeo) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	tokens := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := blocks.PositionNumbers(t)
	makeMask, captured := blocks.TriangularMask, []step.T{positions} // which layers get by name, too
	if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		makeMask = func(t *step.Tape, d step.DType) *step.T { return blocks.CausalMask(t, 0, d) }
		captured = nil
	}
	m.mask = makeMask(t, tokens.Dtype())
	learned := t.Embedding(positions, m.positions, step.LabelPositions)
	sum := t.Add(tokens, learned, step.LabelEmbedding)
	x := t.Dropout(sum, m.a.EmbeddingDropout)
	t.Drop(sum)
	x, probabilities := blocks.RunPairs(t, m.a, len(m.layers), x, step.Besides{Captured: append(captured, *m.mask)},
		m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, *probabilities, tokens, learned, positions, *m.mask)
	if !m.a.Classes() && !t.Recipe.Software.Has(blocks.MasksByLibrary) {
		return m.formerLoss(t, normed, t.CloseSection(step.HeadSection, m.head.Logits(t, normed)), labels)
	}
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

// formerLoss is of logits that the model makes float32 and, with the loss, brings back to the type of x. It takes both
// over. Source: transformers/models/gpt_neo/modeling_gpt_neo.py (GPTNeoForCausalLM.forward), 4.57.
func (m *gptNeo) formerLoss(t *step.Tape, x, logits, labels step.T) (step.T, []step.T) {
	wide := t.FloatLogits(logits)
	t.Drop(logits)
	wideLoss := t.CausalLMLoss(wide, labels)
	back := t.Cast(wide, x.Dtype(), step.LabelLogits)
	t.Drop(wide)
	loss := t.Cast(wideLoss, x.Dtype(), step.LabelLoss)
	t.Drop(wideLoss, x)
	return loss, append([]step.T{back, t.Hold(loss)}, m.cache...)
}

// block is GPTNeoBlock. It returns the probabilities, too.
func (m *gptNeo) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	y, probabilities := gpt2Sums(t, l.ln1, l.ln2, x,
		func(h step.T) (step.T, *step.T) { return m.attention(t, l, h) },
		func(h step.T) step.T { return m.mlp(t, l, h) })
	t.AlsoReturns(*probabilities)
	return y
}

// attention is GPTNeoSelfAttention. It returns its output and the probabilities.
func (m *gptNeo) attention(t *step.Tape, l *gptNeoBlock, x step.T) (step.T, *step.T) {
	heads := m.a.Geometry()
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, true)
	q, k, v := l.q.Forward(t, x), l.k.Keys(t, x, copiesK), l.v.Forward(t, x)
	q, v = t.Heads(q, copiesQV), t.Heads(v, copiesQV)
	k, v = blocks.AppendKV(t, &m.cache, k, v)
	y, probabilities := t.Eager(step.EagerAttention{Heads: heads, Dropout: m.a.AttentionDropout, Mask: m.mask,
		Where: true, Unscaled: true, Wide: true, Downcast: true}, q, k, v)
	projected := l.out.Forward(t, y)
	t.Drop(y)
	out := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(projected, q, k, v)
	return out, &probabilities
}

func (m *gptNeo) mlp(t *step.Tape, l *gptNeoBlock, x step.T) step.T {
	up := l.up.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}
