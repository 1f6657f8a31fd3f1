package model

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// kinds are those of the catalog that are modelled.
var kinds = map[string]bool{"decoder": true, "encoder": true, "encoder-decoder": true, "vision-encoder": true,
	"dual-encoder": true}

// FromPreset is the architecture of a catalog entry.
func FromPreset(p *Preset, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture { return fromPreset(p, pointer, wrong) })
}

func fromPreset(p *Preset, pointer string, errs *invalid.List) Architecture {
	if p.Recorded != nil {
		a := FromRecording(p.Recorded, pointer+"/recorded", errs)
		a.Name = p.ID
		return a
	}
	if p.NanoGPT != nil {
		a := FromNanoGPT(NanoGPT(*p.NanoGPT), pointer+"/nanogpt", errs)
		a.Name = p.ID
		return a
	}
	if p.HFConfig != nil {
		a := FromHF(p.HFConfig, pointer+"/hf_config", errs)
		a.Name = p.ID
		a.countsBias()
		return a
	}
	f, ok := families[p.Family]
	if !ok || !kinds[p.Kind] {
		errs.Add(pointer, "unsupported", "%q is of the family %q, which is not modelled yet; modelled are nanogpt, %s",
			p.ID, p.Family, strings.Join(Families(), ", "))
		return Architecture{}
	}
	a := p.fromNumbers(f, pointer, errs)
	a.Name = p.ID
	a.countsBias()
	return a
}

// FromHF reads the object of a Hugging Face config.json. Keys that do not matter are ignored, absent ones mean
// the class's default; of a family that is not described, a key that may matter and is not understood is refused.
// Problems go to errs under pointer, and there is no architecture then.
func FromHF(raw json.RawMessage, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture {
		a := newConfig(pointer, wrong).hf(raw)
		if wrong.Err() == nil && a.immense() {
			wrong.Add(pointer, "too_large", "the model, with its towers, would have more than %.0e parameters",
				float64(maxParameters))
		}
		return a
	})
}

// Asked are the pointers of what reading the object of a config.json asks for, whether or not it is there, in order.
func Asked(raw json.RawMessage) []string {
	c := newConfig("", &invalid.List{})
	c.asked = map[string]bool{}
	c.hf(raw)
	return slices.Sorted(maps.Keys(c.asked))
}

// hf is what the config.json in raw describes.
func (c *config) hf(raw json.RawMessage) Architecture {
	if err := json.Unmarshal(raw, &c.given); err != nil {
		c.errs.Add(c.pointer, "wrong_type", "hf_config is the object of a config.json: %v", err)
		return Architecture{}
	}
	kind, ok := c.given["model_type"].(string)
	if !ok || kind == "" {
		c.errs.Add(c.pointer+"/model_type", "required", "model_type is missing: it names the family, such as %q",
			"llama")
		return Architecture{}
	}
	f, ok := families[strings.ToLower(kind)]
	if !ok {
		if whole, ok := wholes[strings.ToLower(kind)]; ok {
			return c.ofWhole(kind, whole)
		}
		return c.fromUnknown(kind)
	}
	a := c.architecture(strings.ToLower(kind), f, f.keys)
	a.Unread = c.strays(f)
	return a
}

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
	a.TextOf, a.Unread = whole, text.strays(f)
	if all {
		a.beside = whole.towers(c, &a)
	}
	return a
}
