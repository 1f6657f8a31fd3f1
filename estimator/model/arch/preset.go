package arch

import (
	"encoding/json"
)

// Preset is one entry of the model catalog: the dimensions of a published model
// and its exact parameter count. Its JSON is the catalog's own; the limits are those
// of a config.json.
type Preset struct {
	ID                    string     `json:"id" validate:"omitempty,max=200"`
	Family                string     `json:"family" validate:"required_without_all=Recorded HFConfig NanoGPT,omitempty,max=64"`
	Kind                  string     `json:"kind" validate:"required_without_all=Recorded HFConfig NanoGPT,omitempty,max=64"`
	Layers                int64      `json:"layers" validate:"required_without_all=Recorded HFConfig NanoGPT,gte=0,lte=1024"`
	Hidden                int64      `json:"hidden" validate:"required_without_all=Recorded HFConfig NanoGPT,gte=0,lte=16777216"`
	Heads                 int64      `json:"heads" validate:"required_without_all=Recorded HFConfig NanoGPT,gte=0,lte=16777216"`
	KVHeads               int64      `json:"kv_heads" validate:"gte=0,lte=16777216"`
	HeadDim               int64      `json:"head_dim" validate:"gte=0,lte=16777216"`
	FFN                   int64      `json:"ffn" validate:"gte=0,lte=1073741824"`
	Vocabulary            int64      `json:"vocab" validate:"gte=0,lte=1073741824"`
	MaxPositions          int64      `json:"max_positions" validate:"gte=0,lte=1073741824"`
	PositionEmbeddingRows int64      `json:"position_embedding_rows" validate:"gte=0,lte=1073741824"`
	TiedEmbeddings        bool       `json:"tied_embeddings"`
	MLP                   string     `json:"mlp" validate:"max=64"`
	Norm                  string     `json:"norm" validate:"max=64"`
	Position              string     `json:"position" validate:"max=64"`
	Bias                  PresetBias `json:"bias"`
	NormsPerLayer         int64      `json:"norms_per_layer" validate:"gte=0,lte=16"`
	FinalNorm             bool       `json:"final_norm"`
	QKNorm                string     `json:"qk_norm" validate:"max=64"`
	SlidingWindow         int64      `json:"sliding_window" validate:"gte=0,lte=1073741824"`
	// Of encoders: how many kinds of segments have an embedding, whether the base model has a pooler, and the
	// parameters of the heads for masked words (and the next sentence) that published files hold besides.
	TypeVocabulary   int64 `json:"type_vocab,omitempty" validate:"gte=0,lte=1073741824"`
	Pooler           bool  `json:"pooler,omitempty"`
	MaskedHeadParams int64 `json:"mlm_head_params,omitempty" validate:"gte=0,lte=9007199254740991"`
	// Of models with two stacks.
	DecoderLayers            int64 `json:"decoder_layers" validate:"gte=0,lte=1024"`
	RelativeAttentionBuckets int64 `json:"relative_attention_num_buckets" validate:"gte=0,lte=1073741824"`
	// Of models that hear sound: positions of the encoder, and rows of the spectrogram.
	MaxSourcePositions int64 `json:"max_source_positions,omitempty" validate:"gte=0,lte=1073741824"`
	MelBins            int64 `json:"num_mel_bins,omitempty" validate:"gte=0,lte=16777216"`
	// Of models that see pictures.
	ImageSize int64 `json:"image_size,omitempty" validate:"gte=0,lte=65536"`
	PatchSize int64 `json:"patch_size,omitempty" validate:"gte=0,lte=65536"`
	Labels    int64 `json:"num_labels,omitempty" validate:"gte=0,lte=1073741824"`
	// Of models that compare pictures with texts: the tower of the texts, and the width in which both are compared.
	Text            *PresetText `json:"text,omitempty"`
	ProjectionWidth int64       `json:"projection_dim,omitempty" validate:"gte=0,lte=16777216"`
	// Of models that read pictures among their tokens: the tower that looks at them; the other numbers are those of the
	// text model.
	Vision *PresetVision `json:"vision,omitempty"`

	Dropout PresetDropout   `json:"dropout"`
	MoE     PresetExperts   `json:"moe"`
	MLA     PresetAttention `json:"mla"`
	// WordEmbeddingWidth is the width of the token embedding where it is not that of the layers.
	WordEmbeddingWidth int64    `json:"word_embed_proj_dim" validate:"gte=0,lte=16777216"`
	ParametersTotal    int64    `json:"params_total" validate:"gte=0,lte=9007199254740991"`
	Aliases            []string `json:"aliases" validate:"max=64,dive,min=1,max=200"`
	// Recorded is what vramplan_record wrote of a module (docs/recording.md); the dimensions are left out then.
	Recorded json.RawMessage `json:"recorded,omitempty" swaggertype:"object"`
	// HFConfig is the object in the published config.json, as far as it is known. It says more than the dimensions,
	// which agree with it where they are given, too.
	HFConfig json.RawMessage `json:"hf_config,omitempty" swaggertype:"object"`
	// NanoGPT are the numbers of train.py, of a model that is written as nanoGPT writes it.
	NanoGPT *PresetNanoGPT `json:"nanogpt,omitempty"`
}

