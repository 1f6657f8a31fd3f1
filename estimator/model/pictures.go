package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// seeing is what a model that reads pictures among its tokens has besides its text model, which the architecture
// describes but for the layers of its tower.
type seeing struct {
	text       *family
	textOwn    any
	textLayers int64
	picture    patches
	vision     clipSizes
	// visionDropout is that of the tower's attention.
	visionDropout float64
	// frozen says that the tower is not trained.
	frozen bool
	// own is what only the family's own file understands.
	own any
}

// seeingKeys are where models that see say the numbers of their text model.
var seeingKeys = fieldNames{heads: "text_config/num_attention_heads", hidden: "text_config/hidden_size",
	kv: "text_config/num_key_value_heads", dim: "text_config/head_dim"}

// textFamily is that of the text model.
func (s seeing) textFamily() *family { return s.text }

// PictureSize is the size that the model's pictures have unless a job says otherwise; 0 where there is none.
func (a *Architecture) PictureSize() int64 {
	own, _ := a.own.(seeing)
	return own.picture.image
}

// LeavesPictures makes a model that sees the one that is trained on text, where that is described: its towers idle,
// unless its file names the class of the text model alone. It says whether it did.
func (a *Architecture) LeavesPictures() bool {
	own, sees := a.own.(seeing)
	if !sees || a.family.withoutTower == "" {
		return false
	}
	options := own.own.(gemma3Options)
	a.TextOf = &Whole{Family: a.Family, TextClass: a.family.withoutTower}
	a.own, a.Layers, a.Irregular, a.Class = own.textOwn, own.textLayers, false, classCausalLM
	if !options.textClass {
		a.beside = besideText{gemma3Beside{own: own}}
	}
	return true
}

// UsualPictures completes p with what a picture in a sequence of so many tokens usually is where it leaves that open,
// and says why; none where it leaves nothing open, or nothing fits. Pictures take up to three quarters of a sequence.
func (a *Architecture) UsualPictures(p Pictures, sequence int64) (usual Pictures, why string) {
	if a.family.usualPictures == nil {
		return Pictures{Images: max(p.Images, 1)}, ""
	}
	return a.family.usualPictures(a, p, sequence*3/4)
}

// Show gives the model its pictures, and returns how many tokens of a sequence they take. pointer is where the job says
// so.
func (a *Architecture) Show(p Pictures, pointer string, errs *invalid.List) (tokens int64) {
	own := a.own.(seeing)
	tokens, why := a.family.pictureTokens(a, p.Height, p.Width)
	if why != "" {
		errs.Add(pointer+"/image_size", "conflict", "%s", why)
		return 0
	}
	own.frozen = p.Frozen
	a.own = own
	return p.Images * tokens
}

// PictureParts is within how many windows or pictures of a sequence the layers of the tower attend one by one; 0 where
// they take all pictures at once.
func (a *Architecture) PictureParts(p Pictures) int64 {
	own, _ := a.own.(seeing)
	vision, alone := own.own.(qwenVision)
	if !alone {
		return 0
	}
	parts := int64(1)
	if vision.window > 0 {
		m := qwenVL{own: own, vision: vision}
		parts = int64(len(m.windowLengths(p.Height, p.Width)))
	}
	return p.Images * parts * own.vision.layers
}

// squareOnly is the refusal of a picture that is not as large as the model's positions say.
func (p patches) squareOnly(height, width int64) string {
	if height == p.image && width == p.image {
		return ""
	}
	return "image_size is " + size(height, width) + ", and vision_config says that every picture is " +
		size(p.image, p.image) + " when it reaches the model"
}

// seen completes the architecture of a text model with a tower.
func (a *Architecture) seen(text *family, own seeing) {
	own.text, own.textOwn, own.textLayers = text, a.own, a.Layers
	a.own, a.Irregular = own, true
	a.Layers += own.vision.layers
}

