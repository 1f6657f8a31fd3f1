package model

import (
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

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
