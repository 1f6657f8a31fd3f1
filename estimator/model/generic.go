package model

import "github.com/vramplan/vramplan/estimator/step"

// genericFamily is the decoder that nobody described, put together from its dimensions.
var genericFamily = family{keys: commonKeys, build: buildGeneric}

// block says how a decoder without a description of its own is put together.
type block struct {
	// position is rope, learned, alibi or none; rotaryWidth is how many elements of a head are turned.
	position    string
	rotaryWidth int64
	layerNorm   bool
	// plainNorms says that the norms have no parameters; embeddingNorm that there is one behind the embeddings.
	plainNorms, embeddingNorm bool
	// norms is how many a layer has: 1 for attention and MLP beside each other on one input, 2 before each of the
	// two, 4 before and behind each.
	norms    int64
	parallel bool
	// postNorm puts the norms behind the sums; there is none behind the layers then.
	postNorm bool
	// wideQKNorm runs the norms of queries and keys over all heads at once.
	wideQKNorm bool
	headBias   bool
	// positionRows are the rows of learned positions.
	positionRows int64
	experts      *experts
	// sharedFFN is the width of an MLP that runs beside the experts; 0 without.
	sharedFFN int64
}

// generic is a decoder put together from its dimensions, in the ways of Llama where nothing else is said: attention
// and rotary positions are Llama's, and everything else is built from the same parts.
type generic struct {
	decoder
	block     *block
	positions step.Weight
	embedded  norm
	parts     []genericLayer
}

// genericLayer is what a layer has besides Llama's modules.
type genericLayer struct{ shared gatedMLP }

func buildGeneric(b *builder) step.Network {
	a, d, own := b.a, b.a.Hidden, b.a.own.(*block)
	m := &generic{block: own, parts: make([]genericLayer, b.recorded)}
	m.decoder = decoder{a: a, traits: likeLlama(), layers: make([]decoderLayer, b.recorded)}
	m.rotate = own.rotate(a)
	m.normalize = own.normalize
	if own.wideQKNorm {
		m.project = (*decoder).projectWide
	}
	m.embed = b.embedding("embed_tokens", a.Vocabulary, d)
	if own.position == "learned" {
		m.positions = b.parameter("embed_positions", own.positionRows, d)
		b.embeds(m.positions)
	}
	if own.embeddingNorm {
		m.embedded = own.norm(b, "embed_norm", d)
	}
	b.stack(func(i int64) { m.declareLayer(b, i) })
	if !own.postNorm {
		m.final = own.norm(b, "norm", d)
	}
	if own.position == "rope" {
		b.frequencies("rotary_emb.", own.rotaryWidth/2)
	}
	m.head = b.head("lm_head", d, own.headBias)
	return m
}

func (m *generic) declareLayer(b *builder, i int64) {
	a, own, l := b.a, m.block, &m.layers[i]
	l.index = i
	b.projections(l)
	if a.QKNorm {
		q, k := a.HeadDim, a.HeadDim
		if own.wideQKNorm {
			q, k = a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
		}
		l.qNorm, l.kNorm = own.norm(b, "self_attn.q_norm", q), own.norm(b, "self_attn.k_norm", k)
	}
	switch {
	case own.experts.in(i):
		l.experts = own.experts.build(b)
		if own.sharedFFN > 0 {
			m.parts[i].shared = buildGatedMLP(b, "mlp.shared_expert", own.sharedFFN, a.MLPBias)
		}
	case a.Gated:
		b.mlp(l)
	default:
		l.up, l.down = b.linear("mlp.up_proj", a.Hidden, a.FFN, a.MLPBias),
			b.linear("mlp.down_proj", a.FFN, a.Hidden, a.MLPBias)
	}
	l.inputNorm = own.norm(b, "input_layernorm", a.Hidden)
	if own.norms >= 2 {
		l.preFeedforwardNorm = own.norm(b, "pre_feedforward_layernorm", a.Hidden)
	}
	if own.norms == 4 {
		l.postAttentionNorm = own.norm(b, "post_attention_layernorm", a.Hidden)
		l.postFeedforwardNorm = own.norm(b, "post_feedforward_layernorm", a.Hidden)
	}
}

