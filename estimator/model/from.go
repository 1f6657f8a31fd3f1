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
		if a, ok := c.readWhole(kind); ok {
			return a
		}
		return c.fromUnknown(kind, Families())
	}
	a := c.architecture(strings.ToLower(kind), f, f.keys)
	a.Unread = c.strays(f)
	return a
}

// FromNanoGPT is nanoGPT's model in train.py's numbers.
func FromNanoGPT(n NanoGPT, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture { return fromNanoGPT(n, pointer, wrong) })
}

// FromDimensions finds the described block that the numbers fit, or puts one together from its parts; it says what
// cannot be understood.
func FromDimensions(d *Dimensions, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture {
		return fromDimensions(d, Families(), pointer, wrong)
	})
}

// FromRecording is the architecture of a model that was recorded.
func FromRecording(text []byte, pointer string, errs *invalid.List) Architecture {
	return fromRecording(text, pointer, errs)
}
