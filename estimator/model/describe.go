package model

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/pictures"
)

// Describe writes down the dimensions that hf_config or nanogpt says, of an entry that has one of them. Dimensions that
// were given besides and say something else are noted in errs.
func Describe(p *arch.Preset, pointer string, errs *invalid.List) {
	if p.HFConfig == nil && p.NanoGPT == nil {
		return
	}
	if p.HFConfig != nil && p.NanoGPT != nil {
		errs.Add(pointer+"/nanogpt", "conflict", "is given together with hf_config; accepted: one of them")
		return
	}
	source := "hf_config"
	if p.NanoGPT != nil {
		source = "nanogpt"
	}
	a := FromPreset(p, pointer, errs)
	if errs.Err() != nil {
		return
	}
	layers := a.Layers - a.Decoder
	own, sees := a.Own.(pictures.Seeing)
	if sees { // those of the tower are its own
		layers = own.TextLayers
		seen(p, &own)
	}
	for _, n := range []struct {
		name  string
		given *int64
		says  int64
	}{
		{"layers", &p.Layers, layers}, {"decoder_layers", &p.DecoderLayers, a.Decoder},
		{"hidden", &p.Hidden, a.Hidden}, {"heads", &p.Heads, a.Heads}, {"kv_heads", &p.KVHeads, a.KVHeads},
		{"ffn", &p.FFN, a.FFN}, {"vocab", &p.Vocabulary, a.Vocabulary},
	} {
		if *n.given == 0 {
			*n.given = n.says
		} else if own, many := a.Own.(pictures.CLIPOptions); *n.given != n.says && !(many &&
			own.Vision.Layers == *n.given) {
			errs.Add(pointer+"/"+n.name, "conflict", "is %d, and %s says %d; accepted: the same, or %s alone", *n.given,
				source, n.says, source)
		}
	}
	if p.Family == "" {
		p.Family = a.Family
	}
	if p.Kind == "" {
		p.Kind = kind(&a)
	}
	if p.HeadDim == 0 {
		p.HeadDim = a.HeadDim
	}
	if p.MaxPositions == 0 {
		p.MaxPositions = a.MaxPositions
	}
	p.TiedEmbeddings = a.Tied
}

// seen writes down the sizes of the pictures and of the tower that looks at them.
func seen(p *arch.Preset, own *pictures.Seeing) {
	if p.ImageSize == 0 {
		p.ImageSize = own.Picture.Image
	}
	if p.PatchSize == 0 {
		p.PatchSize = own.Picture.Patch
	}
	if p.Vision == nil {
		v := own.Vision
		p.Vision = &arch.PresetVision{Layers: v.Layers, Hidden: v.Hidden, Heads: v.Heads, FFN: v.FFN}
	}
}

// KindSeeing is what the catalog calls a model that reads pictures among its tokens.
const KindSeeing = "vision-language"

// TrainsWithoutTower says of a family of models that read pictures whether its text model has a class of its own, by
// which it is trained without pictures.
func TrainsWithoutTower(name string) bool {
	return families[name] != nil && families[name].WithoutTower != ""
}

// kind is what the catalog calls a model that is built so.
func kind(a *arch.Architecture) string {
	if a.Decoder > 0 {
		return "encoder-decoder"
	}
	switch a.Own.(type) {
	case pictures.CLIPOptions:
		return "dual-encoder"
	case pictures.Patches:
		return "vision-encoder"
	case pictures.Seeing:
		return KindSeeing
	}
	if a.Described != nil {
		if _, masked := a.Described.Class(arch.ClassMaskedLM); masked {
			return "encoder"
		}
	}
	return "decoder"
}
