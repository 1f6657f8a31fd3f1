package undescribed

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
)

// sizes is a decoder as its numbers describe it, and where in the job they stand.
type sizes struct {
	*arch.Dimensions
	pointer string
	// key is what the user calls a field; nil where they are the fields of model.dimensions.
	key  func(field string) string
	errs *invalid.List
	// families are the model types that are described.
	families []string
	// extraRows are those of learned positions that no token has.
	extraRows int64
	// activation and gated are those of the MLP where the numbers' own word for both does not say them.
	activation string
	gated      bool
}

func (s *sizes) at(field string) string {
	if s.key != nil {
		field = s.key(field)
	}
	return s.pointer + "/" + field
}

func (s *sizes) refuse(field, detail string) {
	s.errs.Add(s.at(field), "unsupported", "%s", detail)
}

// FromDimensions finds the block of the described families that the numbers fit, or puts one together from its parts;
// it says what cannot be understood.
func FromDimensions(d *arch.Dimensions, families []string, pointer string, errs *invalid.List) arch.Architecture {
	s := &sizes{Dimensions: d, pointer: pointer, errs: errs, families: families}
	s.belong()
	return s.decide("dimensions")
}

// belong refuses numbers about parts that the model does not have.
func (s *sizes) belong() {
	d := s.Dimensions
	for _, x := range [...]struct {
		given       bool
		field, what string
	}{
		{d.Experts == 0 && d.ExpertsPerToken != 0, "experts_per_token",
			"a mixture of experts; give experts, or leave it out"},
		{d.Experts == 0 && d.ExpertFFN != 0, "expert_ffn", "a mixture of experts; give experts, or leave it out"},
		{d.Experts == 0 && d.SharedExperts != 0, "shared_experts",
			"a mixture of experts; give experts, or leave it out"},
		{d.Experts == 0 && d.SharedExpertFFN != 0, "shared_expert_ffn",
			"a mixture of experts; give experts, or leave it out"},
		{d.RotaryFraction != 0 && d.RotaryFraction != 1 && pick(d.Position, "rope") != "rope", "rotary_fraction",
			"the position rope; here it is " + d.Position},
	} {
		if x.given {
			s.errs.Add(s.at(x.field), "conflict", "%s belongs to %s", x.field, x.what)
		}
	}
}

func (s *sizes) decide(name string) arch.Architecture {
	d, a := s.Dimensions, s.architecture(name)
	switch {
	case d.Causal != nil && !*d.Causal:
		a = s.encoder(a)
	case s.likeGPT2(&a):
		a.Described, a.BufferSide, a.LearnedPositions = &decoders.GPT2Family, a.MaxPositions, true
		a.Tied = d.TiedEmbeddings == nil || *d.TiedEmbeddings
	case s.likeLlama(&a):
		a.Described, a.Rotary = &decoders.LlamaFamily, true
	default:
		a = s.block(a)
	}
	if known := slices.Contains(s.families, a.Family); a.Family == "" {
		a.Family = "generic"
	} else if !known && a.Family != "nanogpt" {
		a.Generic = true
	}
	if a.Family == "generic" || a.Described == &genericFamily {
		a.Generic = true
	}
	s.check(&a)
	if s.errs.Err() == nil && a.Described == &genericFamily {
		if known, ok := s.described(&a); ok {
			return known
		}
	}
	return a
}

