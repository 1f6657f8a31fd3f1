package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GPT2Family is GPT-2.
var GPT2Family = arch.Family{ModelType: "gpt2", Classes: arch.ClassifyingLM, OwnClasses: true,
	Keys: arch.FieldNames{Heads: "n_head", Hidden: "n_embd", KV: "n_head", Dim: "n_embd"},
	Defaults: map[string]any{
		"vocab_size": 50257.0, "n_positions": 1024.0, "n_embd": 768.0, "n_layer": 12.0, "n_head": 12.0,
		"activation_function": "gelu_new", "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
		"use_cache": true, "tie_word_embeddings": true},
	Read:    readGPT2,
	Spelled: gpt2Spelled,
	Build:   buildGPT2,
}

// gpt2Spelled are the names of GPT-2 and its descendants.
var gpt2Spelled = map[string]string{"num_hidden_layers": "n_layer", "hidden_size": "n_embd",
	"num_attention_heads": "n_head",
	"intermediate_size":   "n_inner", "max_position_embeddings": "n_positions", "attention_dropout": "attn_pdrop",
	"residual_dropout": "resid_pdrop", "embedding_dropout": "embd_pdrop"}

func readGPT2(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer("n_layer", arch.MaxLayers)
	a.Hidden = c.Integer("n_embd", arch.MaxWidth)
	a.Heads = c.Integer("n_head", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	if a.FFN = c.Optional("n_inner", arch.MaxRows); a.FFN == 0 {
		a.FFN = 4 * a.Hidden
	}
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("n_positions", arch.MaxRows)
	a.Activation = c.Activation("activation_function", "gelu_new", "gelu", "gelu_pytorch_tanh", "gelu_fast", "relu",
		"silu")
	a.EmbeddingDropout, a.AttentionDropout, a.ResidualDropout = c.Probability("embd_pdrop"),
		c.Probability("attn_pdrop"), c.Probability("resid_pdrop")
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias = true, true, true, true
	a.BufferSide, a.LearnedPositions = a.MaxPositions, true
	for _, key := range []string{"add_cross_attention", "reorder_and_upcast_attn"} {
		if on, _ := c.Given[key].(bool); on {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is not modelled", key)
		}
	}
	return a
}

// gpt2 is transformers' GPT2LMHeadModel (modeling_gpt2.py, 4.57).
type gpt2 struct {
	a                *arch.Architecture
	embed, positions step.Weight
	head             arch.Linear
	layers           []gpt2Block
	final            arch.Norm
	mask             *step.T
	cache            []step.T
}

type gpt2Block struct {
	ln1, ln2           arch.Norm
	qkv, out, up, down arch.Linear
}

// dropsMaskBuffers is GPT-2 without the buffers of its former mask.
var dropsMaskBuffers = release.Declare("drops-mask-buffers", release.Change{
	Library: "transformers", After: "5.0", From: "5.10",
	What: "GPT-2 of transformers 5.23 has no buffers for its mask any more, and eager attention adds the mask that the " +
		"library makes",
	Source: "models/gpt2/modeling_gpt2.py (GPT2Attention, eager_attention_forward), 4.57.6, 5.0.0, 5.10.0, 5.14.0, 5.17.0 " +
		"and 5.23.0", Shown: "traces of GPT-2",
})

func buildGPT2(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &gpt2{a: a, layers: make([]gpt2Block, b.Recorded)}
	m.embed, m.positions = b.Embedding("wte", a.Vocabulary, d), b.Embedding("wpe", a.MaxPositions, d)
	b.StackAt("transformer.h", func(i int64) {
		l := &m.layers[i]
		l.ln1 = b.Norm("ln_1", d, true)
		l.qkv, l.out = b.Conv1D("attn.c_attn", d, 3*d), b.Conv1D("attn.c_proj", d, d)
		if !a.Software.Has(dropsMaskBuffers) {
			b.Buffer("attn.bias", a.BufferSide*a.BufferSide, step.Bool)
			b.Buffer("attn.masked_bias", 1, b.Loaded())
		}
		l.ln2 = b.Norm("ln_2", d, true)
		l.up, l.down = b.Conv1D("mlp.c_fc", d, a.FFN), b.Conv1D("mlp.c_proj", a.FFN, d)
	})
	m.final = b.Norm("ln_f", d, true)
	m.head = blocks.DecoderHead(b, "lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *gpt2) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *gpt2) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	tokens := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := blocks.PositionNumbers(t)
	learned := t.Embedding(positions, m.positions, step.LabelPositions)
	sum := t.Add(tokens, learned, step.LabelEmbedding)
	m.mask = blocks.CausalMask(t, 0, tokens.Dtype())
	x := t.Dropout(sum, m.a.EmbeddingDropout)
	t.Drop(sum)

	besides := step.Besides{Arguments: []step.T{positions}}
	if t.Recipe.Software.Has(blocks.OffsetsPositions) { // by name
		besides = step.Besides{Captured: []step.T{positions}}
	}
	if m.mask != nil {
		besides.Arguments = append(besides.Arguments, *m.mask)
	}
	x = blocks.RunLayers(t, m.a, len(m.layers), x, besides, m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, tokens, learned, positions)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	if m.a.Classes() {
		return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
	}
	logits := t.CloseSection(step.HeadSection, m.head.Logits(t, normed))
	t.GraphBreak()
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(normed)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

func (m *gpt2) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	y, probabilities := gpt2Sums(t, l.ln1, l.ln2, x,
		func(h step.T) (step.T, *step.T) { return m.attention(t, l, h) },
		func(h step.T) step.T { return m.mlp(t, l, h) })
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// gpt2Sums is what GPT2Block and those written after it do around attention and MLP: x + attention(norm(x)), and that +
// MLP(norm(that)). Attention's result lives as long as the block. It returns attention's probabilities, where they are
// formed, too. Sources: transformers/models/gpt2/modeling_gpt2.py (GPT2Block.forward), gpt_neo/modeling_gpt_neo.py
// (GPTNeoBlock.forward), gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock.forward), 4.57.
func gpt2Sums(t *step.Tape, ln1, ln2 arch.Norm, x step.T, attention func(step.T) (step.T, *step.T),
	feed func(step.T) step.T) (y step.T, probabilities *step.T) {
	t.In(step.PartNorm)
	h := ln1.Layer(t, x)
	t.In(step.PartAttention)
	attn, probabilities := attention(h)
	t.In(step.PartNorm)
	middle := t.Add(attn, x, step.LabelResidual)
	t.Drop(h)

	h = ln2.Layer(t, middle)
	t.In(step.PartMLP)
	mlp := feed(h)
	t.In(step.PartNorm)
	y = t.Add(middle, mlp, step.LabelResidual)
	t.Drop(h, middle, attn, mlp)
	return y, probabilities
}

// attention returns its output and, where they are formed, the probabilities.
func (m *gpt2) attention(t *step.Tape, l *gpt2Block, x step.T) (step.T, *step.T) {
	qkv := l.qkv.Forward(t, x)
	q, k, v := t.Split3(qkv)
	t.Drop(qkv)
	eager := t.Recipe.Attention == step.AttentionEager
	cached := t.Recipe.UseCache
	copied := t.CopiesKVGradient(m.a.Geometry(), m.mask != nil, cached)
	written := t.WritesOut(m.a.Geometry(), m.mask != nil)
	k, v, q = t.Heads(k, copied && !written), t.Heads(v, copied),
		t.Heads(q, t.CopiesQueryGradient(m.a.Geometry(), m.mask != nil))
	if cached {
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k, v)
		k, v = kc, vc
		m.cache = append(m.cache, t.Hold(kc), t.Hold(vc))
	}
	var y step.T
	var probabilities *step.T
	if eager {
		var p step.T
		y, p = t.Eager(step.EagerAttention{Heads: m.a.Geometry(), Dropout: m.a.AttentionDropout,
			Where: !t.Recipe.Software.Has(dropsMaskBuffers),
			Mask:  m.mask, Downcast: true}, q, k, v)
		probabilities = &p
	} else {
		y = t.TokensFirst(t.SDPA(q, k, v, m.a.Geometry(), m.mask, m.a.AttentionDropout), m.a.Geometry(), m.mask != nil)
	}
	out := l.out.Forward(t, y)
	t.Drop(y)
	dropped := t.Dropout(out, m.a.ResidualDropout)
	t.Drop(out, q, k, v)
	return dropped, probabilities
}

func (m *gpt2) mlp(t *step.Tape, l *gpt2Block, x step.T) step.T {
	up := l.up.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}

func (m *gpt2) PlainHead() bool { return !m.a.Classes() }
