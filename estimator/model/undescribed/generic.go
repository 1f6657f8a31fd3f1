package undescribed

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// genericFamily is the decoder that nobody described, put together from its dimensions.
var genericFamily = arch.Family{Keys: arch.CommonKeys, Build: buildGeneric}

// scoringFamily has the classes of those whose class transformers is known to write with modeling_layers.py.
var scoringFamily = arch.Family{Keys: arch.CommonKeys, Classes: arch.ScoringLM}

// Block says how a decoder without a description of its own is put together.
type Block struct {
	// Position is rope, learned, alibi or none; RotaryWidth is how many elements of a head are turned.
	Position    string
	RotaryWidth int64
	LayerNorm   bool
	// PlainNorms says that the norms have no parameters; embeddingNorm that there is one behind the embeddings.
	PlainNorms, EmbeddingNorm bool
	// Norms is how many a layer has: 1 for attention and MLP beside each other on one input, 2 before each of the
	// two, 4 before and behind each.
	Norms    int64
	Parallel bool
	// PostNorm puts the norms behind the sums; there is none behind the layers then.
	PostNorm bool
	// WideQKNorm runs the norms of queries and keys over all heads at once.
	WideQKNorm bool
	HeadBias   bool
	// positionRows are the rows of learned positions.
	positionRows int64
	Experts      *arch.Experts
	// sharedFFN is the width of an MLP that runs beside the experts; 0 without.
	sharedFFN int64
}

// generic is a decoder put together from its dimensions, in the ways of Llama where nothing else is said: attention
// and rotary positions are Llama's, and everything else is built from the same parts.
type generic struct {
	blocks.Decoder
	block     *Block
	positions step.Weight
	embedded  arch.Norm
	parts     []genericLayer
}

// genericLayer is what a layer has besides Llama's modules.
type genericLayer struct{ shared arch.GatedMLP }

func buildGeneric(b *arch.Builder) step.Network {
	a, d, own := b.A, b.A.Hidden, b.A.Own.(*Block)
	m := &generic{block: own, parts: make([]genericLayer, b.Recorded)}
	m.Decoder = blocks.Decoder{A: a, Traits: blocks.LikeLlama(), Layers: make([]blocks.DecoderLayer, b.Recorded)}
	m.Rotate = own.rotate(a)
	m.Normalize = own.normalize
	if own.WideQKNorm {
		m.Project = projectWide
	}
	m.Embed = b.Embedding("embed_tokens", a.Vocabulary, d)
	if own.Position == "learned" {
		m.positions = b.Parameter("embed_positions", own.positionRows, d)
		b.Embeds(m.positions)
	}
	if own.EmbeddingNorm {
		m.embedded = own.norm(b, "embed_norm", d)
	}
	b.Stack(func(i int64) { m.declareLayer(b, i) })
	if !own.PostNorm {
		m.Final = own.norm(b, "norm", d)
	}
	if own.Position == "rope" {
		b.Frequencies("rotary_emb.", own.RotaryWidth/2)
	}
	m.Head = blocks.DecoderHead(b, "lm_head", d, own.HeadBias)
	return m
}

func (m *generic) declareLayer(b *arch.Builder, i int64) {
	a, own, l := b.A, m.block, &m.Layers[i]
	l.Index = i
	blocks.DeclareProjections(b, l)
	if a.QKNorm {
		q, k := a.HeadDim, a.HeadDim
		if own.WideQKNorm {
			q, k = a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
		}
		l.QNorm, l.KNorm = own.norm(b, "self_attn.q_norm", q), own.norm(b, "self_attn.k_norm", k)
	}
	switch {
	case own.Experts.In(i):
		l.Experts = blocks.Build(own.Experts, b)
		if own.sharedFFN > 0 {
			m.parts[i].shared = arch.BuildGatedMLP(b, "mlp.shared_expert", own.sharedFFN, a.MLPBias)
		}
	case a.Gated:
		blocks.DeclareMLP(b, l)
	default:
		l.Up, l.Down = b.Linear("mlp.up_proj", a.Hidden, a.FFN, a.MLPBias),
			b.Linear("mlp.down_proj", a.FFN, a.Hidden, a.MLPBias)
	}
	l.InputNorm = own.norm(b, "input_layernorm", a.Hidden)
	if own.Norms >= 2 {
		l.PreFeedforwardNorm = own.norm(b, "pre_feedforward_layernorm", a.Hidden)
	}
	if own.Norms == 4 {
		l.PostAttentionNorm = own.norm(b, "post_attention_layernorm", a.Hidden)
		l.PostFeedforwardNorm = own.norm(b, "post_feedforward_layernorm", a.Hidden)
	}
}

