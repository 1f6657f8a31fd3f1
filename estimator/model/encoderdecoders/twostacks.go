package encoderdecoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
)

// What the configurations of Whisper and BART say alike of an encoder and a decoder.

// stackSizes are the numbers in which the encoder and the decoder may differ.
type stackSizes struct{ layers, heads, ffn int64 }

// twoStacks reads the sizes of encoder and decoder, and what is dropped out.
func twoStacks(c *arch.Config, a *arch.Architecture) (encoder, decoder stackSizes, activationDropout float64) {
	a.Hidden, a.Vocabulary = c.Integer("d_model", arch.MaxWidth), c.Integer("vocab_size", arch.MaxRows)
	a.Activation = c.Activation("activation_function", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish")
	p := c.Probability("dropout")
	a.EmbeddingDropout, a.ResidualDropout, a.AttentionDropout = p, p, c.Probability("attention_dropout")
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	encoder, decoder = stack(c, "encoder", a.Hidden), stack(c, "decoder", a.Hidden)
	return encoder, decoder, c.Probability("activation_dropout")
}

// stack reads the sizes of one of them, whose layers have width d.
func stack(c *arch.Config, name string, d int64) stackSizes {
	heads := name + "_attention_heads"
	s := stackSizes{c.Integer(name+"_layers", arch.MaxLayers/2), c.Integer(heads, arch.MaxWidth), c.Integer(name+"_ffn_dim",
		arch.MaxRows)}
	if s.heads > 0 && d%s.heads != 0 {
		c.Errs.Add(c.Pointer+"/"+heads, "not_divisible", "%s %d does not divide d_model %d", heads, s.heads, d)
	}
	if key := name + "_layerdrop"; c.Probability(key) > 0 {
		c.Errs.Add(c.Pointer+"/"+key, "unsupported", "layers that are left out at random are not "+
			"modelled; set %s to 0", key)
	}
	return s
}

// stacks says how large both are together.
func stacks(a arch.Architecture, encoder, decoder stackSizes) arch.Architecture {
	a.Layers, a.Decoder = encoder.layers+decoder.layers, decoder.layers
	a.Heads, a.FFN = max(encoder.heads, decoder.heads), max(encoder.ffn, decoder.ffn)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.LearnedPositions, a.Irregular = true, true
	return a
}

// decoderNumbers are those of a decoder that differs from its encoder in layers alone.
func decoderNumbers(p *arch.Preset, c map[string]any) {
	c["decoder_layers"], c["decoder_attention_heads"] = float64(p.DecoderLayers), float64(p.Heads)
	c["decoder_ffn_dim"] = float64(p.FFN)
}
