package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GPTJFamily is GPT-J.
var GPTJFamily = arch.Family{ModelType: "gptj", Classes: arch.ScoringLM,
	Keys: arch.FieldNames{Heads: "n_head", Hidden: "n_embd", KV: "n_head", Dim: "n_embd"}, Build: buildGPTJ,
	Defaults: map[string]any{
		"vocab_size": 50400.0, "n_positions": 2048.0, "n_embd": 4096.0, "n_layer": 28.0, "n_head": 16.0,
		"rotary_dim":          64.0,
		"activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": true,
		"tie_word_embeddings": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = readGPT2(c, a)
		a.BufferSide = 0
		a = alikeGPTJ(a, rotaryElements(c, "rotary_dim", &a))
		return a
	},
	Spelled: gpt2Spelled,
	Numbers: func(p *arch.Preset, c map[string]any) { c["rotary_dim"] = float64(p.HeadDim / 4) }}

// alikeGPTJ sets what all models of the family have. Their layers keep a table of positions each, which is made only
// once, and so are not repeated.
func alikeGPTJ(a arch.Architecture, rotary int64) arch.Architecture {
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias = true, false, false, true
	a.EagerOnly, a.Irregular, a.WholeLogits = true, true, true
	a.Own = &blocks.PartialRotary{Width: rotary, Parallel: true}
	return a
}

// rotaryElements reads how many elements of a head are turned.
func rotaryElements(c *arch.Config, key string, a *arch.Architecture) int64 {
	width := c.Integer(key, arch.MaxWidth)
	if a.HeadDim > 0 && (width > a.HeadDim || width%2 != 0) {
		c.Errs.Add(c.Pointer+"/"+key, "out_of_range", "%s is %d; it is an even number up to the size of a head, %d",
			key, width, a.HeadDim)
	}
	return width
}

// gptJ is transformers' GPTJForCausalLM (modeling_gptj.py, 4.57).
type gptJ struct {
	a      *arch.Architecture
	embed  step.Weight
	head   arch.Linear
	layers []gptJBlock
	final  arch.Norm
	mask   step.T
	cache  []step.T
}

type gptJBlock struct {
	ln1                       arch.Norm
	k, v, q, out, fcIn, fcOut arch.Linear
}

// buffersPositions is GPT-J whose layers load their tables of positions as buffers.
var buffersPositions = release.Declare("buffers-positions", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "the layers of GPT-J in transformers 5.10 keep their table of positions as a buffer, which is " +
		"loaded with them",
	Source: "models/gptj/modeling_gptj.py (GPTJAttention.__init__), 4.57.6 and 5.23.0",
	Shown:  "traces of GPT-J",
})

func buildGPTJ(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &gptJ{a: a, layers: make([]gptJBlock, b.Recorded)}
	m.embed = b.Embedding("wte", a.Vocabulary, d)
	b.StackAt("transformer.h", func(i int64) {
		l := &m.layers[i]
		l.ln1 = b.Norm("ln_1", d, true)
		l.k, l.v = b.Linear("attn.k_proj", d, d, false), b.Linear("attn.v_proj", d, d, false)
		l.q, l.out = b.Linear("attn.q_proj", d, d, false), b.Linear("attn.out_proj", d, d, false)
		if a.Software.Has(buffersPositions) {
			b.Buffer("attn.embed_positions", a.MaxPositions*blocks.Rotary(a).Width, step.F32)
		}
		l.fcIn, l.fcOut = b.Linear("mlp.fc_in", d, a.FFN, true), b.Linear("mlp.fc_out", a.FFN, d, true)
	})
	m.final = b.Norm("ln_f", d, true)
	m.head = blocks.DecoderHead(b, "lm_head", d, true)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *gptJ) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *gptJ) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.SumsAgain()
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := blocks.PositionNumbers(t)
	if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		m.mask = *blocks.CausalMask(t, 0, embedded.Dtype())
	} else {
		m.mask = *blocks.TriangularMask(t, embedded.Dtype())
	}
	x := t.Dropout(embedded, m.a.EmbeddingDropout)
	besides := []step.T{positions, m.mask}
	x, probabilities := blocks.RunPairs(t, m.a, len(m.layers), x, step.Besides{Captured: besides}, m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(append(besides, x, *probabilities, embedded)...)
	if m.a.Classes() || t.Recipe.Software.Has(blocks.LeavesLogits) {
		return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
	}
	logits := t.CloseSection(step.HeadSection, m.head.Logits(t, normed))
	wide := t.FloatLogits(logits)
	t.Drop(logits)
	loss := t.CausalLMLoss(wide, labels)
	cast := t.Cast(loss, normed.Dtype(), step.LabelLoss)
	t.Drop(loss, normed)
	return cast, append([]step.T{wide, t.Hold(cast)}, m.cache...)
}

