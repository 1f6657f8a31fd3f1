package planner

import (
	"encoding/json"
	"math"

	"github.com/vramplan/vramplan/estimator"
)

// Shape is what the step-time model needs to know of a model. It decides no byte.
type Shape struct {
	Layers, Hidden, Heads, KVHeads, HeadDim int64
	// FFN is the width of the MLP that one token passes through, over all experts
	// that it is sent to.
	FFN int64
	// Gated is true where the MLP has three matrices instead of two.
	Gated      bool
	Vocabulary int64
	// Context is the longest sequence; 0 when unknown.
	Context int64
	Causal  bool
}

// shapeOf reads the shape off a job. Where the model says too little, parameters
// (the estimator's count) stands in: a GPT of that size with the usual aspect,
// 64 wide per layer as GPT-2, has the same matrix work.
func shapeOf(in estimator.Input, parameters int64) Shape {
	s := readShape(in)
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

func readShape(in estimator.Input) Shape {
	m := in.Job.Model
	switch {
	case m.NanoGPT != nil:
		g := m.NanoGPT
		s := Shape{Layers: g.Layers, Hidden: g.Embedding, Heads: g.Heads, Vocabulary: g.Vocabulary, Context: g.BlockSize, Causal: true}
		// model.py's GPTConfig.
		if s.Vocabulary == 0 {
			s.Vocabulary = 50304
		}
		if s.Context == 0 {
			s.Context = 1024
		}
		return s
	case m.Dimensions != nil:
		d := m.Dimensions
		s := Shape{
			Layers: d.Layers, Hidden: d.Hidden, Heads: d.Heads, KVHeads: d.KVHeads, HeadDim: d.HeadDim, FFN: d.FFN,
			Gated: d.MLP == "swiglu" || d.MLP == "geglu", Vocabulary: d.Vocabulary, Context: d.MaxPositions,
			Causal: d.Causal == nil || *d.Causal,
		}
		if d.ExpertsPerToken > 0 && d.ExpertFFN > 0 {
			s.FFN = d.ExpertsPerToken*d.ExpertFFN + d.SharedExperts*d.SharedExpertFFN
		}
		return s
	case in.Preset != nil:
		p := in.Preset
		return Shape{
			Layers: p.Layers, Hidden: p.Hidden, Heads: p.Heads, KVHeads: p.KVHeads, HeadDim: p.HeadDim, FFN: p.FFN,
			Gated: p.MLP == "swiglu" || p.MLP == "geglu", Vocabulary: p.Vocabulary, Context: p.MaxPositions, Causal: p.Kind == "decoder",
		}
	case len(m.HFConfig) > 0:
		return hfShape(m.HFConfig)
	}
	return Shape{}
}

// hfShape reads the keys that most families share, under the names of GPT-2, BERT
// and Llama, OPT, T5. A key of another kind is as good as absent: the
// estimator judges the document, this only sizes the matrices.
func hfShape(config json.RawMessage) Shape {
	var keys map[string]json.RawMessage
	if json.Unmarshal(config, &keys) != nil {
		return Shape{}
	}
	first := func(names ...string) int64 {
		for _, name := range names {
			var n int64
			if json.Unmarshal(keys[name], &n) == nil && n > 0 && n <= 1<<30 {
				return n
			}
		}
		return 0
	}
	_, gated := keys["rms_norm_eps"] // families with RMSNorm have a gated MLP
	s := Shape{
		Layers:     first("num_hidden_layers", "n_layer", "num_layers"),
		Hidden:     first("hidden_size", "n_embd", "d_model"),
		Heads:      first("num_attention_heads", "n_head", "num_heads"),
		KVHeads:    first("num_key_value_heads"),
		HeadDim:    first("head_dim", "d_kv"),
		FFN:        first("intermediate_size", "n_inner", "ffn_dim", "d_ff"),
		Vocabulary: first("vocab_size"),
		Context:    first("max_position_embeddings", "n_positions", "n_ctx"),
		Gated:      gated,
		Causal:     true,
	}
	if k, f := first("num_experts_per_tok"), first("moe_intermediate_size", "intermediate_size"); k > 0 && f > 0 {
		s.FFN = k * f
	}
	return s
}

// sequenceLength is the job's, or the model's context; 0 when nobody says.
func sequenceLength(in estimator.Input, s Shape) int64 {
	if n := in.Job.Training.SequenceLength; n > 0 {
		return n
	}
	return s.Context
}
