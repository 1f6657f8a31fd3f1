package model

import "github.com/vramplan/vramplan/estimator/step"

var vitFamily = family{modelType: "vit",
	classes: []string{classImage},
	keys:    commonKeys,
	defaults: map[string]any{
		"hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0, "intermediate_size": 3072.0,
		"hidden_act":          "gelu",
		"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "image_size": 224.0, "patch_size": 16.0,
		"num_channels": 3.0, "qkv_bias": true},
	read:    (*config).vit,
	spelled: map[string]string{"attention_dropout": "attention_probs_dropout_prob", "attention_bias": "qkv_bias"},
	numbers: func(p *Preset, c map[string]any) {
		c["hidden_dropout_prob"], c["hidden_act"] = p.Dropout.Hidden, p.MLP
		c["image_size"], c["patch_size"] = float64(p.ImageSize), float64(p.PatchSize)
		c["num_labels"] = float64(p.Labels)
	},
	build: buildViT,
}

// rgb is how many channels a picture has where nothing else is said.
const rgb = 3

// patches is how a vision model cuts a picture.
type patches struct{ image, patch, channels int64 }

// count is the number of patches of one picture.
func (p patches) count() int64 { return (p.image / p.patch) * (p.image / p.patch) }

// tokens is one for every patch and one for the class; 0 where the sizes are not known.
func (p patches) tokens() int64 {
	if p.image < 1 || p.patch < 1 {
		return 0
	}
	return p.count() + 1
}

// patches reads a picture's sizes. The upper limit keeps the number of patches far from the end of an int64.
func (c *config) patches() patches {
	const maxSide = 1 << 14
	p := patches{image: c.integer("image_size", maxSide), patch: c.integer("patch_size", maxSide),
		channels: c.integer("num_channels", maxSide)}
	if p.patch > p.image {
		c.errs.Add(c.pointer+"/patch_size", "conflict", "patch_size is %d and image_size %d: not one patch fits",
			p.patch, p.image)
	}
	return p
}

func (c *config) vit(a *Architecture) {
	a.Layers, a.Hidden = c.integer("num_hidden_layers", maxLayers), c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Activation = c.activation("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.probability("hidden_dropout_prob"),
		c.probability("attention_probs_dropout_prob")
	a.EmbeddingDropout = a.ResidualDropout
	a.QKVBias = c.boolean("qkv_bias")
	if n, _ := c.value("num_labels"); n != 0.0 { // with which there is no classifier
		a.Labels = c.labels()
	}
	a.Vocabulary = max(a.Labels, 1)
	own := c.patches()
	a.own, a.FixedTokens = own, own.tokens()
}

// vit is transformers' ViTForImageClassification (modeling_vit.py, 4.57).
type vit struct {
	a              *Architecture
	own            patches
	projection     convolution
	class, places  step.Weight
	layers         []vitLayer
	final          norm
	classifier     linear
	classification bool
}

type vitLayer struct {
	q, k, v, out, up, down linear
	before, after          norm
}

func buildViT(b *builder) step.Network {
	a, d := b.a, b.a.Hidden
	m := &vit{a: a, own: a.own.(patches), layers: make([]vitLayer, b.recorded), classification: a.Labels > 0}
	m.projection = b.convolution("patch_embeddings.projection", m.own.channels, d, m.own.patch, m.own.patch, true)
	m.class = b.parameter("cls_token", 1, d)
	m.places = b.parameter("position_embeddings", m.own.tokens(), d)
	b.outer(m.places, 1)
	b.ahead(m.class, m.projection.w)
	b.ahead(m.places, m.projection.b)
	b.stack(func(i int64) { m.layers[i] = b.vitLayer() })
	m.final = b.norm("layernorm", d, true)
	if m.classification {
		m.classifier = b.linear("classifier", d, a.Labels, true)
		m.classifier.matrix = true
	}
	return m
}

func (b *builder) vitLayer() vitLayer {
	a, d := b.a, b.a.Hidden
	var l vitLayer
	l.q, l.k = b.linear("attention.attention.query", d, d, a.QKVBias),
		b.linear("attention.attention.key", d, d, a.QKVBias)
	l.v, l.out = b.linear("attention.attention.value", d, d, a.QKVBias), b.linear("attention.output.dense", d, d, true)
	mlp := func() {
		l.up, l.down = b.linear("intermediate.dense", d, a.FFN, true), b.linear("output.dense", a.FFN, d, true)
	}
	if !a.Software.RenamesViT {
		mlp()
	}
	l.before, l.after = b.norm("layernorm_before", d, true), b.norm("layernorm_after", d, true)
	if a.Software.RenamesViT { // whose norms are named before the MLP
		mlp()
	}
	return l
}

// Batch is pixel_values in float32 and labels.
func (m *vit) Batch(t *step.Tape) []step.T {
	d := step.I64
	if m.a.Labels == 1 {
		d = step.F32 // a regression
	}
	side := m.own.image
	return []step.T{t.Input(t.Shape.Batch*m.own.channels*side*side, step.F32), t.Input(t.Shape.Batch, d)}
}

func (m *vit) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, labels := batch[0], batch[1]
	t.In(step.PartEmbedding)
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	embedded := m.embeddings(t, stored)
	x := runLayers(t, m.a, len(m.layers), t.Hold(embedded), step.Besides{}, m.layer)
	t.In(step.PartNorm)
	normed := m.final.layer(t, x)
	t.Drop(x, embedded, stored)
	defer t.Drop(normed)
	if !m.classification {
		return baseLoss(t, normed, nil)
	}
	first := t.FirstToken(normed, m.a.Hidden)
	logits := m.classifier.scores(t, first)
	t.Drop(first)
	return classificationLoss(t, m.a, logits, labels)
}

