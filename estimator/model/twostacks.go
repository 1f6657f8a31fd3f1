package model

// What the configurations of Whisper and BART say alike of an encoder and a decoder.

// stackSizes are the numbers in which the encoder and the decoder may differ.
type stackSizes struct{ layers, heads, ffn int64 }

// twoStacks reads the sizes of encoder and decoder, and what is dropped out.
func (c *config) twoStacks(a *Architecture) (encoder, decoder stackSizes, activationDropout float64) {
	a.Hidden, a.Vocabulary = c.integer("d_model", maxWidth), c.integer("vocab_size", maxRows)
	a.Activation = c.activation("activation_function", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	p := c.probability("dropout")
	a.EmbeddingDropout, a.ResidualDropout, a.AttentionDropout = p, p, c.probability("attention_dropout")
	a.UseCache, a.Tied = c.boolean("use_cache"), c.boolean("tie_word_embeddings")
	encoder, decoder = c.stack("encoder", a.Hidden), c.stack("decoder", a.Hidden)
	return encoder, decoder, c.probability("activation_dropout")
}

// stack reads the sizes of one of them, whose layers have width d.
func (c *config) stack(name string, d int64) stackSizes {
	heads := name + "_attention_heads"
	s := stackSizes{c.integer(name+"_layers", maxLayers/2), c.integer(heads, maxWidth), c.integer(name+"_ffn_dim",
		maxRows)}
	if s.heads > 0 && d%s.heads != 0 {
		c.errs.Add(c.pointer+"/"+heads, "not_divisible", "%s %d does not divide d_model %d", heads, s.heads, d)
	}
	if key := name + "_layerdrop"; c.probability(key) > 0 {
		c.errs.Add(c.pointer+"/"+key, "unsupported", "layers that are left out at random are not "+
			"modelled; set %s to 0", key)
	}
	return s
}

// stacks says how large both are together.
func (a *Architecture) stacks(encoder, decoder stackSizes) {
	a.Layers, a.Decoder = encoder.layers+decoder.layers, decoder.layers
	a.Heads, a.FFN = max(encoder.heads, decoder.heads), max(encoder.ffn, decoder.ffn)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.LearnedPositions, a.Irregular = true, true
}

// decoderNumbers are those of a decoder that differs from its encoder in layers alone.
func decoderNumbers(p *Preset, c map[string]any) {
	c["decoder_layers"], c["decoder_attention_heads"] = float64(p.DecoderLayers), float64(p.Heads)
	c["decoder_ffn_dim"] = float64(p.FFN)
}
