package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/step"
)

// Whole is a model with towers for pictures or sound that is trained on text.
type Whole struct {
	// Family is its model_type.
	Family string
	// TextClass is the class of the text model alone, empty where there is none, and Auto says that it is what
	// AutoModelForCausalLM loads. Source: transformers/models/auto/modeling_auto.py, auto_factory.py, 5.23.
	TextClass string
	Auto      bool
	// texts are the types that the text model may have, the usual one first.
	texts  []string
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
var wholes = map[string]*Whole{
	"gemma4":   {Family: "gemma4", texts: []string{"gemma4_text"}, towers: readGemma4Towers},
	"mistral3": {Family: "mistral3", texts: []string{"mistral", "ministral3"}, towers: (*config).pixtral},
	"qwen3_5": {Family: "qwen3_5", TextClass: "Qwen3_5ForCausalLM", Auto: true,
		texts: []string{"qwen3_5_text"}, towers: qwen35Towers},
	"qwen3_5_moe": {Family: "qwen3_5_moe", TextClass: "Qwen3_5MoeForCausalLM", Auto: true,
		texts: []string{"qwen3_5_moe_text"}, towers: qwen35Towers},
}

// Wholes lists the model types of models with towers that are trained on text.
func Wholes() []string { return slices.Sorted(maps.Keys(wholes)) }

// besidePaths are what stands before the names of modules in the layers of towers.
var besidePaths = []path{{"visual.blocks.", "model.visual.blocks.%d."},
	{"vision_tower.transformer.layers.", "model.vision_tower.transformer.layers.%d."},
	{"vision_tower.encoder.layers.", "model.vision_tower.encoder.layers.%d."},
	{"audio_tower.layers.", "model.audio_tower.layers.%d."},
	{"vision_model.", "model.vision_tower.vision_model.encoder.layers.%d."}}

// ofWhole is what is trained on text of the whole that the file describes: all of it where the file names its class or
// there is no other, else the text model alone.
func (c *config) ofWhole(kind string, whole *Whole) Architecture {
	text := c.part("text_config", nil)
	if text.given == nil {
		c.errs.Add(c.pointer+"/text_config", "required", "text_config is missing: it describes the text model of a %s",
			kind)
		return Architecture{}
	}
	name := whole.texts[0]
	if given, ok := text.given["model_type"].(string); ok {
		name = given
	}
	if !slices.Contains(whole.texts, name) {
		c.errs.Add(text.pointer+"/model_type", "conflict", "the text model of a %s is of type %s, not %.40q", kind,
			strings.Join(whole.texts, " or "), name)
		return Architecture{}
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
	f := families[name]
	a := text.architecture(name, f, f.keys)
	a.TextOf, a.Unread = whole, text.strays(name)
	if all {
		a.beside = whole.towers(c, &a)
	}
	return a
}

// HasTower says whether a tower is loaded, on whatever the model is trained.
func (a *Architecture) HasTower() bool { return a.beside != nil || a.Sees() }

// Idles says whether the model may have parameters that a step does not reach.
func (a *Architecture) Idles() bool { return a.beside != nil || a.Sees() }

// WithTowers says whether the whole that this is the text model of is trained with its towers, which have so many
// parameters.
func (a *Architecture) WithTowers() (parameters int64, with bool) {
	if a.beside == nil {
		return 0, false
	}
	alone := *a
	alone.beside = nil
	return a.ParameterCount() - alone.ParameterCount(), true
}

// TensorsBeside is how many parameters and buffers the towers beside the text model have, with their adapters.
func (a *Architecture) TensorsBeside() int64 {
	if a.beside == nil {
		return 0
	}
	b := builder{a: a, inputs: []string{""}, paths: besidePaths}
	a.beside.declare(&b)
	a.beside.declareBehind(&b)
	return int64(len(b.p.List))
}

// besideTowers is the class of a whole on a batch of text.
type besideTowers struct {
	text *decoder
	// gemma says that it is Gemma3ForConditionalGeneration, which makes the masks itself.
	gemma bool
}

// buildBeside declares the towers, and the text model behind them.
func (a *Architecture) buildBeside(b *builder) step.Network {
	b.inputs, b.paths = []string{""}, besidePaths
	a.beside.declare(b)
	b.paths, b.inputs, b.ofLayers = textPaths(a.TextOf.Family), nil, a.Layers
	text := a.family.build(b)
	b.paths = besidePaths
	a.beside.declareBehind(b)
	b.paths = nil
	if m, ok := text.(*gemma4); ok {
		return &gemma4OnText{m}
	}
	_, gemma := a.beside.(gemma3Beside)
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