func size(height, width int64) string { return fmt.Sprintf("[%d, %d]", height, width) }

// textModel reads the text model under text_config into a. kinds are those whose blocks were traced with pictures, by
// model_type.
func (c *config) textModel(a *Architecture, otherwise string, kinds map[string]*family) *family {
	kind := otherwise
	given, _ := c.given["text_config"].(map[string]any)
	if k, ok := given["model_type"].(string); ok {
		kind = k
	}
	text, f := c.part("text_config", nil), kinds[kind]
	if f == nil {
		c.errs.Add(text.pointer+"/model_type", "unsupported",
			"a text model of type %.40q is not modelled with pictures in %s; %s are", kind, c.given["model_type"],
			strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		return nil
	}
	text.defaults = f.defaults
	text.ropeParameters()
	f.read(text, a)
	return f
}

// lookAtPictures makes the shape of what follows that of the pictures, of so many tokens each, until back is called.
func lookAtPictures(t *step.Tape, tokens int64) (back func()) {
	sequences := t.Shape
	t.Shape.Batch, t.Shape.Tokens, t.Shape.Images = sequences.Batch*sequences.Images, tokens, 1
	return func() { t.Shape = sequences }
}

// pixelValues are those of all pictures of the batch.
func pixelValues(t *step.Tape, channels int64) step.T {
	s := t.Shape
	return t.Input(s.Batch*s.Images*channels*s.Height*s.Width, step.F32)
}

// tower declares what looks at pictures, none of whose embeddings is the model's input.
func (b *builder) tower(frozen bool, declare func()) {
	b.freezing, b.inputs = frozen, []string{""}
	if own, sees := b.a.own.(seeing); sees {
		b.paths, b.ofLayers = towerPaths(b.a.Family), own.vision.layers
	}
	declare()
	b.freezing, b.paths = false, nil
}

// textModel declares the text model of one that sees, behind what b has declared, of whose layers the first units are
// the text's.
func (b *builder) textModel(own seeing) *decoder {
	whole, recorded := b.a, b.recorded
	text := *whole
	text.family, text.own, text.Layers = own.text, own.textOwn, own.textLayers
	b.a, b.recorded, b.inputs = &text, own.textLayers, nil
	b.paths, b.ofLayers = textPaths(whole.Family), own.textLayers
	m := own.text.build(b).(*decoder)
	b.a, b.recorded, b.paths = whole, recorded, nil
	// The class that sees has the head, and leaves its logits as they are but for PaliGemma in later releases.
	if !b.a.Software.CapsSeenLogits || own.text != &gemma2Family {
		m.scaleLogits = nil
	}
	return m
}

// scatterPictures puts features in the places of the tokens that stand for pictures: the mask of these tokens, a count
// that they are as many, after which counted is called, and inputs_embeds.masked_scatter. It takes over embedded, and
// returns the mask, too. Source: transformers/models/llava/modeling_llava.py (get_placeholder_mask), 4.57.
func scatterPictures(t *step.Tape, embedded, features step.T, counted func()) (merged, mask step.T) {
	mask = t.Input(t.Shape.N(), step.Bool)
	sum := t.Reduced(t.Shape.N())
	if t.Recipe.Software.ReturnsTower {
		compareCounts(t, sum)
	} else {
		t.CountMasked(embedded, features.Numel(), 3)
		t.Drop(sum)
	}
	counted()
	merged = t.MaskedScatter(embedded, mask, features, 3)
	t.Drop(embedded)
	return merged, mask
}

// compareCounts is torch_compilable_check of a number of tokens, which it takes over.
// Source: transformers/utils/import_utils.py (torch_compilable_check), 5.23.
func compareCounts(t *step.Tape, sum step.T) {
	product := t.Input(1, step.I64)
	equal := t.Input(1, step.Bool)
	t.Drop(product)
	all := t.Input(1, step.Bool)
	t.Drop(sum, all, equal)
}
