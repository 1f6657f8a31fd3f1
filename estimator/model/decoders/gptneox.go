package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GPTNeoXFamily is GPT-NeoX and Pythia.
var GPTNeoXFamily = arch.Family{ModelType: "gpt_neox", Classes: arch.ClassifyingLM, OwnClasses: true, WidensClasses: true,
	Settled: settleGPTNeoX, Keys: arch.CommonKeys, Build: buildGPTNeoX,
	Defaults: map[string]any{
		"vocab_size": 50432.0, "hidden_size": 6144.0, "intermediate_size": 24576.0, "num_hidden_layers": 44.0,
		"classifier_dropout":  0.1,
		"num_attention_heads": 64.0, "hidden_act": "gelu", "rotary_pct": 0.25, "max_position_embeddings": 2048.0,
		"attention_dropout": 0.0, "hidden_dropout": 0.0, "use_cache": true, "tie_word_embeddings": false,
		"use_parallel_residual": true, "attention_bias": true},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Gated, a.Rotary = false, false
		a.KVHeads = a.Heads
		a.HeadDim = 0
		if a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		a.EmbeddingDropout = c.Probability("hidden_dropout")
		a.ResidualDropout = a.EmbeddingDropout
		a.QKVBias = c.Boolean("attention_bias")
		a.OutBias, a.MLPBias, a.NormBias = a.QKVBias, true, true
		a.Own = &blocks.PartialRotary{Width: blocks.RotaryFraction(c, "rotary_pct", &a, true),
			Parallel: c.Boolean("use_parallel_residual")}
		return a
	}}

// gptNeoX is transformers' GPTNeoXForCausalLM (modeling_gpt_neox.py, 4.57).
type gptNeoX struct {
	a        *arch.Architecture
	embed    step.Weight
	head     arch.Linear
	layers   []gptNeoXLayer
	final    arch.Norm
	mask     *step.T
	cos, sin step.T
	cache    []step.T
}

type gptNeoXLayer struct {
	inputNorm, postAttentionNorm arch.Norm
	qkv, dense, up, down         arch.Linear
}

var buffersMasks = arch.Of(func(a *arch.Architecture, _ arch.Use) bool { return a.Family == "gpt_neox" },
	release.Declare("buffers-masks", release.Change{
		Library: "transformers", To: "4.49",
		What:   "transformers before 4.49 has a causal mask of the longest sequence in every layer of gpt_neox",
		Source: "models/gpt_neox/modeling_gpt_neox.py (GPTNeoXAttention._init_bias), 4.48.1 and 4.49.0",
		Shown:  "traces of gpt_neox on 4.48.1",
	}))

func settleGPTNeoX(a *arch.Architecture) {
	if a.Software.Has(buffersMasks) {
		a.BufferSide = a.MaxPositions
	}
}

func buildGPTNeoX(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &gptNeoX{a: a, layers: make([]gptNeoXLayer, b.Recorded)}
	m.embed = b.Embedding("embed_in", a.Vocabulary, d)
	b.InputSection()
	b.StackAt("gpt_neox.layers", func(i int64) {
		l := &m.layers[i]
		l.inputNorm, l.postAttentionNorm = b.Norm("input_layernorm", d, true),
			b.Norm("post_attention_layernorm", d, true)
		l.qkv = b.Linear("attention.query_key_value", d, 3*d, a.QKVBias)
		l.dense = b.Linear("attention.dense", d, d, a.OutBias)
		if a.BufferSide > 0 {
			b.Buffer("attention.bias", a.BufferSide*a.BufferSide, step.Bool)
		}
		l.up, l.down = b.Linear("mlp.dense_h_to_4h", d, a.FFN, true), b.Linear("mlp.dense_4h_to_h", a.FFN, d, true)
	})
	m.final = b.Norm("final_layer_norm", d, true)
	b.FinalNormSection(true)
	b.Frequencies("rotary_emb.", blocks.Rotary(a).Width/2)
	m.head = blocks.DecoderHead(b, headOfNeoX(a), d, false)
	b.HeadSection(m.head)
	return m
}

// namesNeoXHead calls the head of GPT-NeoX as other decoders call theirs.
var namesNeoXHead = release.Declare("names-neox-head", release.Change{
	Library: "transformers", After: "5.10", From: "5.14",
	What:   "the head of GPT-NeoX, which adapters may be put on, is lm_head in transformers 5.14 and was embed_out",
	Source: "models/gpt_neox/modeling_gpt_neox.py (GPTNeoXForCausalLM), 5.10.1, 5.14.0 and 5.23.0",
	Shown:  "traces of GPT-NeoX with an adapter on its head",
})

