package model

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/undescribed"
)

// kinds are those of the catalog that are modelled.
var kinds = map[string]bool{"decoder": true, "encoder": true, "encoder-decoder": true, "vision-encoder": true,
	"dual-encoder": true}

// FromPreset is the architecture of a catalog entry.
func FromPreset(p *arch.Preset, pointer string, errs *invalid.List) arch.Architecture {
	return arch.Unrefused(errs, func(wrong *invalid.List) arch.Architecture { return fromPreset(p, pointer, wrong) })
}

func fromPreset(p *arch.Preset, pointer string, errs *invalid.List) arch.Architecture {
	if p.Recorded != nil {
		a := FromRecording(p.Recorded, pointer+"/recorded", errs)
		a.Name = p.ID
		return a
	}
	if p.NanoGPT != nil {
		a := FromNanoGPT(arch.NanoGPT(*p.NanoGPT), pointer+"/nanogpt", errs)
		a.Name = p.ID
		return a
	}
	if p.HFConfig != nil {
		a := FromHF(p.HFConfig, pointer+"/hf_config", errs)
		a.Name = p.ID
		mixtures.CountsBias(&a)
		return a
	}
	f, ok := families[p.Family]
	if !ok || !kinds[p.Kind] {
		errs.Add(pointer, "unsupported", "%q is of the family %q, which is not modelled yet; modelled are nanogpt, %s",
			p.ID, p.Family, strings.Join(Families(), ", "))
		return arch.Architecture{}
	}
	a := p.FromNumbers(f, pointer, errs)
	a.Name = p.ID
	mixtures.CountsBias(&a)
	return a
}

// FromHF reads the object of a Hugging Face config.json. Keys that do not matter are ignored, absent ones mean
// the class's default; of a family that is not described, a key that may matter and is not understood is refused.
// Problems go to errs under pointer, and there is no architecture then.
func FromHF(raw json.RawMessage, pointer string, errs *invalid.List) arch.Architecture {
	return arch.Unrefused(errs, func(wrong *invalid.List) arch.Architecture {
		a := hf(arch.NewConfig(pointer, wrong), raw)
		if wrong.Err() == nil && a.Immense() {
			wrong.Add(pointer, "too_large", "the model, with its towers, would have more than %.0e parameters",
				float64(arch.MaxParameters))
		}
		return a
	})
}

// Asked are the pointers of what reading the object of a config.json asks for, whether or not it is there, in order.
func Asked(raw json.RawMessage) []string {
	c := arch.NewConfig("", &invalid.List{})
	c.Asked = map[string]bool{}
	hf(c, raw)
	return slices.Sorted(maps.Keys(c.Asked))
}

// hf is what the config.json in raw describes.
func hf(c *arch.Config, raw json.RawMessage) arch.Architecture {
	if err := json.Unmarshal(raw, &c.Given); err != nil {
		c.Errs.Add(c.Pointer, "wrong_type", "hf_config is the object of a config.json: %v", err)
		return arch.Architecture{}
	}
	kind, ok := c.Given["model_type"].(string)
	if !ok || kind == "" {
		c.Errs.Add(c.Pointer+"/model_type", "required", "model_type is missing: it names the family, such as %q",
			"llama")
		return arch.Architecture{}
	}
	f, ok := families[strings.ToLower(kind)]
	if !ok {
		if a, ok := pictures.ReadWhole(c, kind); ok {
			return a
		}
		return undescribed.FromUnknown(c, kind, Families())
	}
	a := c.Architecture(strings.ToLower(kind), f, f.Keys)
	a.Unread = c.Strays(f)
	return a
}

// FromNanoGPT is nanoGPT's model in train.py's numbers.
func FromNanoGPT(n arch.NanoGPT, pointer string, errs *invalid.List) arch.Architecture {
	return arch.Unrefused(errs, func(wrong *invalid.List) arch.Architecture {
		return decoders.FromNanoGPT(n, pointer,
			wrong)
	})
}

// FromDimensions finds the described block that the numbers fit, or puts one together from its parts; it says what
// cannot be understood.
func FromDimensions(d *arch.Dimensions, pointer string, errs *invalid.List) arch.Architecture {
	return arch.Unrefused(errs, func(wrong *invalid.List) arch.Architecture {
		return undescribed.FromDimensions(d, Families(), pointer, wrong)
	})
}

// FromRecording is the architecture of a model that was recorded.
func FromRecording(text []byte, pointer string, errs *invalid.List) arch.Architecture {
	return recordings.FromRecording(text, pointer, errs)
}