// PresetNanoGPT are the numbers of train.py as a job gives them under model.nanogpt.
type PresetNanoGPT NanoGPT

// PresetText is the tower of a preset that reads texts.
type PresetText struct {
	Layers       int64 `json:"layers" validate:"gte=0,lte=1024"`
	Hidden       int64 `json:"hidden" validate:"gte=0,lte=16777216"`
	Heads        int64 `json:"heads" validate:"gte=0,lte=16777216"`
	FFN          int64 `json:"ffn" validate:"gte=0,lte=1073741824"`
	MaxPositions int64 `json:"max_positions" validate:"gte=0,lte=1073741824"`
}

// PresetVision is the tower of a preset that looks at pictures.
type PresetVision struct {
	Layers int64 `json:"layers" validate:"gte=0,lte=1024"`
	Hidden int64 `json:"hidden" validate:"gte=0,lte=16777216"`
	Heads  int64 `json:"heads" validate:"gte=0,lte=16777216"`
	FFN    int64 `json:"ffn" validate:"gte=0,lte=1073741824"`
}

// PresetDropout has the dropout probabilities of a preset.
type PresetDropout struct {
	Attention float64 `json:"attention" validate:"gte=0,lt=1"`
	Residual  float64 `json:"residual" validate:"gte=0,lt=1"`
	Embedding float64 `json:"embedding" validate:"gte=0,lt=1"`
	Hidden    float64 `json:"hidden,omitempty" validate:"gte=0,lt=1"`
}

// PresetBias says which matrices of a preset carry a bias.
type PresetBias struct {
	Q      bool `json:"q"`
	K      bool `json:"k"`
	V      bool `json:"v"`
	O      bool `json:"o"`
	MLP    bool `json:"mlp"`
	LMHead bool `json:"lm_head"`
	Norm   bool `json:"norm"`
}

// PresetExperts is a preset's mixture of experts; all zero without.
type PresetExperts struct {
	Experts          int64 `json:"experts" validate:"gte=0,lte=65536"`
	TopK             int64 `json:"top_k" validate:"gte=0,lte=65536"`
	ExpertFFN        int64 `json:"expert_ffn" validate:"gte=0,lte=1073741824"`
	SharedExperts    int64 `json:"shared_experts" validate:"gte=0,lte=65536"`
	SharedExpertFFN  int64 `json:"shared_expert_ffn_total" validate:"gte=0,lte=1073741824"`
	FirstDenseLayers int64 `json:"first_dense_layers" validate:"gte=0,lte=1024"`
}

// PresetAttention is a preset's multi-head latent attention; all zero without.
type PresetAttention struct {
	QueryRank     int64 `json:"q_lora_rank" validate:"gte=0,lte=16777216"`
	KeyValueRank  int64 `json:"kv_lora_rank" validate:"gte=0,lte=16777216"`
	KeyHeadDim    int64 `json:"qk_nope_head_dim" validate:"gte=0,lte=16777216"`
	RotaryHeadDim int64 `json:"qk_rope_head_dim" validate:"gte=0,lte=16777216"`
	ValueHeadDim  int64 `json:"v_head_dim" validate:"gte=0,lte=16777216"`
}
