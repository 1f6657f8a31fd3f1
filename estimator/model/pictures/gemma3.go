package pictures

import (
	"maps"
	"math"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Gemma3Family is Gemma 3 with a text_config: the text model alone or, where vision_config stands beside it, behind a
// SigLIP tower whose patches are averaged over squares, normed and multiplied by a matrix. Tokens of one picture see
// each other, for which the model makes a mask for either kind of layers. Source:
// transformers/models/gemma3/modeling_gemma3.py, configuration_gemma3.py, 4.57 and 5.23.
var Gemma3Family = arch.Family{ModelType: "gemma3", Keys: arch.CommonKeys, Build: buildAnyGemma3,
	Defaults:   decoders.Gemma3Defaults,
	Classes:    []string{arch.ClassCausalLM, arch.ClassLMHead, arch.ClassConditional},
	Uncompiled: "", WithoutTower: "Gemma3ForCausalLM",
	Numbers: func(_ *arch.Preset, c map[string]any) {
		text := maps.Clone(c)
		clear(c)
		c["text_config"] = text
	},
	PictureTokens: func(a *arch.Architecture, height, width int64) (int64, string) {
		own := a.Own.(Seeing)
		return own.own.(gemma3Options).tokens, own.Picture.squareOnly(height, width)
	},
	Read: readGemma3}

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
	own Seeing
}

func (m gemma3Beside) declare(b *arch.Builder) { declareGemma3Tower(b, m.own) }

func readGemma3(c *arch.Config, a arch.Architecture) arch.Architecture {
	given, ok := c.Given["text_config"].(map[string]any)
	if !ok {
		c.Errs.Add(c.Pointer+"/text_config", "required",
			"text_config is the object that describes the text model, not %s", arch.Describe(c.Given["text_config"]))
		return a
	}
	if c.Given["vision_config"] == nil {
		if a.Class == arch.ClassConditional {
			c.Errs.Add(c.Pointer+"/vision_config", "required", "the class that sees has a tower, which vision_config "+
				"describes; for the text model alone, give the object under text_config as hf_config")
		}
		a = decoders.ReadGemma3(&arch.Config{Given: given, Defaults: c.Defaults, Errs: c.Errs, Asked: c.Asked,
			Pointer: c.Pointer + "/text_config",
			Read:    map[string]bool{}}, a)
		return a
	}
	text := readTextModel(c, &a, "gemma3_text", map[string]*arch.Family{"gemma3_text": &decoders.Gemma3TextFamily})
	own := siglipVision(c)
	seen := &arch.Config{Given: c.Given, Defaults: gemma3SeeingDefaults, Errs: c.Errs, Asked: c.Asked,
		Pointer: c.Pointer,
		Read:    c.Read}
	options := gemma3Options{tokens: seen.Integer("mm_tokens_per_image", arch.MaxRows)}
	if side := int64(math.Sqrt(float64(options.tokens))); side < 1 || own.Picture.Patch < 1 ||
		own.Picture.Image/own.Picture.Patch%side != 0 || side*side != options.tokens {
		c.Errs.Add(c.Pointer+"/mm_tokens_per_image", "out_of_range", "mm_tokens_per_image is %d; the patches of a "+
			"picture are averaged over squares, so that it is a square number whose root divides their number a side",
			options.tokens)
	}
	options.beyond = seen.Token("image_token_index") >= a.Vocabulary
	if classes, ok := c.Given["architectures"].([]any); ok && len(classes) > 0 {
		options.textClass = a.Class != arch.ClassConditional
	}
	own.own = options
	if text != nil {
		a = standBehind(a, text, own)
	}
	return a
}

// Source: transformers/models/gemma3/configuration_gemma3.py (Gemma3Config), 4.57.
var gemma3SeeingDefaults = map[string]any{"mm_tokens_per_image": 256.0, "image_token_index": 262144.0}

// gemma3 is Gemma3ForConditionalGeneration.
type gemma3 struct {
	own       Seeing
	options   gemma3Options
	tower     *siglip
	projector step.Weight
	norm      arch.Norm
	text      *blocks.Decoder
}