// architecture takes over the numbers, with what they default to.
func (s *sizes) architecture(name string) arch.Architecture {
	d := s.Dimensions
	a := arch.Architecture{
		Name: name, Family: d.Family, Reentrant: true, Layers: d.Layers, Hidden: d.Hidden, Heads: d.Heads,
		KVHeads: d.KVHeads, HeadDim: d.HeadDim,
		FFN: d.FFN, Vocabulary: d.Vocabulary, MaxPositions: d.MaxPositions, QKNorm: bool(d.QKNorm), UseCache: true,
		EmbeddingDropout: d.Dropout, AttentionDropout: d.Dropout, ResidualDropout: d.Dropout,
	}
	if a.KVHeads == 0 {
		a.KVHeads = a.Heads
	}
	if a.HeadDim == 0 && a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	if a.FFN == 0 {
		a.FFN = 4 * a.Hidden
	}
	if a.MaxPositions == 0 {
		a.MaxPositions = 2048
	}
	a.Tied = d.TiedEmbeddings != nil && *d.TiedEmbeddings
	switch mlp := pick(d.MLP, "swiglu"); {
	case s.activation != "":
		a.Activation, a.Gated = s.activation, s.gated
	case mlp == "swiglu":
		a.Activation, a.Gated = "silu", true
	case mlp == "geglu":
		a.Activation, a.Gated = "gelu", true
	default:
		a.Activation = mlp
	}
	a = s.biases(a)
	return a
}

// biases takes over which matrices have one. Where nothing is said, those of a block with LayerNorm and an MLP
// without gate have, as GPT-2's.
func (s *sizes) biases(a arch.Architecture) arch.Architecture {
	d := s.Dimensions
	usual := s.layerNorm() && !a.Gated
	a.NormBias, a.MLPBias = s.layerNorm(), usual
	if d.NormBias != nil {
		a.NormBias = *d.NormBias
	}
	if d.MLPBias != nil {
		a.MLPBias = *d.MLPBias
	}
	switch d.AttentionBias {
	case "":
		a.QKVBias, a.OutBias = usual, usual
	case arch.AttentionBiasQKV:
		a.QKVBias = true
	case arch.AttentionBiasAll:
		a.QKVBias, a.OutBias = true, true
	}
	return a
}

func (s *sizes) layerNorm() bool { return s.Norm == "layernorm" }

// plain says that nothing but the sizes sets the block apart from GPT-2 and Llama.
func (s *sizes) plain() bool {
	d := s.Dimensions
	return d.Experts == 0 && !d.ParallelResidual && !d.LMHeadBias && (d.NormsPerLayer == 0 || d.NormsPerLayer == 2) &&
		d.NormPosition != "post" && (d.RotaryFraction == 0 || d.RotaryFraction == 1)
}

func (s *sizes) likeGPT2(a *arch.Architecture) bool {
	known := a.Activation == "gelu" || a.Activation == "gelu_new" || a.Activation == "relu"
	return s.plain() && s.extraRows == 0 && s.Position == "learned" && s.layerNorm() && known && !a.Gated &&
		a.KVHeads == a.Heads && !a.QKNorm &&
		a.NormBias && a.QKVBias && a.OutBias && a.MLPBias && a.Heads > 0 && a.HeadDim == a.Hidden/a.Heads
}

func (s *sizes) likeLlama(a *arch.Architecture) bool {
	return s.plain() && pick(s.Position, "rope") == "rope" && !s.layerNorm() && a.Gated && !a.NormBias && s.Dropout == 0
}

// encoder is a model in which every token sees all others.
func (s *sizes) encoder(a arch.Architecture) arch.Architecture {
	d := s.Dimensions
	if d.Experts > 0 {
		s.refuse("experts", "mixtures of experts are understood in decoders")
	}
	if d.ParallelResidual {
		s.refuse("parallel_residual", "parallel residuals are understood in decoders")
	}
	if d.NormsPerLayer != 0 && d.NormsPerLayer != 2 {
		s.refuse("norms_per_layer", "an encoder's layer is understood with 2 norms")
	}
	if d.RotaryFraction != 0 && d.RotaryFraction != 1 {
		s.refuse("rotary_fraction", "rotary positions on a part of a head are understood in decoders")
	}
	a.Gated = false
	a = encoderBlock(a, d, s.refuse)
	return a
}

