package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// PaliGemmaFamily is PaliGemma: the last hidden states of a SigLIP tower, through a linear layer, in the places of the
// tokens that stand for a picture; what stands before the answer sees all of itself, for which the model makes a mask.
// Source: transformers/models/paligemma/modeling_paligemma.py, configuration_paligemma.py, 4.57.
var PaliGemmaFamily = arch.Family{ModelType: "paligemma",
	Classes:       []string{arch.ClassConditional},
	Keys:          seeingKeys,
	Defaults:      map[string]any{"image_token_index": 256000.0},
	Read:          readPaliGemma,
	Uncompiled:    arch.UncompiledSeeing,
	PictureTokens: patchTokens,
	Build:         buildPaliGemma,
}

// patchTokens is a token for every patch of a picture.
func patchTokens(a *arch.Architecture, height, width int64) (int64, string) {
	p := a.Own.(Seeing).Picture
	return p.count(), p.squareOnly(height, width)
}

// paliGemmaOptions is what only PaliGemma has.
type paliGemmaOptions struct {
	// beyond says that the token that stands for a picture has no row in the embedding.
	beyond bool
}

func readPaliGemma(c *arch.Config, a arch.Architecture) arch.Architecture {
	text := readTextModel(c, &a, "gemma", map[string]*arch.Family{"gemma": &decoders.GemmaFamily,
		"gemma2": &decoders.Gemma2Family})
	own := siglipVision(c)
	key := "image_token_index"
	if _, given := c.Given["image_token_id"]; given {
		key = "image_token_id"
	}
	own.own = paliGemmaOptions{beyond: c.Token(key) >= a.Vocabulary}
	if text != nil {
		a = standBehind(a, text, own)
	}
	return a
}

// readPaliGemma is PaliGemmaForConditionalGeneration.
type paliGemma struct {
	own       Seeing
	options   paliGemmaOptions
	tower     *siglip
	projector arch.Linear
	text      *blocks.Decoder
}

func buildPaliGemma(b *arch.Builder) step.Network {
	own := b.A.Own.(Seeing)
	m := &paliGemma{own: own, options: own.own.(paliGemmaOptions), tower: buildSiglip(b, own)}
	m.projector = b.Linear("multi_modal_projector.linear", own.Vision.Hidden, b.A.Hidden, true)
	m.text = buildTextModel(b, own)
	return m
}

// batchOfKinds is pixel_values, token_type_ids, input_ids, attention_mask and labels.
func batchOfKinds(t *step.Tape, own Seeing) []step.T {
	pixels := pixelValues(t, own.Picture.channels)
	kinds := t.Input(t.Shape.N(), step.I64)
	return append([]step.T{pixels, kinds}, blocks.BatchWithMask(t)...)
}

// wordsAmongPictures are the ids that are looked up: where a picture's lies beyond the vocabulary, former says where
// others were put in their place.
func wordsAmongPictures(t *step.Tape, ids step.T, beyond bool) (former, known step.T) {
	if !beyond {
		return step.NoTensor, t.Hold(ids)
	}
	return t.Input(t.Shape.N(), step.Bool), t.Input(t.Shape.N(), step.I64)
}

// Batch is pixel_values, token_type_ids, input_ids, attention_mask and labels.
func (m *paliGemma) Batch(t *step.Tape) []step.T {
	return batchOfKinds(t, m.own)
}

func (m *paliGemma) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[2], batch[4]
	t.In(step.PartEmbedding)
	former, known := wordsAmongPictures(t, ids, m.options.beyond)
	embedded := m.text.Embeddings(t, known)
	counted := t.Input(t.Shape.Tokens, step.I64)
	positions := t.Input(t.Shape.Tokens, step.I64)
	features := m.look(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, mask := scatterPictures(t, embedded, features, func() { t.Drop(former) })
	causal := m.mask(t)
	loss, outputs := m.text.Read(t, blocks.Handed{Embedded: merged, Positions: []step.T{counted, positions},
		Mask:   &causal,
		Locals: []step.T{mask, known, causal}}, labels)
	return loss, append(outputs, features)
}

// look is get_image_features in the type of the embeddings.
func (m *paliGemma) look(t *step.Tape, pixels step.T, d step.DType) step.T {
	last := m.tower.look(t, pixels)
	defer lookAtPictures(t, m.own.Picture.count())()
	t.In(step.PartMLP)
	projected := m.projector.Forward(t, last)
	scaled := t.MulScalar(projected, step.LabelLinear)
	t.Drop(projected, last)
	features := t.Cast(scaled, d, step.LabelCast)
	t.Drop(scaled)
	return features
}

// mask is _update_causal_mask in training: what follows is hidden, but not within the prefix, and padding always.
func (m *paliGemma) mask(t *step.Tape) step.T {
	n, b, d := t.Shape.Tokens, t.Shape.Batch, t.Recipe.Stored
	causal := t.Input(n*n, d)
	if n > 1 {
		full := causal
		causal = t.Input(n*n, d)
		t.Drop(full)
	}
	columns, behind := t.Input(n, step.I64), t.Input(n*n, step.Bool)
	t.Drop(columns, behind)
	mask := t.Input(b*n*n, d)
	t.Drop(causal)
	prefix := t.Input(b*n, step.Bool)
	open := t.Input(b*n*n, d)
	t.Drop(prefix, open)
	sum := t.Input(b*n*n, d)
	padded := t.Input(b*n*n, step.Bool)
	t.Drop(sum)
	t.Drop(t.Input(b*n*n, d))
	t.Drop(padded)
	return mask
}
