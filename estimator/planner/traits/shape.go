package traits

import (
	"math"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
)

// Shape is what the step-time model needs to know of a model. It decides no byte.
type Shape struct {
	Layers, Hidden, Heads, KVHeads, HeadDim int64
	// FFN is the width of the MLP that one token passes through, over all experts
	// that it is sent to.
	FFN int64
	// ExpertsPerToken is to how many experts a token is sent, Experts among how many of a layer they are chosen, and
	// ExpertParameters what the experts of all layers have together; 0 without a mixture.
	ExpertsPerToken, Experts, ExpertParameters int64
	// Gated is true where the MLP has three matrices instead of two.
	Gated      bool
	Vocabulary int64
	// Context is the longest sequence; 0 when unknown.
	Context int64
	Causal  bool
}

// ShapeOf reads the shape off a job. Where the model says too little, parameters
// (the estimator's count) stands in: a GPT of that size with the usual aspect,
// 64 wide per layer as GPT-2, has the same matrix work.
func ShapeOf(in estimator.Input, parameters int64) Shape {
	s := ReadShape(in)
	if s.Layers <= 0 || s.Hidden <= 0 {
		// parameters = 12·layers·hidden² with layers = hidden / 64.
		hidden := math.Cbrt(float64(max(parameters, 1)) * 64 / 12)
		s.Hidden = max(64, int64(hidden/64)*64)
		s.Layers = max(1, s.Hidden/64)
	}
	if s.Heads <= 0 {
		s.Heads = max(1, s.Hidden/64)
	}
	if s.HeadDim <= 0 {
		s.HeadDim = max(1, s.Hidden/s.Heads)
	}
	if s.KVHeads <= 0 {
		s.KVHeads = s.Heads
	}
	if s.FFN <= 0 {
		s.FFN = 4 * s.Hidden
	}
	return s
}

// ReadShape asks for the architecture as the estimator does. It is empty where the
// model is described in a way that only the estimator understands.
func ReadShape(in estimator.Input) Shape {
	a, ok := ArchitectureOf(in)
	if !ok {
		return Shape{}
	}
	experts, width := a.ExpertsPerToken()
	if experts > 0 {
		a.FFN = width
	}
	return Shape{
		Layers: a.Layers, Hidden: a.Hidden, Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, FFN: a.FFN,
		ExpertsPerToken: experts, Experts: a.RoutedExperts(), ExpertParameters: mixtures.RoutedParameters(&a),
		Gated:      a.Gated,
		Vocabulary: a.Vocabulary, Context: a.MaxPositions, Causal: !a.Encoder(),
	}
}

// DescribedArchitecture is the architecture of a job; nil where only the estimator understands it.
func DescribedArchitecture(in estimator.Input) *model.Architecture {
	if a, ok := ArchitectureOf(in); ok {
		return &a
	}
	return nil
}

// ArchitectureOf is the architecture as the estimator reads it; ok is false where only the estimator understands it.
func ArchitectureOf(in estimator.Input) (a model.Architecture, ok bool) {
	var wrong invalid.List
	switch m := in.Job.Model; {
	case m.NanoGPT != nil:
		a = model.FromNanoGPT(*m.NanoGPT, "", &wrong)
	case m.Dimensions != nil:
		a = model.FromDimensions(m.Dimensions, "", &wrong)
	case len(m.Recorded) > 0, m.Diffusion != nil: // which have no such numbers
		return a, false
	case len(m.HFConfig) > 0:
		a = model.FromHF(m.HFConfig, "", &wrong)
	case in.Preset != nil:
		a = model.FromPreset(in.Preset, "", &wrong)
	}
	return a, wrong.Err() == nil
}

// SequenceLength is the job's, or the model's context; 0 when nobody says.
func SequenceLength(in estimator.Input, s Shape) int64 {
	if n := in.Job.Training.SequenceLength; n > 0 {
		return n
	}
	return s.Context
}

// NanoGPTOf is the job's nanoGPT configuration, also where a preset names it.
func NanoGPTOf(in estimator.Input) *model.NanoGPT {
	if in.Job.Model.NanoGPT != nil {
		return in.Job.Model.NanoGPT
	}
	if p := in.Preset; p != nil && strings.HasPrefix(p.ID, "nanogpt/") {
		return &model.NanoGPT{
			Layers: p.Layers, Heads: p.Heads, Embedding: p.Hidden, BlockSize: p.MaxPositions,
			Vocabulary: p.Vocabulary, Bias: p.Bias.MLP, Dropout: p.Dropout.Residual,
		}
	}
	return nil
}
