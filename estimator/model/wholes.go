package model

import (
	"strings"
)

// Whole is a model with a tower for pictures of which AutoModelForCausalLM loads the text model alone.
// Source: transformers/models/auto/modeling_auto.py (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), auto_factory.py, 5.23.
type Whole struct {
	// Family is the model_type of the whole, Class the text model's class.
	Family, Class string
	text          string // its model_type
}

// wholes are those that are described, by their model_type.
var wholes = map[string]*Whole{
	"qwen3_5":     {Family: "qwen3_5", Class: "Qwen3_5ForCausalLM", text: "qwen3_5_text"},
	"qwen3_5_moe": {Family: "qwen3_5_moe", Class: "Qwen3_5MoeForCausalLM", text: "qwen3_5_moe_text"},
}

// textAlone is the text model of the whole that the file describes.
func (c *config) textAlone(kind string, whole *Whole) Architecture {
	text := c.part("text_config", nil)
	if text.given == nil {
		c.errs.Add(c.pointer+"/text_config", "required", "text_config is missing: it describes the text model of a %s",
			kind)
		return Architecture{}
	}
	if given, ok := text.given["model_type"].(string); ok && given != whole.text {
		c.errs.Add(text.pointer+"/model_type", "conflict", "the text model of a %s is of type %s, not %.40q", kind,
			whole.text, given)
	}
	given := make(map[string]any, len(text.given)+2)
	for key, v := range text.given {
		given[key] = v
	}
	for _, key := range [...]string{"_name_or_path", "quantization_config"} {
		if v, ok := c.given[key]; ok {
			given[key] = v
		}
	}
	if classes, ok := c.given["architectures"].([]any); ok && len(classes) > 0 {
		if name, _ := classes[0].(string); !strings.HasSuffix(name, classConditional) {
			given["architectures"] = classes // of the text model, or refused below
		}
	}
	text.given = given
	f := families[whole.text]
	a := text.architecture(whole.text, f, f.keys)
	a.TextOf, a.Unread = whole, text.strays(whole.text)
	return a
}