// embeddings is ViTEmbeddings: patches, the class token before them, and positions.
func (m *vit) embeddings(t *step.Tape, pixels step.T) step.T {
	// The patches are what get_input_embeddings names, so that their output is what a hook makes require a gradient.
	cut := t.InputGradient(t.Convolution(pixels, m.projection.w, m.projection.b, m.own.count(), true))
	all := t.Concat(t.Repeated(m.class), cut, step.LabelEmbedding)
	t.Drop(cut)
	placed := t.Add(all, t.Parameter(m.places), step.LabelPositions)
	t.Drop(all)
	y := t.Dropout(placed, m.a.EmbeddingDropout)
	t.Drop(placed)
	return y
}

func (m *vit) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	if m.a.Software.RenamesViT {
		return m.reassigningLayer(t, l, x)
	}
	t.In(step.PartNorm)
	normed := l.before.layer(t, x)
	t.In(step.PartAttention)
	attended := m.attention(t, l, normed)
	t.In(step.PartNorm)
	middle := t.Add(attended, x, step.LabelResidual)
	h := l.after.layer(t, middle)
	t.In(step.PartMLP)
	up := l.up.forward(t, h)
	act := activation(t, m.a.Activation, up)
	t.Drop(up, h)
	down := m.dropped(t, l.down.forward(t, act))
	y := t.Add(down, middle, step.LabelResidual)
	t.Drop(down, act, middle, normed, attended)
	return y
}

// dropped is the hidden dropout; it takes over x.
func (m *vit) dropped(t *step.Tape, x step.T) step.T {
	y := t.Dropout(x, m.a.ResidualDropout)
	t.Drop(x)
	return y
}

// context is the attention itself; it also returns the probabilities where they are formed.
func (m *vit) context(t *step.Tape, heads step.Heads, q, k, v step.T) (y, probabilities step.T) {
	if t.Recipe.Attention == step.AttentionEager {
		return t.Eager(step.EagerAttention{Heads: heads, Dropout: m.a.AttentionDropout, Upcast: true}, q, k, v)
	}
	return t.TokensFirst(t.SDPA(q, k, v, heads, nil, m.a.AttentionDropout), heads, false), step.NoTensor
}

// attention is ViTAttention: keys, values and queries in this order.
func (m *vit) attention(t *step.Tape, l *vitLayer, x step.T) step.T {
	heads := m.a.geometry()
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, false)
	k := t.Heads(l.k.forward(t, x), copiesK)
	v := t.Heads(l.v.forward(t, x), copiesQV)
	q := t.Heads(l.q.forward(t, x), copiesQV)
	context, probabilities := m.context(t, heads, q, k, v)
	t.Drop(q, k, v)
	y := m.dropped(t, l.out.forward(t, context))
	t.Drop(context, probabilities)
	return y
}