// block is attn(h) + mlp(h) + x with h = ln_1(x). It returns the probabilities, too.
func (m *gptJ) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.ln1.Layer(t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, i, h)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
	t.In(step.PartNorm)
	both := t.Add(attn, mlp, step.LabelResidual)
	y := t.Add(both, x, step.LabelResidual)
	t.Drop(both, h, attn, mlp)
	t.AlsoReturns(probabilities)
	return y
}

// attention returns its output and the probabilities.
func (m *gptJ) attention(t *step.Tape, i int, x step.T) (step.T, step.T) {
	l, p := &m.layers[i], blocks.Rotary(m.a)
	several := m.a.Heads > 1
	q, k, v := l.q.Forward(t, x), l.k.Forward(t, x), t.Heads(l.v.Forward(t, x), several)
	tables := m.positions(t, i, k.Dtype())

	qs, ks := p.Split(t, q, m.a.HeadDim), p.Split(t, k, m.a.HeadDim)
	ke, qe := m.turn(t, ks.Turned), m.turn(t, qs.Turned)
	t.Drop(ks.Turned, qs.Turned)
	kr := t.JoinTokens(ke, ks.Rest)
	t.Drop(k)
	qr := t.JoinTokens(qe, qs.Rest)
	t.Drop(q)
	k, v = blocks.AppendKV(t, &m.cache, kr, v)
	y, probabilities := t.Eager(step.EagerAttention{Heads: m.a.Geometry(), Dropout: m.a.AttentionDropout, Mask: &m.mask,
		Wide: true, Downcast: true}, qr, k, v)
	projected := l.out.Forward(t, y)
	t.Drop(y)
	out := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(append(tables, projected, qr, k, v, ke, qe, ks.Rest, qs.Rest)...)
	return out, probabilities
}

// positions looks the sines and cosines of the positions up in the layer's table, which moves to the GPU the first
// time.
func (m *gptJ) positions(t *step.Tape, i int, d step.DType) []step.T {
	n, width := t.Shape.Tokens, blocks.Rotary(m.a).Width
	if !m.a.Software.Has(buffersPositions) {
		t.Once(m.a.MaxPositions*width, step.F32, step.LabelRotary)
	}
	table, rows := t.Table(m.a.MaxPositions*width, step.F32), t.Table(n*width, step.I64)
	found := t.Table(n*width, step.F32)
	sincos := t.Cast(found, d, step.LabelRotary)
	t.Drop(found)
	return []step.T{table, rows, sincos}
}

// turn is apply_rotary_pos_emb, which repeats every sine and cosine for its neighbour.
func (m *gptJ) turn(t *step.Tape, x step.T) step.T {
	n := t.Shape.Tokens * blocks.Rotary(m.a).Width
	sin, cos := t.Table(n, x.Dtype()), t.Table(n, x.Dtype())
	y := t.Rotary(x, cos, sin)
	t.Drop(sin, cos)
	return y
}

func (m *gptJ) mlp(t *step.Tape, l *gptJBlock, x step.T) step.T {
	up := l.fcIn.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.fcOut.Forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}
