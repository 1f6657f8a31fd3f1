package model

import "github.com/vramplan/vramplan/estimator/step"

// PaliGemma: the last hidden states of a SigLIP tower, through a linear layer, in the places of the tokens that stand
// for a picture; what stands before the answer sees all of itself, for which the model makes a mask. Source:
// transformers/models/paligemma/modeling_paligemma.py, configuration_paligemma.py, 4.57.
var paliGemmaFamily = family{modelType: "paligemma",
	classes:       []string{classConditional},
	keys:          seeingKeys,
	defaults:      map[string]any{"image_token_index": 256000.0},
	read:          (*config).paliGemma,
	uncompiled:    uncompiledSeeing,
	pictureTokens: patchTokens,
	build:         buildPaliGemma,
}

// patchTokens is a token for every patch of a picture.
func patchTokens(a *Architecture, height, width int64) (int64, string) {
	p := a.own.(seeing).picture
	return p.count(), p.squareOnly(height, width)
}

// paliGemmaOptions is what only PaliGemma has.
type paliGemmaOptions struct {
	// beyond says that the token that stands for a picture has no row in the embedding.
	beyond bool
}

func (c *config) paliGemma(a *Architecture) {
	text := c.textModel(a, "gemma", map[string]*family{"gemma": &gemmaFamily, "gemma2": &gemma2Family})
	own := c.siglipVision()
	key := "image_token_index"
	if _, given := c.given["image_token_id"]; given {
		key = "image_token_id"
	}
	own.own = paliGemmaOptions{beyond: c.token(key) >= a.Vocabulary}
	if text != nil {
		a.seen(text, own)
	}
}

// paliGemma is PaliGemmaForConditionalGeneration.
type paliGemma struct {
	own       seeing
	options   paliGemmaOptions
	tower     *siglip
	projector linear
	text      *decoder
}

func buildPaliGemma(b *builder) step.Network {
	own := b.a.own.(seeing)
	m := &paliGemma{own: own, options: own.own.(paliGemmaOptions), tower: b.siglip(own)}
	m.projector = b.linear("multi_modal_projector.linear", own.vision.hidden, b.a.Hidden, true)
	m.text = b.textModel(own)
	return m
}

// batchOfKinds is pixel_values, token_type_ids, input_ids, attention_mask and labels.
func batchOfKinds(t *step.Tape, own seeing) []step.T {
	pixels := pixelValues(t, own.picture.channels)
	kinds := t.Input(t.Shape.N(), step.I64)
	return append([]step.T{pixels, kinds}, batchWithMask(t)...)
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
	embedded := m.text.embeddings(t, known)
	counted := t.Input(t.Shape.Tokens, step.I64)
	positions := t.Input(t.Shape.Tokens, step.I64)
	features := m.look(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, mask := scatterPictures(t, embedded, features, func() { t.Drop(former) })
	causal := m.mask(t)
	loss, outputs := m.text.read(t, handed{embedded: merged, positions: []step.T{counted, positions}, mask: &causal,
		locals: []step.T{mask, known, causal}}, labels)
	return loss, append(outputs, features)
}

// look is get_image_features in the type of the embeddings.
func (m *paliGemma) look(t *step.Tape, pixels step.T, d step.DType) step.T {
	last := m.tower.look(t, pixels)
	defer lookAtPictures(t, m.own.picture.count())()
	t.In(step.PartMLP)
	projected := m.projector.forward(t, last)
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