func buildAnyGemma3(b *arch.Builder) step.Network {
	own, sees := b.A.Own.(Seeing)
	if !sees {
		return decoders.BuildGemma3(b)
	}
	m := declareGemma3Tower(b, own)
	m.text = buildTextModel(b, own)
	return m
}

// declareGemma3Tower lists the tower and the projector, which stand before the text model.
func declareGemma3Tower(b *arch.Builder, own Seeing) *gemma3 {
	m := &gemma3{own: own, options: own.own.(gemma3Options), tower: buildSiglip(b, own)}
	m.tower.turned = true
	d := own.Vision.Hidden
	m.norm = b.Norm("multi_modal_projector.mm_soft_emb_norm", d, false)
	m.projector = b.Parameter("multi_modal_projector.mm_input_projection_weight", d, b.A.Hidden)
	b.Ahead(m.projector, m.norm.W)
	return m
}

// Batch is pixel_values, token_type_ids, input_ids, attention_mask and labels.
func (m *gemma3) Batch(t *step.Tape) []step.T {
	return batchOfKinds(t, m.own)
}

// plainPictureLoss has Gemma 3 with pictures compute the loss that all decoders have, not that of tokens that are
// chosen by the mask.
var plainPictureLoss = arch.Of(func(a *arch.Architecture, _ arch.Use) bool { return a.Family == "gemma3" && a.HasTower() },
	release.Declare("plain-picture-loss", release.Change{
		Library: "transformers", After: "4.57", From: "5.17",
		What: "Gemma 3 with pictures computes the loss of all decoders in transformers 5.17, and not of logits that " +
			"it has made float32 and chosen by the batch's mask",
		Source: "models/gemma3/modeling_gemma3.py (Gemma3ForConditionalGeneration.forward), 4.57.6 and 5.23.0",
		Shown:  "traces of Gemma 3 with pictures",
	}))

func (m *gemma3) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	pixels, ids, labels := batch[0], batch[2], batch[4]
	t.In(step.PartEmbedding)
	former, known := wordsAmongPictures(t, ids, m.options.beyond)
	embedded := m.text.Embeddings(t, known)
	positions := t.Input(t.Shape.Tokens, step.I64)
	features, returned := m.look(t, pixels, embedded.Dtype())
	t.In(step.PartEmbedding)
	merged, shown := scatterPictures(t, embedded, features, func() { t.Drop(former) })
	groups := groupPictures(t)
	full, sliding := groups.mask(t, false), groups.mask(t, true)
	given := blocks.Handed{Embedded: merged, Mask: &full, Sliding: &sliding, Positions: []step.T{t.Hold(positions)},
		Locals: []step.T{full, sliding, positions, groups.shown, groups.begins, groups.numbers, shown, known},
		Ended:  func() { t.Drop(returned[0]); t.Drop(returned[1]) }}
	if !t.Recipe.Software.Has(plainPictureLoss) {
		given.Loss = attendedLoss
	}
	loss, outputs := m.text.Read(t, given, labels)
	return loss, append(outputs, features)
}

// look is get_image_features in the type of the embeddings. Where the caller holds what it returned, these are the
// tower's output and the projector's.
func (m *gemma3) look(t *step.Tape, pixels step.T, d step.DType) (features step.T, returned [2]step.T) {
	last := m.tower.look(t, pixels)
	defer lookAtPictures(t, m.options.tokens)()
	t.In(step.PartMLP)
	side := m.own.Picture.Image / m.own.Picture.Patch / int64(math.Sqrt(float64(m.options.tokens)))
	dense := t.Contiguous(last)
	pooled := t.AveragePool(dense, last.Numel()/(side*side))
	normed := t.GemmaRMSNorm(pooled, m.norm.W)
	projected := t.TimesParameter(normed, m.projector, step.LabelLinear)
	wide := t.Cast(projected, last.Dtype(), step.LabelCast)
	returned = [2]step.T{step.NoTensor, step.NoTensor}
	if t.Recipe.Software.Has(returnsTower) {
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
