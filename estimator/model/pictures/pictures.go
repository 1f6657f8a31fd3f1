package pictures

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Seeing is what a model that reads pictures among its tokens has besides its text model, which the architecture
// describes but for the layers of its tower.
type Seeing struct {
	text       *arch.Family
	textOwn    any
	TextLayers int64
	Picture    Patches
	Vision     CLIPSizes
	// visionDropout is that of the tower's attention.
	visionDropout float64
	// frozen says that the tower is not trained.
	frozen bool
	// own is what only the family's own file understands.
	own any
}

// seeingKeys are where models that see say the numbers of their text model.
var seeingKeys = arch.FieldNames{Heads: "text_config/num_attention_heads", Hidden: "text_config/hidden_size",
	KV: "text_config/num_key_value_heads", Dim: "text_config/head_dim"}

// TextFamily is that of the text model.
func (s Seeing) TextFamily() *arch.Family { return s.text }

// PictureSize is the size that the model's pictures have unless a job says otherwise; 0 where there is none.
func PictureSize(a *arch.Architecture) int64 {
	own, _ := a.Own.(Seeing)
	return own.Picture.Image
}

// LeavesPictures makes a model that sees the one that is trained on text, where that is described: its towers idle,
// unless its file names the class of the text model alone. It says whether it did.
func LeavesPictures(a *arch.Architecture) bool {
	own, sees := a.Own.(Seeing)
	if !sees || a.Described.WithoutTower == "" {
		return false
	}
	options := own.own.(gemma3Options)
	a.TextOf = &arch.Whole{Family: a.Family, TextClass: a.Described.WithoutTower}
	a.Own, a.Layers, a.Irregular, a.Class = own.textOwn, own.TextLayers, false, arch.ClassCausalLM
	if !options.textClass {
		a.Beside = besideText{gemma3Beside{own: own}}
	}
	return true
}

// UsualPictures completes p with what a picture in a sequence of so many tokens usually is where it leaves that open,
// and says why; none where it leaves nothing open, or nothing fits. Pictures take up to three quarters of a sequence.
func UsualPictures(a *arch.Architecture, p arch.Pictures, sequence int64) (usual arch.Pictures, why string) {
	if a.Described.UsualPictures == nil {
		return arch.Pictures{Images: max(p.Images, 1)}, ""
	}
	return a.Described.UsualPictures(a, p, sequence*3/4)
}

// Show gives the model its pictures, and returns how many tokens of a sequence they take. pointer is where the job says
// so.
func Show(a *arch.Architecture, p arch.Pictures, pointer string, errs *invalid.List) (tokens int64) {
	own := a.Own.(Seeing)
	tokens, why := a.Described.PictureTokens(a, p.Height, p.Width)
	if why != "" {
		errs.Add(pointer+"/image_size", "conflict", "%s", why)
		return 0
	}
	own.frozen = p.Frozen
	a.Own = own
	return p.Images * tokens
}

// PictureParts is within how many windows or pictures of a sequence the layers of the tower attend one by one; 0 where
// they take all pictures at once.
func PictureParts(a *arch.Architecture, p arch.Pictures) int64 {
	own, _ := a.Own.(Seeing)
	vision, alone := own.own.(qwenVision)
	if !alone {
		return 0
	}
	parts := int64(1)
	if vision.window > 0 {
		m := qwenVL{own: own, vision: vision}
		parts = int64(len(m.windowLengths(p.Height, p.Width)))
	}
	return p.Images * parts * own.Vision.Layers
}

// squareOnly is the refusal of a picture that is not as large as the model's positions say.
func (p Patches) squareOnly(height, width int64) string {
	if height == p.Image && width == p.Image {
		return ""
	}
	return "image_size is " + size(height, width) + ", and vision_config says that every picture is " +
		size(p.Image, p.Image) + " when it reaches the model"
}

// standBehind completes the architecture of a text model with a tower.
func standBehind(a arch.Architecture, text *arch.Family, own Seeing) arch.Architecture {
	own.text, own.textOwn, own.TextLayers = text, a.Own, a.Layers
	a.Own, a.Irregular = own, true
	a.Layers += own.Vision.Layers
	return a
}

func size(height, width int64) string { return fmt.Sprintf("[%d, %d]", height, width) }

