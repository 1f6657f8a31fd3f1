package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/step"
)

// describedWhole is a Whole and how its file is read.
type describedWhole struct {
	Whole
	// texts are the families that the text model may be of, the usual one first.
	texts  []*family
	towers func(c *config, a *Architecture) towers
}

// towers are the modules of a whole beside its text model.
type towers interface {
	// declare lists those before the text model, in the order of the whole's own modules, declareBehind those after it.
	declare(b *builder)
	declareBehind(b *builder)
}

// nothingBehind is embedded by towers that all stand before the text model.
type nothingBehind struct{}

func (nothingBehind) declareBehind(*builder) {}

// wholes are those that are described, by their model_type.
var wholes = map[string]*describedWhole{
	"gemma4": {Whole: Whole{Family: "gemma4"}, texts: []*family{&gemma4TextFamily}, towers: readGemma4Towers},
	"mistral3": {Whole: Whole{Family: "mistral3"}, texts: []*family{&mistralFamily, &ministral3Family},
		towers: (*config).pixtral},
	"qwen3_5": {Whole: Whole{Family: "qwen3_5", TextClass: "Qwen3_5ForCausalLM", Auto: true},
		texts: []*family{&qwen35Family}, towers: qwen35Towers},
	"qwen3_5_moe": {Whole: Whole{Family: "qwen3_5_moe", TextClass: "Qwen3_5MoeForCausalLM", Auto: true},
		texts: []*family{&qwen35MoEFamily}, towers: qwen35Towers},
}

// Wholes lists the model types of models with towers that are trained on text.
func Wholes() []string { return slices.Sorted(maps.Keys(wholes)) }

// text is the family of that type, nil where the text model is of none such.
func (w *describedWhole) text(modelType string) *family {
	for _, f := range w.texts {
		if f.modelType == modelType {
			return f
		}
	}
	return nil
}

func (w *describedWhole) textTypes() []string {
	types := make([]string, len(w.texts))
	for i, f := range w.texts {
		types[i] = f.modelType
	}
	return types
}

// besidePaths are what stands before the names of modules in the layers of towers.
var besidePaths = []path{{"visual.blocks.", "model.visual.blocks.%d."},
	{"vision_tower.transformer.layers.", "model.vision_tower.transformer.layers.%d."},
	{"vision_tower.encoder.layers.", "model.vision_tower.encoder.layers.%d."},
	{"audio_tower.layers.", "model.audio_tower.layers.%d."},
	{"vision_model.", "model.vision_tower.vision_model.encoder.layers.%d."}}

// TensorsBeside is how many parameters and buffers the towers beside the text model have, with their adapters.
func (a *Architecture) TensorsBeside() int64 {
	m, ok := a.beside.(besideText)
	if !ok {
		return 0
	}
	b := builder{a: a, inputs: []string{""}, paths: besidePaths}
	m.declare(&b)
	m.declareBehind(&b)
	return int64(len(b.p.List))
}

// besideTowers is the class of a whole on a batch of text.
type besideTowers struct {
	text *decoder
	// gemma says that it is Gemma3ForConditionalGeneration, which makes the masks itself.
	gemma bool
}

// besideText are towers beside a text model.
type besideText struct{ towers }

// build declares the towers, and the text model behind them.
func (m besideText) build(b *builder) step.Network {
	a := b.a
	b.inputs, b.paths = []string{""}, besidePaths
	m.declare(b)
	b.paths, b.inputs, b.ofLayers = textPaths(a.TextOf.Family), nil, a.Layers
	text := a.family.build(b)
	b.paths = besidePaths
	m.declareBehind(b)
	b.paths = nil
	if m, ok := text.(*gemma4); ok {
		return &gemma4OnText{m}
	}
	_, gemma := m.towers.(gemma3Beside)
	return &besideTowers{text.(*decoder), gemma}
}

// Batch is what the text model gets.
func (m *besideTowers) Batch(t *step.Tape) []step.T { return m.text.Batch(t) }

// Forward embeds the words itself, which it holds while the text model runs.
func (m *besideTowers) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	t.In(step.PartEmbedding)
	m.text.given = batch[1]
	given := handed{embedded: m.text.embeddings(t, ids), maskedFirst: m.gemma && t.Recipe.Software.OffsetsPositions}
	if m.gemma && !t.Recipe.Software.PlainPictureLoss {
		given.loss = attendedLoss
	}
	return m.text.read(t, given, labels)
}

// readWhole is what the file describes where it is of the type of a whole.
func (c *config) readWhole(kind string) (a Architecture, ok bool) {
	whole, ok := wholes[strings.ToLower(kind)]
	if !ok {
		return Architecture{}, false
	}
	return c.ofWhole(kind, whole), true
}

// ofWhole is what is trained on text of the whole that the file describes: all of it where the file names its class or
// there is no other, else the text model alone.
func (c *config) ofWhole(kind string, whole *describedWhole) Architecture {
	text := c.part("text_config", nil)
	if text.given == nil {
		c.errs.Add(c.pointer+"/text_config", "required", "text_config is missing: it describes the text model of a %s",
			kind)
		return Architecture{}
	}
	f := whole.texts[0]
	if given, ok := text.given["model_type"].(string); ok {
		if f = whole.text(given); f == nil {
			c.errs.Add(text.pointer+"/model_type", "conflict", "the text model of a %s is of type %s, not %.40q", kind,
				strings.Join(whole.textTypes(), " or "), given)
			return Architecture{}
		}
	}
	text.given = maps.Clone(text.given)
	for _, key := range [...]string{"_name_or_path", "quantization_config"} {
		if v, ok := c.given[key]; ok {
			text.given[key] = v
		}
	}
	all := !whole.Auto
	if classes, ok := c.given["architectures"].([]any); ok && len(classes) > 0 {
		if named, _ := classes[0].(string); strings.HasSuffix(named, classConditional) {
			all = true
		} else {
			text.given["architectures"] = classes // of the text model, or refused there
		}
	}
	// The head is the whole's. Files that leave it open are of weights that have one or not, as their text model says:
	// what a class would tie by default is not tied where the weights differ (transformers/modeling_utils.py, 5.23).
	if v, ok := c.given["tie_word_embeddings"].(bool); ok && all {
		text.given["tie_word_embeddings"] = v
	}
	a := text.architecture(f.modelType, f, f.keys)
	a.TextOf, a.Unread = &whole.Whole, text.strays(f)
	if all {
		a.beside = besideText{whole.towers(c, &a)}
	}
	return a
}