// norm declares a norm over width elements.
func (own *block) norm(b *builder, name string, width int64) norm {
	if own.plainNorms {
		return norm{w: step.Weight{Index: -1, Rows: width, Cols: 1}, b: step.NoWeight}
	}
	return b.norm(name, width, b.a.NormBias)
}

// normalize is LayerNorm or RMSNorm; an RMSNorm's bias is added behind it.
func (own *block) normalize(g norm, t *step.Tape, x step.T) step.T {
	switch {
	case own.plainNorms:
		return t.PlainLayerNorm(x, g.w.Rows)
	case own.layerNorm:
		return g.layer(t, x)
	}
	y := g.rms(t, x)
	if !g.b.Exists() {
		return y
	}
	shifted := t.AddUnbatched(y, t.Parameter(g.b), step.LabelNormOutput)
	t.Drop(y)
	return shifted
}

// rotate turns rotaryWidth elements of every head.
func (own *block) rotate(a *Architecture) func(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
	if own.rotaryWidth == a.HeadDim {
		return rotate
	}
	return func(t *step.Tape, q, k step.T, w *around) (step.T, step.T) {
		turn := func(x step.T) step.T {
			part := (&partialRotary{width: own.rotaryWidth}).split(t, x, a.HeadDim)
			turned := t.Rotary(part.turned, w.cos, w.sin)
			y := t.JoinHeads(turned, part.rest)
			t.Drop(turned)
			part.drop(t)
			return y
		}
		return turn(q), turn(k)
	}
}

func (m *generic) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	x := m.embedding(t, ids)
	order := positionNumbers(t)
	locals := append([]step.T{order}, m.surroundings(t, x.Dtype())...)
	x = runLayers(t, m.a, len(m.layers), x, step.Besides{Captured: locals}, m.layer)

	t.In(step.PartNorm)
	if !m.block.postNorm {
		normed := m.normalize(m.final, t, x)
		t.Drop(x)
		x = normed
	}
	t.Drop(locals...)
	logits := t.CloseSection(step.HeadSection, m.head.logits(t, x))
	loss := t.CausalLMLoss(logits, labels)
	t.Drop(x)
	return loss, append([]step.T{logits, t.Hold(loss)}, m.cache...)
}

// embedding is the tokens' and, where they are learned, the positions'.
func (m *generic) embedding(t *step.Tape, ids step.T) step.T {
	x := t.Embedding(ids, m.embed, step.LabelEmbedding)
	if m.block.position == "learned" {
		positions := t.Input(t.Shape.Tokens, step.I64)
		learned := t.Embedding(positions, m.positions, step.LabelPositions)
		t.Drop(positions)
		sum := t.Add(x, learned, step.LabelEmbedding)
		t.Drop(learned, x)
		x = sum
	}
	if m.block.embeddingNorm {
		normed := m.normalize(m.embedded, t, x)
		t.Drop(x)
		x = normed
	}
	dropped := t.Dropout(x, m.a.EmbeddingDropout)
	t.Drop(x)
	return dropped
}

// surroundings makes the mask and the rotary tables. With ALiBi every head has a mask of its own.
func (m *generic) surroundings(t *step.Tape, d step.DType) []step.T {
	m.full = around{mask: causalMask(t, m.a.SlidingWindow, d), rotary: m.block.position == "rope"}
	var made []step.T
	if m.block.position == "alibi" {
		bias := t.Input(t.Shape.N()*t.Shape.Tokens*m.a.Heads, d)
		if m.full.mask != nil {
			t.Drop(*m.full.mask)
		}
		m.full.mask = &bias
	}
	if m.full.mask != nil {
		made = append(made, *m.full.mask)
	}
	if m.full.rotary {
		m.full.cos, m.full.sin = rotaryTables(t, m.block.rotaryWidth, d)
		made = append(made, m.full.cos, m.full.sin)
	}
	return made
}

