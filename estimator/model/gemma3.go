package model

import (
	"maps"
	"math"

	"github.com/vramplan/vramplan/estimator/step"
)

// Gemma 3 with a text_config: the text model alone or, where vision_config stands beside it, behind a SigLIP tower
// whose patches are averaged over squares, normed and multiplied by a matrix. Tokens of one picture see each other, for
// which the model makes a mask for either kind of layers.
// Source: transformers/models/gemma3/modeling_gemma3.py, configuration_gemma3.py, 4.57 and 5.23.
var gemma3Family = family{modelType: "gemma3", keys: commonKeys, build: buildAnyGemma3, defaults: gemma3Defaults,
	classes:    []string{classCausalLM, classLMHead, classConditional},
	uncompiled: "", withoutTower: "Gemma3ForCausalLM",
	numbers: func(_ *Preset, c map[string]any) {
		text := maps.Clone(c)
		clear(c)
		c["text_config"] = text
	},
	pictureTokens: func(a *Architecture, height, width int64) (int64, string) {
		own := a.own.(seeing)
		return own.own.(gemma3Options).tokens, own.picture.squareOnly(height, width)
	},
	read: (*config).gemma3}

// gemma3Options is what only Gemma 3 with pictures has.
type gemma3Options struct {
	// tokens are those of a picture.
	tokens int64
	// beyond says that the token that stands for a picture has no row in the embedding.
	beyond bool
	// textClass says that the file names the class of the text model alone.
	textClass bool
}

// gemma3Beside is what stands beside the text model, on a batch of text.
type gemma3Beside struct {
	nothingBehind
	own seeing
}

func (m gemma3Beside) declare(b *builder) { declareGemma3Tower(b, m.own) }

func (c *config) gemma3(a *Architecture) {
	given, ok := c.given["text_config"].(map[string]any)
	if !ok {
		c.errs.Add(c.pointer+"/text_config", "required",
			"text_config is the object that describes the text model, not %s", describe(c.given["text_config"]))
		return
	}
	if c.given["vision_config"] == nil {
		if a.Class == classConditional {
			c.errs.Add(c.pointer+"/vision_config", "required", "the class that sees has a tower, which vision_config "+
				"describes; for the text model alone, give the object under text_config as hf_config")
		}
		readGemma3(&config{given: given, defaults: c.defaults, errs: c.errs, asked: c.asked,
			pointer: c.pointer + "/text_config",
			read:    map[string]bool{}}, a)
		return
	}
	text := c.textModel(a, "gemma3_text", map[string]*family{"gemma3_text": &gemma3TextFamily})
	own := c.siglipVision()
	seen := &config{given: c.given, defaults: gemma3SeeingDefaults, errs: c.errs, asked: c.asked, pointer: c.pointer,
		read: c.read}
	options := gemma3Options{tokens: seen.integer("mm_tokens_per_image", maxRows)}
	if side := int64(math.Sqrt(float64(options.tokens))); side < 1 || own.picture.patch < 1 ||
		own.picture.image/own.picture.patch%side != 0 || side*side != options.tokens {
		c.errs.Add(c.pointer+"/mm_tokens_per_image", "out_of_range", "mm_tokens_per_image is %d; the patches of a "+
			"picture are averaged over squares, so that it is a square number whose root divides their number a side",
			options.tokens)
	}
	options.beyond = seen.token("image_token_index") >= a.Vocabulary
	if classes, ok := c.given["architectures"].([]any); ok && len(classes) > 0 {
		options.textClass = a.Class != classConditional
	}
	own.own = options
	if text != nil {
		a.seen(text, own)
	}
}

// Source: transformers/models/gemma3/configuration_gemma3.py (Gemma3Config), 4.57.
var gemma3SeeingDefaults = map[string]any{"mm_tokens_per_image": 256.0, "image_token_index": 262144.0}

// gemma3 is Gemma3ForConditionalGeneration.
type gemma3 struct {
	own       seeing
	options   gemma3Options
	tower     *siglip
	projector step.Weight
	norm      norm
	text      *decoder
}

func buildAnyGemma3(b *builder) step.Network {
	own, sees := b.a.own.(seeing)
	if !sees {
		return buildGemma3(b)
	}
	m := declareGemma3Tower(b, own)
	m.text = b.textModel(own)
	return m
}

// declareGemma3Tower lists the tower and the projector, which stand before the text model.
func declareGemma3Tower(b *builder, own seeing) *gemma3 {
	m := &gemma3{own: own, options: own.own.(gemma3Options), tower: b.siglip(own)}
	m.tower.turned = true
	d := own.vision.hidden
	m.norm = b.norm("multi_modal_projector.mm_soft_emb_norm", d, false)
	m.projector = b.parameter("multi_modal_projector.mm_input_projection_weight", d, b.a.Hidden)
	b.ahead(m.projector, m.norm.w)
	return m
}

// Batch is pixel_values, token_type_ids, input_ids, attention_mask and labels.
func (m *gemma3) Batch(t *step.Tape) []step.T {
	return batchOfKinds(t, m.own)
}

func (m *gemma3) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[2], batch[4]
	t.In(step.PartEmbedding)
	former, known := wordsAmongPictures(t, ids, m.options.beyond)
	embedded := m.text.embeddings(t, known)
	positions := t.Input(t.Shape.Tokens, step.I64)
	features, returned := m.look(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, shown := scatterPictures(t, embedded, features, func() { t.Drop(former) })
	groups := groupPictures(t)
	full, sliding := groups.mask(t, false), groups.mask(t, true)
	given := handed{embedded: merged, mask: &full, sliding: &sliding, positions: []step.T{t.Hold(positions)},
		locals: []step.T{full, sliding, positions, groups.shown, groups.begins, groups.numbers, shown, known},
		ended:  func() { t.Drop(returned[0]); t.Drop(returned[1]) }}
	if !t.Recipe.Software.PlainPictureLoss {
		given.loss = attendedLoss
	}
	loss, outputs := m.text.read(t, given, labels)
	return loss, append(outputs, features)
}

// look is get_image_features in the type of the embeddings. Where the caller holds what it returned, these are the
// tower's output and the projector's.
func (m *gemma3) look(t *step.Tape, pixels step.T, d step.DType) (features step.T, returned [2]step.T) {
	last := m.tower.look(t, pixels)
	defer lookAtPictures(t, m.options.tokens)()
	t.In(step.PartMLP)
	side := m.own.picture.image / m.own.picture.patch / int64(math.Sqrt(float64(m.options.tokens)))
	dense := t.Contiguous(last)
	pooled := t.AveragePool(dense, last.Numel()/(side*side))
	normed := t.GemmaRMSNorm(pooled, m.norm.w)
	projected := t.TimesParameter(normed, m.projector, step.LabelLinear)
	wide := t.Cast(projected, last.Dtype(), step.LabelCast)
	returned = [2]step.T{step.NoTensor, step.NoTensor}
	if t.Recipe.Software.ReturnsTower {
		returned = [2]step.T{t.Hold(last), t.Hold(wide)}
	}
	t.Drop(dense, pooled, normed, projected, last)
	features = t.Cast(wide, d, step.LabelCast)
	t.Drop(wide)
	return features, returned
}

// attendedLoss is the loss of the tokens whose next one is no padding, of the logits in float32.
func attendedLoss(t *step.Tape, logits, labels step.T) (wide, loss step.T) {
	wide = t.FloatLogits(logits)
	t.Drop(logits)
	return wide, t.AttendedLoss(wide, labels)
}
