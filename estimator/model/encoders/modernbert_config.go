package encoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
)

// Bidirectional: every token sees all others, as far as its layer's window goes.
func (o *modernOptions) Bidirectional() bool { return true }

// modernOptions is what ModernBERT has besides the numbers of every architecture.
type modernOptions struct {
	// globalEvery is of how many layers the first sees all tokens, the others those within half of local on either
	// side.
	globalEvery, local int64
	decoderBias        bool
	headBias           bool
	headActivation     string
	mlpDropout         float64
	classifierDropout  float64
	meanPooling        bool
	// compiled says that torch.compile takes the embedding, the MLPs and the head for masked words, where Triton is
	// installed.
	compiled bool
}

// Dropping is with p for mlp_dropout.
func (o *modernOptions) Dropping(p float64) any {
	with := *o
	with.mlpDropout = p
	return &with
}

// ModernBERTFamily is ModernBERT.
var ModernBERTFamily = arch.Family{ModelType: "modernbert",
	Uncompiled: "torch.compile around ModernBERT is not modelled; the model compiles parts of itself",
	Keys:       arch.CommonKeys,
	Classes: []string{arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens, arch.ClassQuestions,
		arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 50368.0, "hidden_size": 768.0, "intermediate_size": 1152.0, "num_hidden_layers": 22.0,
		"num_attention_heads": 12.0, "hidden_activation": "gelu", "max_position_embeddings": 8192.0, "norm_bias": false,
		"attention_bias": false, "attention_dropout": 0.0, "global_attn_every_n_layers": 3.0, "local_attention": 128.0,
		"embedding_dropout": 0.0, "mlp_bias": false, "mlp_dropout": 0.0, "decoder_bias": true,
		"classifier_pooling": "cls",
		"classifier_dropout": 0.0, "classifier_bias": false, "classifier_activation": "gelu",
		"tie_word_embeddings": true},
	Read:    readModernBERT,
	Spelled: map[string]string{"sliding_window": "local_attention"},
	Numbers: func(_ *arch.Preset, c map[string]any) { c["architectures"] = []any{arch.ClassMaskedLM} },
	Build:   buildModernBERT,
}

func readModernBERT(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer("num_hidden_layers", arch.MaxLayers)
	a.Hidden = c.Integer("hidden_size", arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("intermediate_size", arch.MaxRows)
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	known := []string{"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"}
	a.Activation = c.Activation("hidden_activation", known...)
	a.EmbeddingDropout, a.AttentionDropout = c.Probability("embedding_dropout"), c.Probability("attention_dropout")
	a.Tied, a.Gated, a.Rotary, a.Irregular = c.Boolean("tie_word_embeddings"), true, true, true
	a.NormBias, a.QKVBias, a.MLPBias = c.Boolean("norm_bias"), c.Boolean("attention_bias"), c.Boolean("mlp_bias")
	a.OutBias = a.QKVBias
	a.Labels = c.Labels()
	pooling, _ := c.Value("classifier_pooling")
	if pooling != "cls" && pooling != "mean" {
		c.Errs.Add(c.Pointer+"/classifier_pooling", "unsupported", "classifier_pooling is %s; it is cls or mean",
			arch.Describe(pooling))
	}
	if c.Boolean("sparse_prediction") {
		c.Errs.Add(c.Pointer+"/sparse_prediction", "unsupported",
			"logits of masked tokens alone are not modelled; set it to false")
	}
	compiled, given := c.Value("reference_compile")
	if _, boolean := compiled.(bool); given && !boolean {
		c.Errs.Add(c.Pointer+"/reference_compile", "wrong_type", "reference_compile is true, false or null, not %s",
			arch.Describe(compiled))
	}
	a.Own = &modernOptions{
		compiled:    compiled != false,
		globalEvery: c.Integer("global_attn_every_n_layers", arch.MaxLayers), local: c.Integer("local_attention",
			arch.MaxRows),
		decoderBias: c.Boolean("decoder_bias"), headBias: c.Boolean("classifier_bias"),
		headActivation: c.Activation("classifier_activation", known...), mlpDropout: c.Probability("mlp_dropout"),
		classifierDropout: c.Probability("classifier_dropout"), meanPooling: pooling == "mean",
	}
	return a
}
