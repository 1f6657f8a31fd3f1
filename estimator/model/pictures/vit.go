package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// ViTFamily is ViT.
var ViTFamily = arch.Family{ModelType: "vit",
	Classes: []string{arch.ClassImage},
	Keys:    arch.CommonKeys,
	Defaults: map[string]any{
		"hidden_size": 768.0, "num_hidden_layers": 12.0, "num_attention_heads": 12.0, "intermediate_size": 3072.0,
		"hidden_act":          "gelu",
		"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "image_size": 224.0, "patch_size": 16.0,
		"num_channels": 3.0, "qkv_bias": true},
	Read:    readViT,
	Spelled: map[string]string{"attention_dropout": "attention_probs_dropout_prob", "attention_bias": "qkv_bias"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		c["hidden_dropout_prob"], c["hidden_act"] = p.Dropout.Hidden, p.MLP
		c["image_size"], c["patch_size"] = float64(p.ImageSize), float64(p.PatchSize)
		c["num_labels"] = float64(p.Labels)
	},
	Build: buildViT,
}

// Rgb is how many channels a picture has where nothing else is said.
const Rgb = 3

// Patches is how a vision model cuts a picture.
type Patches struct{ Image, Patch, channels int64 }

// count is the number of patches of one picture.
func (p Patches) count() int64 { return (p.Image / p.Patch) * (p.Image / p.Patch) }

// tokens is one for every patch and one for the class; 0 where the sizes are not known.
func (p Patches) tokens() int64 {
	if p.Image < 1 || p.Patch < 1 {
		return 0
	}
	return p.count() + 1
}

// patches reads a picture's sizes. The upper limit keeps the number of patches far from the end of an int64.
func patches(c *arch.Config) Patches {
	const maxSide = 1 << 14
	p := Patches{Image: c.Integer("image_size", maxSide), Patch: c.Integer("patch_size", maxSide),
		channels: c.Integer("num_channels", maxSide)}
	if p.Patch > p.Image {
		c.Errs.Add(c.Pointer+"/patch_size", "conflict", "patch_size is %d and image_size %d: not one patch fits",
			p.Patch, p.Image)
	}
	return p
}