func headOfNeoX(a *arch.Architecture) string {
	if a.Software.Has(namesNeoXHead) {
		return "lm_head"
	}
	return "embed_out"
}

// Batch is input_ids, attention_mask and labels.
func (m *gptNeoX) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *gptNeoX) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	if blocks.Rotary(m.a).Parallel {
		t.SumsAgain()
	}
	t.In(step.PartEmbedding)
	embedded := t.Section(step.InputSection, ids, func(ids step.T) step.T {
		return t.Embedding(ids, m.embed, step.LabelEmbedding)
	})
	positions := blocks.PositionNumbers(t)
	m.mask = blocks.CausalMask(t, 0, embedded.Dtype())
	x := t.Dropout(embedded, m.a.EmbeddingDropout)
	m.cos, m.sin = blocks.RotaryTables(t, blocks.Rotary(m.a).Width, x.Dtype())

	locals := []step.T{positions, m.cos, m.sin}
	if m.mask != nil {
		locals = append(locals, *m.mask)
	}
	x = blocks.RunLayers(t, m.a, len(m.layers), x, step.Besides{Captured: locals}, m.layer)

	x = t.OpenSection(step.HeadSection, x)
	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, embedded)
	t.Drop(locals...)
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

// layer is x + attention(ln1(x)) + mlp(ln2(x)), or ln2 and the MLP on the sum with attention's output.
func (m *gptNeoX) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.inputNorm.Layer(t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, h)
	t.Drop(h)
	dropped := t.Dropout(attn, m.a.ResidualDropout)
	t.Drop(attn)
	attn = dropped

	t.In(step.PartNorm)
	var y step.T
	if blocks.Rotary(m.a).Parallel {
		mlp := m.mlp(t, l, x)
		both := t.Add(mlp, attn, step.LabelResidual)
		y = t.Add(both, x, step.LabelResidual)
		t.Drop(both, mlp)
	} else {
		sum := t.Add(attn, x, step.LabelResidual)
		t.Drop(attn)
		attn = sum
		mlp := m.mlp(t, l, attn)
		y = t.Add(mlp, attn, step.LabelResidual)
		t.Drop(mlp)
	}
	t.Drop(attn)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention returns its output and, where they are formed, the probabilities.
func (m *gptNeoX) attention(t *step.Tape, l *gptNeoXLayer, x step.T) (step.T, *step.T) {
	qkv := t.Heads(l.qkv.Forward(t, x), m.a.Heads > 1)
	q, k, v := t.Split3(qkv)
	qr, kr := m.rotate(t, q, k)
	t.Drop(q, k)
	q = qr
	k, v = blocks.AppendKV(t, &m.cache, kr, v)
	y, probabilities := blocks.Attend(t, m.a, m.mask, q, k, v)
	out := l.dense.Forward(t, y)
	t.Drop(y, q, k, v, qkv)
	return out, probabilities
}

// rotate is apply_rotary_pos_emb.
func (m *gptNeoX) rotate(t *step.Tape, q, k step.T) (qr, kr step.T) {
	p := blocks.Rotary(m.a)
	qs, ks := p.Split(t, q, m.a.HeadDim), p.Split(t, k, m.a.HeadDim)
	qe, ke := t.Rotary(qs.Turned, m.cos, m.sin), t.Rotary(ks.Turned, m.cos, m.sin)
	qr = t.JoinHeads(qe, qs.Rest)
	t.Drop(qe)
	kr = t.JoinHeads(ke, ks.Rest)
	t.Drop(ke)
	qs.Drop(t)
	ks.Drop(t)
	return qr, kr
}

// mlp is post_mlp_dropout(mlp(post_attention_layernorm(x))).
func (m *gptNeoX) mlp(t *step.Tape, l *gptNeoXLayer, x step.T) step.T {
	h := l.postAttentionNorm.Layer(t, x)
	t.In(step.PartMLP)
	up := l.up.Forward(t, h)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	t.Drop(act, h)
	t.In(step.PartNorm)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}

func (m *gptNeoX) PlainHead() bool { return !m.a.Classes() }
