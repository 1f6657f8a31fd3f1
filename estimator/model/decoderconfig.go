package model

// llama reads the keys that most decoders share.
func (c *config) llama(a *Architecture) { c.decoder(a, "hidden_act") }

// decoder is llama for a family that calls its activation by another name, or has others than most.
func (c *config) decoder(a *Architecture, activation string, others ...string) {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	if a.KVHeads = c.optional("num_key_value_heads", maxWidth); a.KVHeads == 0 {
		a.KVHeads = a.Heads
	}
	if a.HeadDim = c.optional("head_dim", maxWidth); a.HeadDim == 0 && a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	a.Activation = c.activation(activation, append([]string{"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh",
		"relu", "relu2"}, others...)...)
	a.AttentionDropout = c.probability("attention_dropout")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	a.Gated, a.Rotary = true, true
}

// biased is llama for a family whose attention_bias puts a bias on all four projections.
func (c *config) biased(a *Architecture) {
	c.llama(a)
	a.QKVBias = c.boolean("attention_bias")
	a.OutBias = a.QKVBias
}

// noWindow is what an entry without a window says where the class has one by default.
func noWindow(p *Preset, c map[string]any) {
	if p.SlidingWindow == 0 {
		c["sliding_window"] = nil
	}
}
