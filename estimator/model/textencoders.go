package model

import "github.com/vramplan/vramplan/estimator/step"

// clipTextOptions are the numbers of CLIPTextModel and CLIPTextModelWithProjection.
type clipTextOptions struct {
	sizes                     clipSizes
	words, places, projection int64
	projects, legacyEnd       bool
}

func (c *config) clipText() textOptions {
	o := clipTextOptions{sizes: c.clipTower(), words: c.integer("vocab_size", maxRows),
		places: c.integer("max_position_embeddings", maxRows), projection: c.optional("projection_dim", maxWidth)}
	end, _ := c.value("eos_token_id")
	o.legacyEnd = end == 2.0
	if o.projection == 0 {
		o.projection = 512 // CLIPTextConfig's
	}
	if list, ok := c.given["architectures"].([]any); ok && len(list) > 0 {
		o.projects = list[0] == "CLIPTextModelWithProjection"
	}
	return o
}

func (o clipTextOptions) layers() int64 { return o.sizes.layers }

// clipText is CLIPTextModel, with the projection of what is pooled where it has one.
type clipText struct {
	clip
	projects bool
}

func (o clipTextOptions) declare(b *builder, first int) textEncoder {
	m := &clipText{projects: o.projects}
	a := *b.a
	a.Family, a.CheckpointEvery, a.Sliding, a.NoRotaryEvery, a.AttentionDropout = "", 0, nil, 0, 0
	m.a, m.own = &a, clipOptions{text: o.sizes, projection: o.projection, legacyEnd: o.legacyEnd}
	m.words = b.embedding("text_model.embeddings.token_embedding", o.words, o.sizes.hidden)
	m.wordPlaces = b.embedding("text_model.embeddings.position_embedding", o.places, o.sizes.hidden)
	b.buffer("text_model.embeddings.position_ids", o.places, step.I64)
	m.text = m.declare(b, "text_model", o.sizes)
	m.text.m, m.text.first = &m.clip, first
	m.final = b.norm("text_model.final_layer_norm", o.sizes.hidden, true)
	if o.projects {
		m.textProjection = b.linear("text_projection", o.sizes.hidden, o.projection, false)
		m.textProjection.matrix = true
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
	words := t.Embedding(ids, m.words, step.LabelEmbedding)
	places := t.Embedding(t.Buffered(t.Shape.Tokens, step.I64), m.wordPlaces, step.LabelPositions)
	embedded := t.Add(words, places, step.LabelEmbedding)
	t.Drop(words, places)
	mask := m.causalMask(t, embedded.Dtype())
	x := m.text.forward(t, t.Hold(embedded), step.Besides{})
	t.In(step.PartNorm)
	hidden = m.final.layer(t, x)
	t.Drop(x)
	rows, ends := t.Input(t.Shape.Batch, step.I64), m.ends(t)
	pooled = t.PickTokens(hidden, m.own.text.hidden, rows, ends)
	t.Drop(rows, ends, embedded, mask)
	if m.projects {
		projected := m.textProjection.forward(t, pooled)
		t.Drop(pooled)
		pooled = projected
	}
	return hidden, pooled
}

// causalMask is the mask of what lies behind a token.
// Source: transformers/modeling_attn_mask_utils.py (_make_causal_mask), 4.57.
func (m *clipText) causalMask(t *step.Tape, d step.DType) step.T {
	m.padding, m.causal = step.NoTensor, step.NoTensor
	n := t.Shape.Tokens
	if n == 1 {
		return step.NoTensor
	}
	wide := t.Input(n*n, step.F32)
	places, next := t.Input(n, step.I64), t.Input(n, step.I64)
	behind := t.Input(n*n, step.Bool)
	t.Drop(next, behind)
	m.padding = t.Cast(wide, d, step.LabelAttentionMask)
	t.Drop(wide, places)
	return m.padding
}

// t5TextOptions are the numbers of T5EncoderModel.
type t5TextOptions struct{ a Architecture }

func (c *config) t5Text() textOptions {
	a := Architecture{Name: "t5", Family: "t5", family: &t5Family}
	c.t5(&a)
	c.check(&a, t5Family.keys)
	a.Layers -= a.Decoder
	a.Decoder = 0
	return t5TextOptions{a: a}
}

func (o t5TextOptions) layers() int64 { return o.a.Layers }

// t5Text is T5EncoderModel.
type t5Text struct{ t5 }

func (o t5TextOptions) declare(b *builder, first int) textEncoder {
	m := &t5Text{}
	a := o.a
	m.a, m.own = &a, a.own.(t5Options)
	m.shared = b.embedding("shared", a.Vocabulary, a.Hidden)
	m.encoder = m.declare(b, "encoder", a.Layers, false)
	m.encoder.m, m.encoder.first = &m.t5, first
	return m
}

// encode is T5EncoderModel.forward, which pools nothing.
func (m *t5Text) encode(t *step.Tape) (hidden, pooled step.T) {
	ids := t.Input(t.Shape.N(), step.I64)
	hidden = m.encoder.forward(t, ids, step.T{})
	t.Drop(ids)
	return hidden, step.NoTensor
}