// layer runs attention and MLP one after the other or beside each other, with the norms where the block has them.
func (m *generic) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	switch {
	case m.block.postNorm:
		middle := m.residual(t, x, m.attend(t, l, t.Hold(x)), &l.inputNorm)
		y := m.residual(t, middle, m.feedForward(t, i, t.Hold(middle)), &l.preFeedforwardNorm)
		t.Drop(middle)
		return y
	case m.block.parallel:
		return m.parallelLayer(t, i, x)
	}
	t.In(step.PartNorm)
	attn := m.attend(t, l, m.normalize(l.inputNorm, t, x))
	middle := m.residual(t, x, m.behind(t, attn, &l.postAttentionNorm), nil)
	h := m.normalize(l.preFeedforwardNorm, t, middle)
	y := m.residual(t, middle, m.behind(t, m.feedForward(t, i, h), &l.postFeedforwardNorm), nil)
	t.Drop(middle)
	return y
}

// parallelLayer is x + attention(norm(x)) + mlp(norm(x)), where the norms may be one.
func (m *generic) parallelLayer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	attn := m.attend(t, l, t.Hold(h))
	if m.block.norms == 2 {
		t.Drop(h)
		h = m.normalize(l.preFeedforwardNorm, t, x)
	}
	mlp := m.feedForward(t, i, h)
	both := t.Add(attn, mlp, step.LabelResidual)
	t.Drop(attn, mlp)
	y := t.Add(both, x, step.LabelResidual)
	t.Drop(both)
	return y
}

// behind is a norm on the output of attention or MLP, where there are four of them. It takes over y.
func (m *generic) behind(t *step.Tape, y step.T, g *norm) step.T {
	if m.block.norms != 4 {
		return y
	}
	normed := m.normalize(*g, t, y)
	t.Drop(y)
	return normed
}

// residual is x + y and, behind it, the norm g if there is one. It takes over y.
func (m *generic) residual(t *step.Tape, x, y step.T, g *norm) step.T {
	t.In(step.PartNorm)
	sum := t.Add(x, y, step.LabelResidual)
	t.Drop(y)
	if g == nil {
		return sum
	}
	normed := m.normalize(*g, t, sum)
	t.Drop(sum)
	return normed
}

// attend is self-attention with dropout behind it. It takes over h.
func (m *generic) attend(t *step.Tape, l *decoderLayer, h step.T) step.T {
	t.In(step.PartAttention)
	w := m.full
	attn, probabilities := m.attention(t, l, &w, h)
	t.Drop(h)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	dropped := t.Dropout(attn, m.a.ResidualDropout)
	t.Drop(attn)
	t.In(step.PartNorm)
	return dropped
}

// feedForward is the MLP, gated or not, or the mixture of experts, with dropout behind it. It takes over h.
func (m *generic) feedForward(t *step.Tape, i int, h step.T) step.T {
	t.In(step.PartMLP)
	l := &m.layers[i]
	var y step.T
	switch {
	case l.experts != nil:
		y = m.sparse(t, i, h)
	case m.a.Gated:
		y = m.mlp(t, l, h)
	default:
		up := l.up.forward(t, h)
		act := activation(t, m.a.Activation, up)
		t.Drop(up)
		y = l.down.forward(t, act)
		t.Drop(act)
	}
	t.Drop(h)
	dropped := t.Dropout(y, m.a.ResidualDropout)
	t.Drop(y)
	t.In(step.PartNorm)
	return dropped
}

// sparse is the mixture of experts and the shared one beside it.
func (m *generic) sparse(t *step.Tape, i int, h step.T) step.T {
	y, logits := m.layers[i].experts.forward(t, h)
	t.Drop(logits)
	if m.block.sharedFFN == 0 {
		return y
	}
	shared := m.parts[i].shared.forward(t, m.a, h)
	sum := t.Add(y, shared, step.LabelResidual)
	t.Drop(shared, y)
	return sum
}

// projectWide is q_norm(q_proj(x)), k_norm(k_proj(x)) and v_proj(x) with norms over all heads at once.
func (m *decoder) projectWide(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	wide := func(p linear, g norm) step.T {
		y := p.forward(t, x)
		n := m.normalize(g, t, y)
		t.Drop(y)
		return n
	}
	q = t.Heads(wide(l.q, l.qNorm), c.query)
	k = t.Heads(wide(l.k, l.kNorm), c.key)
	v = t.Heads(l.v.forward(t, x), c.value)
	return q, k, v
}

// mixed are its experts, whose loop is replayed in every release.
func (own *block) mixed() (*experts, bool) { return own.experts, false }
