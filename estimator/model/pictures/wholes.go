package pictures

import (
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/step"
)

// describedWhole is a Whole and how its file is read.
type describedWhole struct {
	arch.Whole
	// texts are the families that the text model may be of, the usual one first.
	texts  []*arch.Family
	towers func(c *arch.Config, a *arch.Architecture) towers
}

// towers are the modules of a whole beside its text model.
type towers interface {
	// declare lists those before the text model, in the order of the whole's own modules, declareBehind those after it.
	declare(b *arch.Builder)
	declareBehind(b *arch.Builder)
}

// nothingBehind is embedded by towers that all stand before the text model.
type nothingBehind struct{}

func (nothingBehind) declareBehind(*arch.Builder) {}

// wholes are those that are described, by their model_type.
var wholes = map[string]*describedWhole{
	"gemma4": {Whole: arch.Whole{Family: "gemma4"}, texts: []*arch.Family{&hybrids.Gemma4TextFamily},
		towers: readGemma4Towers},
	"mistral3": {Whole: arch.Whole{Family: "mistral3"}, texts: []*arch.Family{&decoders.MistralFamily,
		&decoders.Ministral3Family},
		towers: pixtral},
	"qwen3_5": {Whole: arch.Whole{Family: "qwen3_5", TextClass: "Qwen3_5ForCausalLM", Auto: true},
		texts: []*arch.Family{&hybrids.Qwen35Family}, towers: qwen35Towers},
	"qwen3_5_moe": {Whole: arch.Whole{Family: "qwen3_5_moe", TextClass: "Qwen3_5MoeForCausalLM", Auto: true},
		texts: []*arch.Family{&hybrids.Qwen35MoEFamily}, towers: qwen35Towers},
}

// Wholes lists the model types of models with towers that are trained on text.
func Wholes() []string { return slices.Sorted(maps.Keys(wholes)) }

// text is the family of that type, nil where the text model is of none such.
func (w *describedWhole) text(modelType string) *arch.Family {
	for _, f := range w.texts {
		if f.ModelType == modelType {
			return f
		}
	}
	return nil
}

func (w *describedWhole) textTypes() []string {
	types := make([]string, len(w.texts))
	for i, f := range w.texts {
		types[i] = f.ModelType
	}
	return types
}

// besidePaths are what stands before the names of modules in the layers of towers.
var besidePaths = []arch.Path{{Short: "visual.blocks.", Long: "model.visual.blocks.%d."},
	{Short: "vision_tower.transformer.layers.", Long: "model.vision_tower.transformer.layers.%d."},
	{Short: "vision_tower.encoder.layers.", Long: "model.vision_tower.encoder.layers.%d."},
	{Short: "audio_tower.layers.", Long: "model.audio_tower.layers.%d."},
	{Short: "vision_model.", Long: "model.vision_tower.vision_model.encoder.layers.%d."}}

// TensorsBeside is how many parameters and buffers the towers beside the text model have, with their adapters.
func TensorsBeside(a *arch.Architecture) int64 {
	m, ok := a.Beside.(besideText)
	if !ok {
		return 0
	}
	b := arch.Builder{A: a, Inputs: []string{""}, Paths: besidePaths}
	m.declare(&b)
	m.declareBehind(&b)
	return int64(len(b.P.List))
}

// besideTowers is the class of a whole on a batch of text.
type besideTowers struct {
	text *blocks.Decoder
	// gemma says that it is Gemma3ForConditionalGeneration, which makes the masks itself.
	gemma bool
}

// besideText are towers beside a text model.
type besideText struct{ towers }

// Modules declares the towers, and the text model behind them.
func (m besideText) Modules(b *arch.Builder) step.Network {
	a := b.A
	b.Inputs, b.Paths = []string{""}, besidePaths
	m.declare(b)
	b.Paths, b.Inputs, b.OfLayers = arch.TextPaths(a.TextOf.Family), nil, a.Layers
	text := a.Described.Build(b)
	b.Paths = besidePaths
	m.declareBehind(b)
	b.Paths = nil
	if m, ok := text.(*hybrids.Gemma4); ok {
		return &gemma4OnText{m}
	}
	_, gemma := m.towers.(gemma3Beside)
	return &besideTowers{text.(*blocks.Decoder), gemma}
}

// Batch is what the text model gets.
func (m *besideTowers) Batch(t *step.Tape) []step.T { return m.text.Batch(t) }

// Forward embeds the words itself, which it holds while the text model runs.
func (m *besideTowers) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	t.In(step.PartEmbedding)
	m.text.Given = batch[1]
	given := blocks.Handed{Embedded: m.text.Embeddings(t, ids), MaskedFirst: m.gemma &&
		t.Recipe.Software.Has(blocks.OffsetsPositions)}
	if m.gemma && !t.Recipe.Software.Has(plainPictureLoss) {
		given.Loss = attendedLoss
	}
	return m.text.Read(t, given, labels)
}

// ReadWhole is what the file describes where it is of the type of a whole.
func ReadWhole(c *arch.Config, kind string) (a arch.Architecture, ok bool) {
	whole, ok := wholes[strings.ToLower(kind)]
	if !ok {
		return arch.Architecture{}, false
	}
	return ofWhole(c, kind, whole), true
}

// ofWhole is what is trained on text of the whole that the file describes: all of it where the file names its class or
// there is no other, else the text model alone.
func ofWhole(c *arch.Config, kind string, whole *describedWhole) arch.Architecture {
	text := c.Part("text_config", nil)
	if text.Given == nil {
		c.Errs.Add(c.Pointer+"/text_config", "required", "text_config is missing: it describes the text model of a %s",
			kind)
		return arch.Architecture{}
	}
	f := whole.texts[0]
	if given, ok := text.Given["model_type"].(string); ok {
		if f = whole.text(given); f == nil {
			c.Errs.Add(text.Pointer+"/model_type", "conflict", "the text model of a %s is of type %s, not %.40q", kind,
				strings.Join(whole.textTypes(), " or "), given)
			return arch.Architecture{}
		}
	}
	text.Given = maps.Clone(text.Given)
	for _, key := range [...]string{"_name_or_path", "quantization_config"} {
		if v, ok := c.Given[key]; ok {
			text.Given[key] = v
		}
	}
	all := !whole.Auto
	if classes, ok := c.Given["architectures"].([]any); ok && len(classes) > 0 {
		if named, _ := classes[0].(string); strings.HasSuffix(named, arch.ClassConditional) {
			all = true
		} else {
			text.Given["architectures"] = classes // of the text model, or refused there
		}
	}
	// The head is the whole's. Files that leave it open are of weights that have one or not, as their text model says:
	// what a class would tie by default is not tied where the weights differ (transformers/modeling_utils.py, 5.23).
	if v, ok := c.Given["tie_word_embeddings"].(bool); ok && all {
		text.Given["tie_word_embeddings"] = v
	}
	a := text.Architecture(f.ModelType, f, f.Keys)
	a.TextOf, a.Unread = &whole.Whole, text.Strays(f)
	if all {
		a.Beside = besideText{whole.towers(c, &a)}
	}
	return a
}
