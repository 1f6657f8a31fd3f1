package model

import "github.com/vramplan/vramplan/estimator/invalid"

// Describe writes down the dimensions that hf_config or nanogpt says, of an entry that has one of them. Dimensions that
// were given besides and say something else are noted in errs.
func (p *Preset) Describe(pointer string, errs *invalid.List) {
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
	own, sees := a.own.(seeing)
	if sees { // those of the tower are its own
		layers = own.textLayers
		p.seen(&own)
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
		} else if own, many := a.own.(clipOptions); *n.given != n.says && !(many && own.vision.layers == *n.given) {
			errs.Add(pointer+"/"+n.name, "conflict", "is %d, and %s says %d; accepted: the same, or %s alone", *n.given,
				source, n.says, source)
		}
	}
	if p.Family == "" {
		p.Family = a.Family
	}
	if p.Kind == "" {
		p.Kind = a.kind()
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
func (p *Preset) seen(own *seeing) {
	if p.ImageSize == 0 {
		p.ImageSize = own.picture.image
	}
	if p.PatchSize == 0 {
		p.PatchSize = own.picture.patch
	}
	if p.Vision == nil {
		v := own.vision
		p.Vision = &PresetVision{Layers: v.layers, Hidden: v.hidden, Heads: v.heads, FFN: v.ffn}
	}
}

// KindSeeing is what the catalog calls a model that reads pictures among its tokens.
const KindSeeing = "vision-language"

// TrainsWithoutTower says of a family of models that read pictures whether its text model has a class of its own, by
// which it is trained without pictures.
func TrainsWithoutTower(name string) bool {
	return families[name] != nil && families[name].withoutTower != ""
}

// kind is what the catalog calls a model that is built so.
func (a *Architecture) kind() string {
	if a.Decoder > 0 {
		return "encoder-decoder"
	}
	switch a.own.(type) {
	case clipOptions:
		return "dual-encoder"
	case patches:
		return "vision-encoder"
	case seeing:
		return KindSeeing
	}
	if a.family != nil {
		if _, masked := a.family.class(classMaskedLM); masked {
			return "encoder"
		}
	}
	return "decoder"
}
