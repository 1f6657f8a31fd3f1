package pipelines

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/encoderdecoders"
	"github.com/vramplan/vramplan/estimator/model/pictures"
)

// Pipeline is a diffusion pipeline as its folder on the hub has it: the config.json of each part. Parts that are not
// given are empty.
type Pipeline struct {
	Transformer, UNet, VAE, ControlNet json.RawMessage
	TextEncoders                       []json.RawMessage
}

// denoiserKind is how a denoiser's config.json is read.
type denoiserKind struct {
	// part is the folder that it lies in.
	part     string
	defaults map[string]any
	read     func(c *arch.Config) denoiserOptions
}

// denoisers are the models that are trained, by _class_name.
var denoisers = map[string]denoiserKind{
	"FluxTransformer2DModel": {part: "transformer", defaults: fluxDefaults, read: readFlux},
	"SD3Transformer2DModel":  {part: "transformer", defaults: sd3Defaults, read: readSD3},
	"UNet2DConditionModel":   {part: "unet", defaults: unetDefaults, read: readUNet},
}

// textKinds are the text encoders, by model_type.
var textKinds = map[string]struct {
	defaults map[string]any
	read     func(c *arch.Config) textOptions
}{
	"clip_text_model": {pictures.CLIPTextDefaults, readCLIPText},
	"t5":              {encoderdecoders.T5Family.Defaults, readT5Text},
}

// Denoisers are the class names of the models that are understood, in order.
func Denoisers() []string {
	var names []string
	for name := range denoisers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var diffusionFamily = arch.Family{
	Uncompiled: "a compiled denoiser is not modelled; leave compile out",
	Build:      buildDiffusion,
}

// FromPipeline is the architecture of a pipeline. Problems go to errs under pointer, and there is none then.
func FromPipeline(p Pipeline, pointer string, errs *invalid.List) arch.Architecture {
	return arch.Unrefused(errs, func(wrong *invalid.List) arch.Architecture { return fromPipeline(p, pointer, wrong) })
}

func fromPipeline(p Pipeline, pointer string, errs *invalid.List) arch.Architecture {
	a := arch.Architecture{Name: "diffusion", Described: &diffusionFamily, Irregular: true, SDPAOnly: true}
	own := pipeline{scale: defaultLatentScale}
	ok := true
	given := map[string]json.RawMessage{"transformer": p.Transformer, "unet": p.UNet}
	var part string
	for _, name := range []string{"transformer", "unet"} {
		if given[name] == nil {
			continue
		}
		if part != "" {
			errs.Add(pointer, "conflict", "transformer and unet are given; a pipeline has one of them")
			return arch.Architecture{}
		}
		part = name
	}
	if part == "" {
		errs.Add(pointer, "required", "the model that is trained is missing: give the config.json of its folder as "+
			"transformer or unet")
		return arch.Architecture{}
	}
	if c, read := partConfig(given[part], pointer+"/"+part, errs); read {
		class, _ := c.Given["_class_name"].(string)
		kind, known := denoisers[class]
		switch {
		case !known:
			errs.Add(c.Pointer+"/_class_name", "unsupported", "%s is not modelled; %s are",
				arch.Describe(c.Given["_class_name"]), strings.Join(Denoisers(), ", "))
			ok = false
		case kind.part != part:
			errs.Add(c.Pointer+"/_class_name", "conflict", "a %s lies in %s, and stands in %s", class, kind.part, part)
			ok = false
		default:
			c.Defaults = kind.defaults
			own.denoiser = kind.read(c)
		}
	} else {
		ok = false
	}
	for i, raw := range p.TextEncoders {
		at := fmt.Sprintf("%s/text_encoders/%d", pointer, i)
		c, read := partConfig(raw, at, errs)
		if !read {
			ok = false
			continue
		}
		name, _ := c.Given["model_type"].(string)
		kind, known := textKinds[name]
		if !known {
			errs.Add(at+"/model_type", "unsupported",
				"%s is not modelled as a text encoder; clip_text_model and t5 are",
				arch.Describe(c.Given["model_type"]))
			ok = false
			continue
		}
		c.Defaults = kind.defaults
		own.texts = append(own.texts, kind.read(c))
	}
	if p.VAE != nil {
		if c, read := partConfig(p.VAE, pointer+"/vae", errs); read {
			c.Defaults = autoencoderDefaults
			vae := readAutoencoder(c)
			own.vae, own.scale = &vae, vae.scale()
		} else {
			ok = false
		}
	}
	ok = own.readControl(p.ControlNet, pointer+"/controlnet", errs) && ok
	if !ok || errs.Err() != nil {
		return arch.Architecture{}
	}
	a.Own = own
	a.Layers = own.denoiser.layers()
	for _, e := range own.texts {
		a.Layers += e.layers()
	}
	a = own.denoiser.shape(a)
	if channels := own.denoiser.channels(); part == "transformer" && (channels < 1 || own.vae != nil &&
		own.vae.latent != channels) {
		errs.Add(pointer+"/"+part+"/in_channels", "conflict",
			"in_channels makes latents of %d channels, and those of the "+
				"vae have its latent_channels", channels)
		return arch.Architecture{}
	}
	if flux, is := own.denoiser.(fluxOptions); is && len(own.texts) > 0 {
		clip, first := own.texts[0].(clipTextOptions)
		t5, last := own.texts[len(own.texts)-1].(t5TextOptions)
		if !first || !last || clip.projects || clip.sizes.Hidden != flux.pooledWidth || t5.a.Hidden != flux.joint {
			errs.Add(pointer+"/text_encoders", "conflict", "the transformer reads what a CLIPTextModel of hidden_size "+
				"pooled_projection_dim, %d, pools, and the states of a T5 of d_model joint_attention_dim, %d: these two "+
				"are accepted, in this order", flux.pooledWidth, flux.joint)
			return arch.Architecture{}
		}
	}
	const perLayer = 32 // matrices as wide as the model and its MLP, at most
	if total := perLayer * float64(a.Layers) * float64(a.Hidden) * float64(a.Hidden+a.FFN); total > arch.MaxParameters {
		errs.Add(pointer+"/"+part, "too_large", "the model would have about %.1e parameters; up to %.0e are accepted",
			total,
			float64(arch.MaxParameters))
		return arch.Architecture{}
	}
	return a
}

// partConfig reads one config.json.
func partConfig(raw json.RawMessage, pointer string, errs *invalid.List) (*arch.Config, bool) {
	c := arch.NewConfig(pointer, errs)
	if err := json.Unmarshal(raw, &c.Given); err != nil || c.Given == nil {
		errs.Add(pointer, "wrong_type", "it is the object of a config.json")
		return nil, false
	}
	return c, true
}