// block puts the decoder together from its parts.
func (s *sizes) block(a arch.Architecture) arch.Architecture {
	d := s.Dimensions
	own := &Block{Position: pick(d.Position, "rope"), LayerNorm: s.layerNorm(), Norms: d.NormsPerLayer,
		Parallel: d.ParallelResidual, PostNorm: d.NormPosition == "post", HeadBias: d.LMHeadBias,
		positionRows: a.MaxPositions + s.extraRows}
	a.Described, a.Own = &genericFamily, own
	if own.Norms == 0 {
		own.Norms = 2
	}
	switch {
	case own.Position == "relative":
		s.refuse("position", "relative position biases are modelled for T5 only")
	case own.Norms == 3, own.Norms == 1 && !own.Parallel, own.Norms == 4 && (own.Parallel || own.PostNorm),
		own.PostNorm && (own.Parallel || own.Norms != 2):
		s.refuse("norms_per_layer", "understood are one or two norms with a parallel residual, and two or, before and "+
			"behind each, four without")
	}
	switch own.Position {
	case "rope":
		s.rotary(&a, own)
	case "learned":
		a.LearnedPositions = true
	}
	if d.Experts > 0 {
		s.mixture(&a, own)
	}
	return a
}

// rotary works out how many elements of a head are turned: an even number.
func (s *sizes) rotary(a *arch.Architecture, own *Block) {
	own.RotaryWidth = a.HeadDim
	if f := s.RotaryFraction; f > 0 && f < 1 {
		own.RotaryWidth = int64(f*float64(a.HeadDim)) &^ 1
	}
	if own.RotaryWidth < 2 || own.RotaryWidth%2 != 0 {
		s.errs.Add(s.at("rotary_fraction"), "not_divisible",
			"of a head of %d elements, %d would be turned; rotary positions turn an even number, at least 2", a.HeadDim,
			own.RotaryWidth)
	}
}

// mixture reads the experts that stand in for the MLP.
func (s *sizes) mixture(a *arch.Architecture, own *Block) {
	d := s.Dimensions
	e := &arch.Experts{Count: d.Experts, TopK: d.ExpertsPerToken, FFN: d.ExpertFFN, Normalise: true, Path: "mlp",
		Expert: arch.BuildGatedMLP}
	if e.FFN == 0 {
		e.FFN = a.FFN
	}
	if e.TopK == 0 {
		e.TopK = min(2, e.Count)
	}
	own.Experts = e
	if own.sharedFFN = d.SharedExpertFFN; own.sharedFFN == 0 {
		own.sharedFFN = d.SharedExperts * e.FFN
	}
	if !a.Gated {
		s.refuse("mlp", "experts are understood with gated MLPs: swiglu or geglu")
	}
	if float64(d.SharedExperts)*float64(e.FFN) > arch.MaxRows {
		s.errs.Add(s.at("shared_experts"), "out_of_range", "the shared experts are %.1e wide together; up "+
			"to %d are accepted", float64(d.SharedExperts)*float64(e.FFN), arch.MaxRows)
	}
}

// check holds the numbers against their limits and each other.
func (s *sizes) check(a *arch.Architecture) {
	for _, f := range []struct {
		name         string
		value, limit int64
	}{{"layers", a.Layers, arch.MaxLayers}, {"hidden", a.Hidden, arch.MaxWidth}, {"heads", a.Heads, arch.MaxWidth},
		{"kv_heads", a.KVHeads, arch.MaxWidth},
		{"ffn", a.FFN, arch.MaxRows}, {"vocab", a.Vocabulary, arch.MaxRows}, {"max_positions", a.MaxPositions, arch.MaxRows}} {
		if f.value < 1 || f.value > f.limit {
			s.errs.Add(s.at(f.name), "out_of_range", "%s is %d; it is from 1 to %d", f.name, f.value, f.limit)
			return
		}
	}
	names := arch.FieldNames{Heads: "heads", Hidden: "hidden", KV: "kv_heads", Dim: "head_dim"}
	if s.key != nil {
		names = arch.FieldNames{Heads: s.key("heads"), Hidden: s.key("hidden"), KV: s.key("kv_heads"), Dim: "head_dim"}
	}
	a.Check(s.pointer, s.errs, names)
}

func pick(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
