package arch

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// NanoGPT holds the model keys of a nanoGPT configuration (train.py's names).
type NanoGPT struct {
	// Layers is the number of blocks.
	Layers int64 `json:"n_layer" validate:"required,gte=1,lte=1024"`
	// Heads is the number of attention heads; it divides the width.
	Heads int64 `json:"n_head" validate:"required,gte=1,lte=1000000"`
	// Embedding is the width.
	Embedding int64 `json:"n_embd" validate:"required,gte=1,lte=16777216"`
	// BlockSize is the context in tokens; 1024 where it is left out.
	BlockSize int64 `json:"block_size,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Vocabulary is the number of tokens, padded as it is trained; 50304 where it is left out.
	Vocabulary int64 `json:"vocab_size,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Bias says whether linear layers and norms have biases.
	Bias bool `json:"bias,omitempty"`
	// Dropout is the probability, in attention and after projections.
	Dropout float64 `json:"dropout,omitempty" validate:"gte=0,lt=1"`
}

// Dimensions describes a decoder or encoder by its numbers, for a model that
// has no preset and no config.json.
type Dimensions struct {
	// Family is a known family whose blocks the numbers are for; a plain decoder or encoder where it is left out.
	Family string `json:"family,omitempty" validate:"omitempty,max=100"`
	// Layers is the number of blocks.
	Layers int64 `json:"layers" validate:"required,gte=1,lte=1024"`
	// Hidden is the width of the residual stream.
	Hidden int64 `json:"hidden" validate:"required,gte=1,lte=16777216"`
	// Heads is the number of query heads.
	Heads int64 `json:"heads" validate:"required,gte=1,lte=1000000"`
	// KVHeads is the number of key and value heads; that of query heads where it is left out.
	KVHeads int64 `json:"kv_heads,omitempty" validate:"omitempty,gte=1,lte=1000000"`
	// HeadDim is the width of a head; the width divided by their number where it is left out.
	HeadDim int64 `json:"head_dim,omitempty" validate:"omitempty,gte=1,lte=16777216"`
	// FFN is the inner width of the MLP; four times the width where it is left out.
	FFN int64 `json:"ffn,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Vocabulary is the number of rows of the embedding.
	Vocabulary int64 `json:"vocab" validate:"required,gte=1,lte=1073741824"`
	// MaxPositions is the context in tokens; 2048 where it is left out.
	MaxPositions int64 `json:"max_positions,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// TiedEmbeddings says whether the output layer is the embedding.
	TiedEmbeddings *bool `json:"tied_embeddings,omitempty"`
	// MLP is its activation; swiglu and geglu have a gate. swiglu where it is left out.
	MLP string `json:"mlp,omitempty" validate:"omitempty,oneof=gelu gelu_new relu relu2 swiglu geglu"`
	// Norm is the kind of norm; rmsnorm where it is left out.
	Norm string `json:"norm,omitempty" validate:"omitempty,oneof=layernorm rmsnorm"`
	// NormBias says whether norms have a bias; layernorm has where it is left out.
	NormBias *bool `json:"norm_bias,omitempty"`
	// NormsPerLayer is the number of norms in a block; 2 where it is left out.
	NormsPerLayer int64 `json:"norms_per_layer,omitempty" validate:"omitempty,gte=1,lte=4"`
	// NormPosition is before (pre) or after (post) attention and MLP; pre where it is left out.
	NormPosition string `json:"norm_position,omitempty" validate:"omitempty,oneof=pre post"`
	// Position is how positions are told; rope where it is left out.
	Position string `json:"position,omitempty" validate:"omitempty,oneof=learned rope alibi relative none"`
	// RotaryFraction is the share of a head that is rotated.
	RotaryFraction float64 `json:"rotary_fraction,omitempty" validate:"omitempty,gte=0.001,lte=1"`
	// QKNorm says whether queries and keys are normed, each head by itself; the word per-head is accepted for true.
	QKNorm HeadNorms `json:"qk_norm,omitempty"`
	// ParallelResidual says whether attention and MLP read the same input.
	ParallelResidual bool `json:"parallel_residual,omitempty"`
	// Causal is false for an encoder; true where it is left out.
	Causal *bool `json:"causal,omitempty"`
	// AttentionBias says which projections of attention have biases. Where it is left out, those of a block with
	// LayerNorm and an MLP without gate have.
	AttentionBias AttentionBias `json:"attention_bias,omitempty"`
	// MLPBias says whether the MLP has biases; as in attention where it is left out.
	MLPBias *bool `json:"mlp_bias,omitempty"`
	// LMHeadBias says whether the output layer has a bias.
	LMHeadBias bool `json:"lm_head_bias,omitempty"`
	// Dropout is the probability, in attention and after projections.
	Dropout float64 `json:"dropout,omitempty" validate:"gte=0,lt=1"`
	// Experts is the number of experts of a layer; 0 for a dense model.
	Experts int64 `json:"experts,omitempty" validate:"gte=0,lte=1000000"`
	// ExpertsPerToken is how many of them a token goes through.
	ExpertsPerToken int64 `json:"experts_per_token,omitempty" validate:"gte=0,lte=1000000"`
	// ExpertFFN is the inner width of an expert; ffn where it is 0.
	ExpertFFN int64 `json:"expert_ffn,omitempty" validate:"gte=0,lte=1073741824"`
	// SharedExperts is the number of experts that every token goes through.
	SharedExperts int64 `json:"shared_experts,omitempty" validate:"gte=0,lte=1000000"`
	// SharedExpertFFN is the inner width of the shared experts.
	SharedExpertFFN int64 `json:"shared_expert_ffn,omitempty" validate:"gte=0,lte=1073741824"`
}

// Head is what stands on top of the model.
type Head struct {
	// Kind is what the model is trained to say; the family's own where it is left out.
	Kind string `json:"kind,omitempty" validate:"omitempty,oneof=language-model masked-lm classification token-classification question-answering multiple-choice none"`
	// Labels is the number of classes.
	Labels int64 `json:"labels,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Choices is how many answers each question of multiple choice has: the micro-batch counts questions, and every
	// answer is a sequence.
	Choices int64 `json:"choices,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// Pooler says whether an encoder has its pooler.
	Pooler *bool `json:"pooler,omitempty"`
}

// HeadNorms says that queries and keys are normed.
type HeadNorms bool

// UnmarshalJSON accepts false, true or "per-head".
func (n *HeadNorms) UnmarshalJSON(b []byte) error {
	switch string(bytes.TrimSpace(b)) {
	case "null", "false":
		*n = false
	case "true", `"per-head"`, `"per_head"`:
		*n = true
	default:
		return fmt.Errorf("qk_norm is false, true or \"per-head\", not %.40s", b)
	}
	return nil
}

// Shorthand says that the value is a boolean or a string.
func (HeadNorms) Shorthand() []string { return []string{"bool", "string"} }

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
