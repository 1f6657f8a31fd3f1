package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/encoderdecoders"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/step"
)

// clipTextOptions are the numbers of CLIPTextModel and CLIPTextModelWithProjection.
type clipTextOptions struct {
	sizes                     pictures.CLIPSizes
	words, places, projection int64
	projects, legacyEnd       bool
}

func readCLIPText(c *arch.Config) textOptions {
	o := clipTextOptions{sizes: pictures.CLIPTower(c), words: c.Integer("vocab_size", arch.MaxRows),
		places: c.Integer("max_position_embeddings", arch.MaxRows), projection: c.Optional("projection_dim", arch.MaxWidth)}
	end, _ := c.Value("eos_token_id")
	o.legacyEnd = end == 2.0
	if o.projection == 0 {
		o.projection = 512 // CLIPTextConfig's
	}
	if list, ok := c.Given["architectures"].([]any); ok && len(list) > 0 {
		o.projects = list[0] == "CLIPTextModelWithProjection"
	}
	return o
}

func (o clipTextOptions) layers() int64 { return o.sizes.Layers }

// readCLIPText is CLIPTextModel, with the projection of what is pooled where it has one.
type clipText struct {
	pictures.CLIP
	projects bool
}

func (o clipTextOptions) declare(b *arch.Builder, first int) textEncoder {
	m := &clipText{projects: o.projects}
	a := *b.A
	a.Family, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery, a.AttentionDropout = "", 0, nil, 0, 0
	m.A, m.Own = &a, pictures.CLIPOptions{Text: o.sizes, Projection: o.projection, LegacyEnd: o.legacyEnd}
	m.Words = b.Embedding("text_model.embeddings.token_embedding", o.words, o.sizes.Hidden)
	m.WordPlaces = b.Embedding("text_model.embeddings.position_embedding", o.places, o.sizes.Hidden)
	b.Buffer("text_model.embeddings.position_ids", o.places, step.I64)
	m.Text = m.Declare(b, "text_model", o.sizes)
	m.Text.M, m.Text.First = &m.CLIP, first
	m.Final = b.Norm("text_model.final_layer_norm", o.sizes.Hidden, true)
	if o.projects {
		m.TextProjection = b.Linear("text_projection", o.sizes.Hidden, o.projection, false)
		m.TextProjection.Matrix = true
	}
	return m
}

// encode is CLIPTextModel.forward without a mask of its own: tokens see those before them.
// Source: transformers/models/clip/modeling_clip.py (CLIPTextTransformer.forward), 4.57.
func (m *clipText) encode(t *step.Tape) (hidden, pooled step.T) {
	ids := t.Input(t.Shape.N(), step.I64)
	hidden, pooled = m.read(t, ids)
	t.Drop(ids)
	return hidden, pooled
}

// read is encode of ids that it borrows.
func (m *clipText) read(t *step.Tape, ids step.T) (hidden, pooled step.T) {
	t.In(step.PartEmbedding)
	words := t.Embedding(ids, m.Words, step.LabelEmbedding)
	places := t.Embedding(t.Buffered(t.Shape.Tokens, step.I64), m.WordPlaces, step.LabelPositions)
	embedded := t.Add(words, places, step.LabelEmbedding)
	t.Drop(words, places)
	mask := m.causalMask(t, embedded.Dtype())
	x := m.Text.Forward(t, t.Hold(embedded), step.Besides{})
	t.In(step.PartNorm)
	hidden = m.Final.Layer(t, x)
	t.Drop(x)
	rows, ends := t.Input(t.Shape.Batch, step.I64), m.Ends(t)
	pooled = t.PickTokens(hidden, m.Own.Text.Hidden, rows, ends)
	t.Drop(rows, ends, embedded, mask)
	if m.projects {
		projected := m.TextProjection.Forward(t, pooled)
		t.Drop(pooled)
		pooled = projected
	}
	return hidden, pooled
}

// CausalMask is the mask of what lies behind a token.
// Source: transformers/modeling_attn_mask_utils.py (_make_causal_mask), 4.57.
func (m *clipText) causalMask(t *step.Tape, d step.DType) step.T {
	m.Padding, m.Causal = step.NoTensor, step.NoTensor
	n := t.Shape.Tokens
	if n == 1 {
		return step.NoTensor
	}
	wide := t.Input(n*n, step.F32)
	places, next := t.Input(n, step.I64), t.Input(n, step.I64)
	behind := t.Input(n*n, step.Bool)
	t.Drop(next, behind)
	m.Padding = t.Cast(wide, d, step.LabelAttentionMask)
	t.Drop(wide, places)
	return m.Padding
}

// t5TextOptions are the numbers of T5EncoderModel.
type t5TextOptions struct{ a arch.Architecture }

func readT5Text(c *arch.Config) textOptions {
	a := arch.Architecture{Name: "t5", Family: "t5", Described: &encoderdecoders.T5Family}
	a = encoderdecoders.ReadT5(c, a)
	c.Check(&a, encoderdecoders.T5Family.Keys)
	a.Layers -= a.Decoder
	a.Decoder = 0
	return t5TextOptions{a: a}
}

func (o t5TextOptions) layers() int64 { return o.a.Layers }

// readT5Text is T5EncoderModel.
type t5Text struct{ encoderdecoders.T5 }

func (o t5TextOptions) declare(b *arch.Builder, first int) textEncoder {
	m := &t5Text{}
	a := o.a
	m.A, m.Own = &a, a.Own.(encoderdecoders.T5Options)
	m.Shared = b.Embedding("shared", a.Vocabulary, a.Hidden)
	m.Encoder = m.Declare(b, "encoder", a.Layers, false)
	m.Encoder.M, m.Encoder.First = &m.T5, first
	return m
}

// encode is T5EncoderModel.forward, which pools nothing.
func (m *t5Text) encode(t *step.Tape) (hidden, pooled step.T) {
	ids := t.Input(t.Shape.N(), step.I64)
	hidden = m.Encoder.Forward(t, ids, step.T{})
	t.Drop(ids)
	return hidden, step.NoTensor
}
