package model

// Preset is one entry of the model catalog: the dimensions of a published model
// and its exact parameter count. Its JSON is the catalog's own.
type Preset struct {
	ID                    string     `json:"id"`
	Family                string     `json:"family"`
	Kind                  string     `json:"kind"`
	Layers                int64      `json:"layers"`
	Hidden                int64      `json:"hidden"`
	Heads                 int64      `json:"heads"`
	KVHeads               int64      `json:"kv_heads"`
	HeadDim               int64      `json:"head_dim"`
	FFN                   int64      `json:"ffn"`
	Vocabulary            int64      `json:"vocab"`
	MaxPositions          int64      `json:"max_positions"`
	PositionEmbeddingRows int64      `json:"position_embedding_rows"`
	TiedEmbeddings        bool       `json:"tied_embeddings"`
	MLP                   string     `json:"mlp"`
	Norm                  string     `json:"norm"`
	Position              string     `json:"position"`
	Bias                  PresetBias `json:"bias"`
	NormsPerLayer         int64      `json:"norms_per_layer"`
	FinalNorm             bool       `json:"final_norm"`
	QKNorm                string     `json:"qk_norm"`
	SlidingWindow         int64      `json:"sliding_window"`
	// Of encoders: how many kinds of segments have an embedding, whether the base model has a pooler, and the
	// parameters of the heads for masked words (and the next sentence) that published files hold besides.
	TypeVocabulary   int64 `json:"type_vocab,omitempty"`
	Pooler           bool  `json:"pooler,omitempty"`
	MaskedHeadParams int64 `json:"mlm_head_params,omitempty"`
	// Of models with two stacks.
	DecoderLayers            int64 `json:"decoder_layers"`
	RelativeAttentionBuckets int64 `json:"relative_attention_num_buckets"`
	// Of models that hear sound: positions of the encoder, and rows of the spectrogram.
	MaxSourcePositions int64 `json:"max_source_positions,omitempty"`
	MelBins            int64 `json:"num_mel_bins,omitempty"`
	// Of models that see pictures.
	ImageSize int64 `json:"image_size,omitempty"`
	PatchSize int64 `json:"patch_size,omitempty"`
	Labels    int64 `json:"num_labels,omitempty"`
	// Of models that compare pictures with texts: the tower of the texts, and the width in which both are compared.
	Text            *PresetText `json:"text,omitempty"`
	ProjectionWidth int64       `json:"projection_dim,omitempty"`

	Dropout struct {
		Attention float64 `json:"attention"`
		Residual  float64 `json:"residual"`
		Embedding float64 `json:"embedding"`
		Hidden    float64 `json:"hidden,omitempty"`
	} `json:"dropout"`
	MoE PresetExperts   `json:"moe"`
	MLA PresetAttention `json:"mla"`
	// WordEmbeddingWidth is the width of the token embedding where it is not that of the layers.
	WordEmbeddingWidth int64    `json:"word_embed_proj_dim"`
	ParametersTotal    int64    `json:"params_total"`
	Aliases            []string `json:"aliases"`
}

// PresetText is the tower of a preset that reads texts.
type PresetText struct {
	Layers       int64 `json:"layers"`
	Hidden       int64 `json:"hidden"`
	Heads        int64 `json:"heads"`
	FFN          int64 `json:"ffn"`
	MaxPositions int64 `json:"max_positions"`
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
	Experts          int64 `json:"experts"`
	TopK             int64 `json:"top_k"`
	ExpertFFN        int64 `json:"expert_ffn"`
	SharedExperts    int64 `json:"shared_experts"`
	SharedExpertFFN  int64 `json:"shared_expert_ffn_total"`
	FirstDenseLayers int64 `json:"first_dense_layers"`
}

// PresetAttention is a preset's multi-head latent attention; all zero without.
type PresetAttention struct {
	QueryRank     int64 `json:"q_lora_rank"`
	KeyValueRank  int64 `json:"kv_lora_rank"`
	KeyHeadDim    int64 `json:"qk_nope_head_dim"`
	RotaryHeadDim int64 `json:"qk_rope_head_dim"`
	ValueHeadDim  int64 `json:"v_head_dim"`
}