// norm declares a norm over width elements.
func (own *Block) norm(b *arch.Builder, name string, width int64) arch.Norm {
	if own.PlainNorms {
		return arch.Norm{W: step.Weight{Index: -1, Rows: width, Cols: 1}, B: step.NoWeight}
	}
	return b.Norm(name, width, b.A.NormBias)
}

// normalize is LayerNorm or RMSNorm; an RMSNorm's bias is added behind it.
func (own *Block) normalize(g arch.Norm, t *step.Tape, x step.T) step.T {
	switch {
	case own.PlainNorms:
		return t.PlainLayerNorm(x, g.W.Rows)
	case own.LayerNorm:
		return g.Layer(t, x)
	}
	y := g.RMS(t, x)
	if !g.B.Exists() {
		return y
	}
	shifted := t.AddUnbatched(y, t.Parameter(g.B), step.LabelNormOutput)
	t.Drop(y)
	return shifted
}

// rotate turns RotaryWidth elements of every head.
func (own *Block) rotate(a *arch.Architecture) func(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	if own.RotaryWidth == a.HeadDim {
		return blocks.Rotate
	}
	return func(t *step.Tape, q, k step.T, w *blocks.Around) (step.T, step.T) {
		turn := func(x step.T) step.T {
			part := (&blocks.PartialRotary{Width: own.RotaryWidth}).Split(t, x, a.HeadDim)
			turned := t.Rotary(part.Turned, w.Cos, w.Sin)
			y := t.JoinHeads(turned, part.Rest)
			t.Drop(turned)
			part.Drop(t)
			return y
		}
		return turn(q), turn(k)
	}
}

func (m *generic) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.Cache = nil
	t.In(step.PartEmbedding)
	x := m.embedding(t, ids)
	order := blocks.PositionNumbers(t)
	locals := append([]step.T{order}, m.surroundings(t, x.Dtype())...)
	x = blocks.RunLayers(t, m.A, len(m.Layers), x, step.Besides{Captured: locals}, m.layer)

	t.In(step.PartNorm)
	if !m.block.PostNorm {
		normed := m.Normalize(m.Final, t, x)
		t.Drop(x)
		x = normed
	}
	t.Drop(locals...)
	return blocks.DecoderOutputs(t, m.A, m.Head, x, labels, m.Cache)
}

// embedding is the tokens' and, where they are learned, the positions'.
func (m *generic) embedding(t *step.Tape, ids step.T) step.T {
	x := t.Embedding(ids, m.Embed, step.LabelEmbedding)
	if m.block.Position == "learned" {
		positions := t.Input(t.Shape.Tokens, step.I64)
		learned := t.Embedding(positions, m.positions, step.LabelPositions)
		t.Drop(positions)
		sum := t.Add(x, learned, step.LabelEmbedding)
		t.Drop(learned, x)
		x = sum
	}
	if m.block.EmbeddingNorm {
		normed := m.Normalize(m.embedded, t, x)
		t.Drop(x)
		x = normed
	}
	dropped := t.Dropout(x, m.A.EmbeddingDropout)
	t.Drop(x)
	return dropped
}

// surroundings makes the mask and the rotary tables. With ALiBi every head has a mask of its own.
func (m *generic) surroundings(t *step.Tape, d step.DType) []step.T {
	m.Full = blocks.Around{Mask: blocks.CausalMask(t, m.A.SlidingWindow, d), Rotary: m.block.Position == "rope"}
	var made []step.T
	if m.block.Position == "alibi" {
		bias := t.Input(t.Shape.N()*t.Shape.Tokens*m.A.Heads, d)
		if m.Full.Mask != nil {
			t.Drop(*m.Full.Mask)
		}
		m.Full.Mask = &bias
	}
	if m.Full.Mask != nil {
		made = append(made, *m.Full.Mask)
	}
	if m.Full.Rotary {
		m.Full.Cos, m.Full.Sin = blocks.RotaryTables(t, m.block.RotaryWidth, d)
		made = append(made, m.Full.Cos, m.Full.Sin)
	}
	return made
}

