package model

import (
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
)

// TestDescribedByNumbers: numbers that name a described family and have exactly its parameters become that family, and
// others a block put together from its parts; no family's own reading of the catalog trips over what numbers do not
// say.
func TestDescribedByNumbers(t *testing.T) {
	yes, no := true, false
	santaCoder := arch.Dimensions{Family: "gpt_bigcode", Layers: 4, Hidden: 256, Heads: 4, KVHeads: 1, HeadDim: 64,
		FFN: 1024, Vocabulary: 500,
		MaxPositions: 128, TiedEmbeddings: &yes, MLP: "gelu", Norm: "layernorm", Position: "learned",
		AttentionBias: arch.AttentionBiasAll, MLPBias: &yes}
	build := func(d arch.Dimensions) arch.Architecture {
		var errs invalid.List
		return FromDimensions(&d, "/model/dimensions", &errs)
	}
	if a := build(santaCoder); a.Described != &decoders.GPTBigCodeFamily || a.Generic {
		t.Errorf("SantaCoder's numbers became %s (generic: %v)", a.Family, a.Generic)
	}
	other := santaCoder
	other.MLPBias = &no
	if a := build(other); a.Described == &decoders.GPTBigCodeFamily {
		t.Error("numbers without the biases of an MLP became GPT BigCode, which has them")
	}
	for _, name := range Families() {
		for _, position := range []string{"learned", "rope", "alibi"} {
			for _, norm := range []string{"layernorm", "rmsnorm"} {
				for _, mlp := range []string{"gelu", "swiglu"} {
					d := santaCoder
					d.Family, d.Position, d.Norm, d.MLP, d.ParallelResidual = name, position, norm, mlp,
						norm == "layernorm"
					a := build(d)
					if a.Described != nil && a.Layers > 0 && a.ParameterCount() <= 0 {
						t.Errorf("%s by numbers has no parameters", name)
					}
				}
			}
		}
	}
}
