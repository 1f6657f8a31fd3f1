package undescribed

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
)

// plainFamilies are those of which the numbers say everything that their description asks.
var plainFamilies = []*arch.Family{&decoders.BloomFamily, &decoders.GemmaFamily, &decoders.GPTBigCodeFamily,
	&decoders.MPTFamily, &decoders.OLMoFamily, &decoders.OPTFamily,
	&decoders.Phi3Family, &decoders.StarCoder2Family}

// described is the family that the user named with the numbers of s, where it has exactly the parameters of a, the
// block put together from the same numbers: what the numbers leave open (fused projections, checkpointing, the order of
// operations) is then the family's.
func (s *sizes) described(a *arch.Architecture) (arch.Architecture, bool) {
	d := s.Dimensions
	k := slices.IndexFunc(plainFamilies, func(f *arch.Family) bool { return f.ModelType == d.Family })
	partly := d.RotaryFraction != 0 && d.RotaryFraction != 1 // no entry of the catalog says how much is turned
	if k < 0 || plainFamilies[k] == a.Described || a.Layers == 0 || partly || d.Experts > 0 {
		return arch.Architecture{}, false
	}
	p := arch.Preset{ID: a.Name, Family: d.Family, Kind: "decoder", Layers: a.Layers, Hidden: a.Hidden, Heads: a.Heads,
		KVHeads: a.KVHeads,
		HeadDim: a.HeadDim, FFN: a.FFN, Vocabulary: a.Vocabulary, MaxPositions: a.MaxPositions, TiedEmbeddings: a.Tied,
		MLP: d.MLP, Norm: d.Norm, Position: d.Position, NormsPerLayer: d.NormsPerLayer, FinalNorm: true,
		Bias: arch.PresetBias{Q: a.QKVBias, K: a.QKVBias, V: a.QKVBias, O: a.OutBias, MLP: a.MLPBias,
			LMHead: d.LMHeadBias,
			Norm:   a.NormBias}}
	if a.QKNorm {
		p.QKNorm = "head"
	}
	p.Dropout.Attention, p.Dropout.Residual, p.Dropout.Embedding = d.Dropout, d.Dropout, d.Dropout
	var errs invalid.List
	known := p.FromNumbers(plainFamilies[k], s.pointer, &errs)
	known.Name = p.ID
	if errs.Err() != nil || known.ParameterCount() != a.ParameterCount() {
		return arch.Architecture{}, false
	}
	return known, true
}