func readViT(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers, a.Hidden = c.Integer("num_hidden_layers", arch.MaxLayers), c.Integer("hidden_size", arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("intermediate_size", arch.MaxRows)
	a.Activation = c.Activation("hidden_act", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.Probability("hidden_dropout_prob"),
		c.Probability("attention_probs_dropout_prob")
	a.EmbeddingDropout = a.ResidualDropout
	a.QKVBias = c.Boolean("qkv_bias")
	if n, _ := c.Value("num_labels"); n != 0.0 { // with which there is no classifier
		a.Labels = c.Labels()
	}
	a.Vocabulary = max(a.Labels, 1)
	own := patches(c)
	a.Own, a.FixedTokens = own, own.tokens()
	return a
}

// vit is transformers' ViTForImageClassification (modeling_vit.py, 4.57).
type vit struct {
	a              *arch.Architecture
	own            Patches
	projection     arch.Convolution
	class, places  step.Weight
	layers         []vitLayer
	final          arch.Norm
	classifier     arch.Linear
	classification bool
}

type vitLayer struct {
	q, k, v, out, up, down arch.Linear
	before, after          arch.Norm
}

func buildViT(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &vit{a: a, own: a.Own.(Patches), layers: make([]vitLayer, b.Recorded), classification: a.Labels > 0}
	m.projection = b.Convolution("patch_embeddings.projection", m.own.channels, d, m.own.Patch, m.own.Patch, true)
	m.class = b.Parameter("cls_token", 1, d)
	m.places = b.Parameter("position_embeddings", m.own.tokens(), d)
	b.Outer(m.places, 1)
	b.Ahead(m.class, m.projection.W)
	b.Ahead(m.places, m.projection.B)
	b.Stack(func(i int64) { m.layers[i] = buildViTLayer(b) })
	m.final = b.Norm("layernorm", d, true)
	if m.classification {
		m.classifier = b.Linear("classifier", d, a.Labels, true)
		m.classifier.Matrix = true
	}
	return m
}

// renamesViT is ViT with q_proj, k_proj and v_proj, in this order, whose attention lets go of its input.
var renamesViT = release.Declare("renames-vit", release.Change{
	Library: "transformers", After: "5.0", From: "5.10",
	What: "ViT's attention in transformers 5.23 computes queries first, and lets go of its input " +
		"before the residual",
	Source: "models/vit/modeling_vit.py (ViTAttention), 4.57.6 and 5.23.0", Shown: "traces of ViT",
})

func buildViTLayer(b *arch.Builder) vitLayer {
	a, d := b.A, b.A.Hidden
	var l vitLayer
	l.q, l.k = b.Linear("attention.attention.query", d, d, a.QKVBias),
		b.Linear("attention.attention.key", d, d, a.QKVBias)
	l.v, l.out = b.Linear("attention.attention.value", d, d, a.QKVBias), b.Linear("attention.output.dense", d, d, true)
	mlp := func() {
		l.up, l.down = b.Linear("intermediate.dense", d, a.FFN, true), b.Linear("output.dense", a.FFN, d, true)
	}
	if !a.Software.Has(renamesViT) {
		mlp()
	}
	l.before, l.after = b.Norm("layernorm_before", d, true), b.Norm("layernorm_after", d, true)
	if a.Software.Has(renamesViT) { // whose norms are named before the MLP
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
	side := m.own.Image
	return []step.T{t.Input(t.Shape.Batch*m.own.channels*side*side, step.F32), t.Input(t.Shape.Batch, d)}
}

func (m *vit) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, labels := batch[0], batch[1]
	t.In(step.PartEmbedding)
	stored := t.Cast(pixels, t.Recipe.Stored, step.LabelCast)
	embedded := m.embeddings(t, stored)
	x := blocks.RunLayers(t, m.a, len(m.layers), t.Hold(embedded), step.Besides{}, m.layer)
	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, embedded, stored)
	defer t.Drop(normed)
	if !m.classification {
		return blocks.BaseLoss(t, normed, nil)
	}
	first := t.FirstToken(normed, m.a.Hidden)
	logits := m.classifier.Scores(t, first)
	t.Drop(first)
	return blocks.ClassificationLoss(t, m.a, logits, labels)
}

// embeddings is ViTEmbeddings: patches, the class token before them, and positions.
func (m *vit) embeddings(t *step.Tape, pixels step.T) step.T {
	// The patches are what get_input_embeddings names, so that their output is what a hook makes require a gradient.
	cut := t.InputGradient(t.Convolution(pixels, m.projection.W, m.projection.B, m.own.count(), true))
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
	if m.a.Software.Has(renamesViT) {
		return m.reassigningLayer(t, l, x)
	}
	t.In(step.PartNorm)
	normed := l.before.Layer(t, x)
	t.In(step.PartAttention)
	attended := m.attention(t, l, normed)
	t.In(step.PartNorm)
	middle := t.Add(attended, x, step.LabelResidual)
	h := l.after.Layer(t, middle)
	t.In(step.PartMLP)
	up := l.up.Forward(t, h)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up, h)
	down := m.dropped(t, l.down.Forward(t, act))
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
	heads := m.a.Geometry()
	copiesQV, copiesK := t.CopiesEncoderGradient(heads, false)
	k := t.Heads(l.k.Forward(t, x), copiesK)
	v := t.Heads(l.v.Forward(t, x), copiesQV)
	q := t.Heads(l.q.Forward(t, x), copiesQV)
	context, probabilities := m.context(t, heads, q, k, v)
	t.Drop(q, k, v)
	y := m.dropped(t, l.out.Forward(t, context))
	t.Drop(context, probabilities)
	return y
}