// layer runs attention and MLP one after the other or beside each other, with the norms where the block has them.
func (m *generic) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.Layers[i]
	switch {
	case m.block.PostNorm:
		middle := m.residual(t, x, m.attend(t, l, t.Hold(x)), &l.InputNorm)
		y := m.residual(t, middle, m.feedForward(t, i, t.Hold(middle)), &l.PreFeedforwardNorm)
		t.Drop(middle)
		return y
	case m.block.Parallel:
		return m.parallelLayer(t, i, x)
	}
	t.In(step.PartNorm)
	attn := m.attend(t, l, m.Normalize(l.InputNorm, t, x))
	middle := m.residual(t, x, m.behind(t, attn, &l.PostAttentionNorm), nil)
	h := m.Normalize(l.PreFeedforwardNorm, t, middle)
	y := m.residual(t, middle, m.behind(t, m.feedForward(t, i, h), &l.PostFeedforwardNorm), nil)
	t.Drop(middle)
	return y
}

// parallelLayer is x + attention(norm(x)) + mlp(norm(x)), where the norms may be one.
func (m *generic) parallelLayer(t *step.Tape, i int, x step.T) step.T {
	l := &m.Layers[i]
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	attn := m.attend(t, l, t.Hold(h))
	if m.block.Norms == 2 {
		t.Drop(h)
		h = m.Normalize(l.PreFeedforwardNorm, t, x)
	}
	mlp := m.feedForward(t, i, h)
	both := t.Add(attn, mlp, step.LabelResidual)
	t.Drop(attn, mlp)
	y := t.Add(both, x, step.LabelResidual)
	t.Drop(both)
	return y
}

// behind is a norm on the output of attention or MLP, where there are four of them. It takes over y.
func (m *generic) behind(t *step.Tape, y step.T, g *arch.Norm) step.T {
	if m.block.Norms != 4 {
		return y
	}
	normed := m.Normalize(*g, t, y)
	t.Drop(y)
	return normed
}

// residual is x + y and, behind it, the norm g if there is one. It takes over y.
func (m *generic) residual(t *step.Tape, x, y step.T, g *arch.Norm) step.T {
	t.In(step.PartNorm)
	sum := t.Add(x, y, step.LabelResidual)
	t.Drop(y)
	if g == nil {
		return sum
	}
	normed := m.Normalize(*g, t, sum)
	t.Drop(sum)
	return normed
}

// attend is self-attention with dropout behind it. It takes over h.
func (m *generic) attend(t *step.Tape, l *blocks.DecoderLayer, h step.T) step.T {
	t.In(step.PartAttention)
	w := m.Full
	attn, probabilities := m.Attention(t, l, &w, h)
	t.Drop(h)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	dropped := t.Dropout(attn, m.A.ResidualDropout)
	t.Drop(attn)
	t.In(step.PartNorm)
	return dropped
}

// feedForward is the MLP, gated or not, or the mixture of experts, with dropout behind it. It takes over h.
func (m *generic) feedForward(t *step.Tape, i int, h step.T) step.T {
	t.In(step.PartMLP)
	l := &m.Layers[i]
	var y step.T
	switch {
	case l.Experts != nil:
		y = m.sparse(t, i, h)
	case m.A.Gated:
		y = m.MLP(t, l, h)
	default:
		up := l.Up.Forward(t, h)
		act := arch.Activation(t, m.A.Activation, up)
		t.Drop(up)
		y = l.Down.Forward(t, act)
		t.Drop(act)
	}
	t.Drop(h)
	dropped := t.Dropout(y, m.A.ResidualDropout)
	t.Drop(y)
	t.In(step.PartNorm)
	return dropped
}

// sparse is the mixture of experts and the shared one beside it.
func (m *generic) sparse(t *step.Tape, i int, h step.T) step.T {
	y, logits := m.Layers[i].Experts.Forward(t, h)
	t.Drop(logits)
	if m.block.sharedFFN == 0 {
		return y
	}
	shared := m.parts[i].shared.Forward(t, m.A, h)
	sum := t.Add(y, shared, step.LabelResidual)
	t.Drop(shared, y)
	return sum
}

// projectWide is q_norm(q_proj(x)), k_norm(k_proj(x)) and v_proj(x) with norms over all heads at once.
func projectWide(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (q, k, v step.T) {
	c := m.Copies(t, w)
	wide := func(p arch.Linear, g arch.Norm) step.T {
		y := p.Forward(t, x)
		n := m.Normalize(g, t, y)
		t.Drop(y)
		return n
	}
	q = t.Heads(wide(l.Q, l.QNorm), c.Query)
	k = t.Heads(wide(l.K, l.KNorm), c.Key)
	v = t.Heads(l.V.Forward(t, x), c.Value)
	return q, k, v
}

// Mixture are its experts, whose loop is replayed in every release.
func (own *Block) Mixture() (*arch.Experts, bool) { return own.Experts, false }
