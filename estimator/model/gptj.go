package model

import "github.com/vramplan/vramplan/estimator/step"

var gptJFamily = family{modelType: "gptj",
	keys: fieldNames{heads: "n_head", hidden: "n_embd", kv: "n_head", dim: "n_embd"}, build: buildGPTJ,
	defaults: map[string]any{
		"vocab_size": 50400.0, "n_positions": 2048.0, "n_embd": 4096.0, "n_layer": 28.0, "n_head": 16.0,
		"rotary_dim":          64.0,
		"activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": true,
		"tie_word_embeddings": false},
	read: func(c *config, a *Architecture) {
		c.gpt2(a)
		a.BufferSide = 0
		a.alikeGPTJ(c.rotaryElements("rotary_dim", a))
	},
	spelled: gpt2Spelled,
	numbers: func(p *Preset, c map[string]any) { c["rotary_dim"] = float64(p.HeadDim / 4) }}

// alikeGPTJ sets what all models of the family have. Their layers keep a table of positions each, which is made only
// once, and so are not repeated.
func (a *Architecture) alikeGPTJ(rotary int64) {
	a.NormBias, a.QKVBias, a.OutBias, a.MLPBias = true, false, false, true
	a.EagerOnly, a.Irregular, a.WholeLogits = true, true, true
	a.own = &partialRotary{width: rotary, parallel: true}
}

// rotaryElements reads how many elements of a head are turned.
func (c *config) rotaryElements(key string, a *Architecture) int64 {
	width := c.integer(key, maxWidth)
	if a.HeadDim > 0 && (width > a.HeadDim || width%2 != 0) {
		c.errs.Add(c.pointer+"/"+key, "out_of_range", "%s is %d; it is an even number up to the size of a head, %d",
			key, width, a.HeadDim)
	}
	return width
}

// gptJ is transformers' GPTJForCausalLM (modeling_gptj.py, 4.57).
type gptJ struct {
	a      *Architecture
	embed  step.Weight
	head   linear
	layers []gptJBlock
	final  norm
	mask   step.T
	cache  []step.T
}

type gptJBlock struct {
	ln1                       norm
	k, v, q, out, fcIn, fcOut linear
}

func buildGPTJ(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	m := &gptJ{a: a, layers: make([]gptJBlock, b.recorded)}
	m.embed = b.embedding("wte", a.Vocabulary, d)
	b.stack(func(i int64) {
		l := &m.layers[i]
		l.ln1 = b.norm("ln_1", d, true)
		l.k, l.v = b.linear("attn.k_proj", d, d, false), b.linear("attn.v_proj", d, d, false)
		l.q, l.out = b.linear("attn.q_proj", d, d, false), b.linear("attn.out_proj", d, d, false)
		if a.Software.BuffersPositions {
			b.buffer("attn.embed_positions", a.MaxPositions*a.rotary().width, step.F32)
		}
		l.fcIn, l.fcOut = b.linear("mlp.fc_in", d, a.FFN, true), b.linear("mlp.fc_out", a.FFN, d, true)
	})
	m.final = b.norm("ln_f", d, true)
	m.head = b.head("lm_head", d, true)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *gptJ) Batch(t *step.Tape) []step.T { return batchWithMask(t) }

func (m *gptJ) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.SumsAgain()
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := positionNumbers(t)
	if t.Recipe.Software.MasksByLibrary {
		m.mask = *causalMask(t, 0, embedded.Dtype())
	} else {
		m.mask = *triangularMask(t, embedded.Dtype())
	}
	x := t.Dropout(embedded, m.a.EmbeddingDropout)
	besides := []step.T{positions, m.mask}
	x, probabilities := runPairs(t, m.a, len(m.layers), x, step.Besides{Captured: besides}, m.block)

	t.In(step.PartNorm)
	normed := m.final.layer(t, x)
	t.Drop(append(besides, x, *probabilities, embedded)...)
	logits := t.CloseSection(step.HeadSection, m.head.logits(t, normed))
	if t.Recipe.Software.LeavesLogits {
		loss := t.CausalLMLoss(logits, labels)
		t.Drop(normed)
		return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
	}
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
	h := l.ln1.layer(t, x)
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
	l, p := &m.layers[i], m.a.rotary()
	several := m.a.Heads > 1
	q, k, v := l.q.forward(t, x), l.k.forward(t, x), t.Heads(l.v.forward(t, x), several)
	tables := m.positions(t, i, k.Dtype())

	qs, ks := p.split(t, q, m.a.HeadDim), p.split(t, k, m.a.HeadDim)
	ke, qe := m.turn(t, ks.turned), m.turn(t, qs.turned)
	t.Drop(ks.turned, qs.turned)
	kr := t.JoinTokens(ke, ks.rest)
	t.Drop(k)
	qr := t.JoinTokens(qe, qs.rest)
	t.Drop(q)
	k, v = appendKV(t, &m.cache, kr, v)
	y, probabilities := t.Eager(step.EagerAttention{Heads: m.a.geometry(), Dropout: m.a.AttentionDropout, Mask: &m.mask,
		Wide: true, Downcast: true}, qr, k, v)
	projected := l.out.forward(t, y)
	t.Drop(y)
	out := t.Dropout(projected, m.a.ResidualDropout)
	t.Drop(append(tables, projected, qr, k, v, ke, qe, ks.rest, qs.rest)...)
	return out, probabilities
}

// positions looks the sines and cosines of the positions up in the layer's table, which moves to the GPU the first
// time.
func (m *gptJ) positions(t *step.Tape, i int, d step.DType) []step.T {
	n, width := t.Shape.Tokens, m.a.rotary().width
	if !m.a.Software.BuffersPositions {
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
	n := t.Shape.Tokens * m.a.rotary().width
	sin, cos := t.Table(n, x.Dtype()), t.Table(n, x.Dtype())
	y := t.Rotary(x, cos, sin)
	t.Drop(sin, cos)
	return y
}

func (m *gptJ) mlp(t *step.Tape, l *gptJBlock, x step.T) step.T {
	up := l.fcIn.forward(t, x)
	act := activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.fcOut.forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}