// readTextModel reads the text model under text_config into a. kinds are those whose blocks were traced with pictures,
// by model_type.
func readTextModel(c *arch.Config, a *arch.Architecture, otherwise string, kinds map[string]*arch.Family) *arch.Family {
	kind := otherwise
	given, _ := c.Given["text_config"].(map[string]any)
	if k, ok := given["model_type"].(string); ok {
		kind = k
	}
	text, f := c.Part("text_config", nil), kinds[kind]
	if f == nil {
		c.Errs.Add(text.Pointer+"/model_type", "unsupported",
			"a text model of type %.40q is not modelled with pictures in %s; %s are", kind, c.Given["model_type"],
			strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
		return nil
	}
	text.Defaults = f.Defaults
	text.RopeParameters()
	*a = f.Read(text, *a)
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

// Tower declares what looks at pictures, none of whose embeddings is the model's input.
func Tower(b *arch.Builder, frozen bool, declare func()) {
	b.Freezing, b.Inputs = frozen, []string{""}
	if own, sees := b.A.Own.(Seeing); sees {
		b.Paths, b.OfLayers = arch.TowerPaths(b.A.Family), own.Vision.Layers
	}
	declare()
	b.Freezing, b.Paths = false, nil
}

// capsSeenLogits bounds the logits of PaliGemma 2.
var capsSeenLogits = arch.Of(func(a *arch.Architecture, _ arch.Use) bool { return a.Sees() && a.CapsScores },
	release.Declare("caps-seen-logits", release.Change{
		Library: "transformers", After: "5.17", From: "5.23",
		What: "PaliGemma 2 bounds its logits in transformers 5.23, as its text model does alone; 4.57 left them as " +
			"they were",
		Source: "models/paligemma/modeling_paligemma.py (PaliGemmaForConditionalGeneration.forward), 4.57.6 and 5.23.0",
		Shown:  "runs of PaliGemma 2 in transformers' Trainer",
	}))

// buildTextModel declares the text model of one that sees, behind what b has declared, of whose layers the first units
// are the text's.
func buildTextModel(b *arch.Builder, own Seeing) *blocks.Decoder {
	whole, recorded := b.A, b.Recorded
	text := *whole
	text.Described, text.Own, text.Layers = own.text, own.textOwn, own.TextLayers
	b.A, b.Recorded, b.Inputs = &text, own.TextLayers, nil
	b.Paths, b.OfLayers = arch.TextPaths(whole.Family), own.TextLayers
	m := own.text.Build(b).(*blocks.Decoder)
	b.A, b.Recorded, b.Paths = whole, recorded, nil
	// The class that sees has the head, and leaves its logits as they are but for PaliGemma in later releases.
	if !b.A.Software.Has(capsSeenLogits) || own.text != &decoders.Gemma2Family {
		m.ScaleLogits = nil
	}
	return m
}

// returnsTower has models that see keep all that their tower returned until the text model has run, and compare how
// many tokens stand for pictures as numbers on the device.
var returnsTower = arch.Of(func(a *arch.Architecture, _ arch.Use) bool { return a.Sees() },
	release.Declare("returns-tower", release.Change{
		Library: "transformers", After: "5.10", From: "5.14",
		What: "LLaVA, PaliGemma and Gemma 3 of transformers 5.14 keep what their tower returned until the text model has " +
			"run, and compare the number of pictures' tokens on the device",
		Source: "models/llava/modeling_llava.py, models/paligemma/modeling_paligemma.py, models/gemma3/" +
			"modeling_gemma3.py (get_image_features, get_placeholder_mask), 4.57.6 and 5.23.0",
		Shown: "traces of LLaVA, PaliGemma and Gemma 3 with pictures",
	}))

// scatterPictures puts features in the places of the tokens that stand for pictures: the mask of these tokens, a count
// that they are as many, after which counted is called, and inputs_embeds.masked_scatter. It takes over embedded, and
// returns the mask, too. Source: transformers/models/llava/modeling_llava.py (get_placeholder_mask), 4.57.
func scatterPictures(t *step.Tape, embedded, features step.T, counted func()) (merged, mask step.T) {
	mask = t.Input(t.Shape.N(), step.Bool)
	sum := t.Reduced(t.Shape.N())
	if t.Recipe.Software.Has(returnsTower) {
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
