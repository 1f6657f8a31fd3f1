package model

// bidirectional: every token sees all others, as far as its layer's window goes.
func (o *modernOptions) bidirectional() bool { return true }

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

// dropping is with p for mlp_dropout.
func (o *modernOptions) dropping(p float64) any {
	with := *o
	with.mlpDropout = p
	return &with
}

var modernBERTFamily = family{modelType: "modernbert",
	uncompiled: "torch.compile around ModernBERT is not modelled; the model compiles parts of itself",
	keys:       commonKeys,
	classes:    []string{classMaskedLM, classClassification, classTokens, classQuestions, classBase},
	defaults: map[string]any{
		"vocab_size": 50368.0, "hidden_size": 768.0, "intermediate_size": 1152.0, "num_hidden_layers": 22.0,
		"num_attention_heads": 12.0, "hidden_activation": "gelu", "max_position_embeddings": 8192.0, "norm_bias": false,
		"attention_bias": false, "attention_dropout": 0.0, "global_attn_every_n_layers": 3.0, "local_attention": 128.0,
		"embedding_dropout": 0.0, "mlp_bias": false, "mlp_dropout": 0.0, "decoder_bias": true,
		"classifier_pooling": "cls",
		"classifier_dropout": 0.0, "classifier_bias": false, "classifier_activation": "gelu",
		"tie_word_embeddings": true},
	read:    (*config).modernBERT,
	spelled: map[string]string{"sliding_window": "local_attention"},
	numbers: func(_ *Preset, c map[string]any) { c["architectures"] = []any{classMaskedLM} },
	build:   buildModernBERT,
}

func (c *config) modernBERT(a *Architecture) {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	known := []string{"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"}
	a.Activation = c.activation("hidden_activation", known...)
	a.EmbeddingDropout, a.AttentionDropout = c.probability("embedding_dropout"), c.probability("attention_dropout")
	a.Tied, a.Gated, a.Rotary, a.Irregular = c.boolean("tie_word_embeddings"), true, true, true
	a.NormBias, a.QKVBias, a.MLPBias = c.boolean("norm_bias"), c.boolean("attention_bias"), c.boolean("mlp_bias")
	a.OutBias = a.QKVBias
	a.Labels = c.labels()
	pooling, _ := c.value("classifier_pooling")
	if pooling != "cls" && pooling != "mean" {
		c.errs.Add(c.pointer+"/classifier_pooling", "unsupported", "classifier_pooling is %s; it is cls or mean",
			describe(pooling))
	}
	if c.boolean("sparse_prediction") {
		c.errs.Add(c.pointer+"/sparse_prediction", "unsupported",
			"logits of masked tokens alone are not modelled; set it to false")
	}
	compiled, given := c.value("reference_compile")
	if _, boolean := compiled.(bool); given && !boolean {
		c.errs.Add(c.pointer+"/reference_compile", "wrong_type", "reference_compile is true, false or null, not %s",
			describe(compiled))
	}
	a.own = &modernOptions{
		compiled:    compiled != false,
		globalEvery: c.integer("global_attn_every_n_layers", maxLayers), local: c.integer("local_attention", maxRows),
		decoderBias: c.boolean("decoder_bias"), headBias: c.boolean("classifier_bias"),
		headActivation: c.activation("classifier_activation", known...), mlpDropout: c.probability("mlp_dropout"),
		classifierDropout: c.probability("classifier_dropout"), meanPooling: pooling == "mean",
	}
}
