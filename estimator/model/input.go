package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// NanoGPT holds the model keys of a nanoGPT configuration (train.py's names).
type NanoGPT struct {
	Layers     int64   `json:"n_layer" validate:"required,gte=1,lte=1024"`
	Heads      int64   `json:"n_head" validate:"required,gte=1,lte=1000000"`
	Embedding  int64   `json:"n_embd" validate:"required,gte=1,lte=16777216"`
	BlockSize  int64   `json:"block_size,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	Vocabulary int64   `json:"vocab_size,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	Bias       bool    `json:"bias,omitempty"`
	Dropout    float64 `json:"dropout,omitempty" validate:"gte=0,lt=1"`
}

// Dimensions describes a decoder or encoder by its numbers, for a model that
// has no preset and no config.json.
type Dimensions struct {
	Family           string        `json:"family,omitempty" validate:"omitempty,max=100"`
	Layers           int64         `json:"layers" validate:"required,gte=1,lte=1024"`
	Hidden           int64         `json:"hidden" validate:"required,gte=1,lte=16777216"`
	Heads            int64         `json:"heads" validate:"required,gte=1,lte=1000000"`
	KVHeads          int64         `json:"kv_heads,omitempty" validate:"omitempty,gte=1,lte=1000000"`
	HeadDim          int64         `json:"head_dim,omitempty" validate:"omitempty,gte=1,lte=16777216"`
	FFN              int64         `json:"ffn,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	Vocabulary       int64         `json:"vocab" validate:"required,gte=1,lte=1073741824"`
	MaxPositions     int64         `json:"max_positions,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	TiedEmbeddings   *bool         `json:"tied_embeddings,omitempty"`
	MLP              string        `json:"mlp,omitempty" validate:"omitempty,oneof=gelu gelu_new relu relu2 swiglu geglu"`
	Norm             string        `json:"norm,omitempty" validate:"omitempty,oneof=layernorm rmsnorm"`
	NormBias         *bool         `json:"norm_bias,omitempty"`
	NormsPerLayer    int64         `json:"norms_per_layer,omitempty" validate:"omitempty,gte=1,lte=4"`
	NormPosition     string        `json:"norm_position,omitempty" validate:"omitempty,oneof=pre post"`
	Position         string        `json:"position,omitempty" validate:"omitempty,oneof=learned rope alibi relative none"`
	RotaryFraction   float64       `json:"rotary_fraction,omitempty" validate:"omitempty,gte=0.001,lte=1"`
	QKNorm           bool          `json:"qk_norm,omitempty"`
	ParallelResidual bool          `json:"parallel_residual,omitempty"`
	Causal           *bool         `json:"causal,omitempty"`
	AttentionBias    AttentionBias `json:"attention_bias,omitempty"`
	MLPBias          *bool         `json:"mlp_bias,omitempty"`
	LMHeadBias       bool          `json:"lm_head_bias,omitempty"`
	Dropout          float64       `json:"dropout,omitempty" validate:"gte=0,lt=1"`
	Experts          int64         `json:"experts,omitempty" validate:"gte=0,lte=1000000"`
	ExpertsPerToken  int64         `json:"experts_per_token,omitempty" validate:"gte=0,lte=1000000"`
	ExpertFFN        int64         `json:"expert_ffn,omitempty" validate:"gte=0,lte=1073741824"`
	SharedExperts    int64         `json:"shared_experts,omitempty" validate:"gte=0,lte=1000000"`
	SharedExpertFFN  int64         `json:"shared_expert_ffn,omitempty" validate:"gte=0,lte=1073741824"`
}

// Head is what stands on top of the model.
type Head struct {
	Kind   string `json:"kind,omitempty" validate:"omitempty,oneof=language-model masked-lm classification none"`
	Labels int64  `json:"labels,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	Pooler *bool  `json:"pooler,omitempty"`
}

// AttentionBias is false, true (all four projections) or "qkv".
type AttentionBias string

// The values of AttentionBias; empty where nothing is said.
const (
	AttentionBiasNone AttentionBias = "none"
	AttentionBiasAll  AttentionBias = "all"
	AttentionBiasQKV  AttentionBias = "qkv"
)

// Shorthand says that the value is a boolean or a string.
func (AttentionBias) Shorthand() []string { return []string{"bool", "string"} }

// UnmarshalJSON accepts false, true or "qkv".
func (a *AttentionBias) UnmarshalJSON(b []byte) error {
	switch string(bytes.TrimSpace(b)) {
	case "null":
		*a = ""
	case "false":
		*a = AttentionBiasNone
	case "true":
		*a = AttentionBiasAll
	case `"qkv"`:
		*a = AttentionBiasQKV
	default:
		return fmt.Errorf("attention_bias is false, true or \"qkv\", not %s", b)
	}
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (a AttentionBias) MarshalJSON() ([]byte, error) {
	switch a {
	case "", AttentionBiasNone:
		return []byte("false"), nil
	case AttentionBiasAll:
		return []byte("true"), nil
	}
	return json.Marshal(string(a))
}
