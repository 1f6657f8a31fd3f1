package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
)

// ReadLlama reads the keys that most decoders share.
func ReadLlama(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = ReadDecoder(c, a, "hidden_act")
	return a
}

// ReadDecoder is llama for a family that calls its activation by another name, or has others than most.
func ReadDecoder(c *arch.Config, a arch.Architecture, activation string, others ...string) arch.Architecture {
	a.Layers = c.Integer("num_hidden_layers", arch.MaxLayers)
	a.Hidden = c.Integer("hidden_size", arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	if a.KVHeads = c.Optional("num_key_value_heads", arch.MaxWidth); a.KVHeads == 0 {
		a.KVHeads = a.Heads
	}
	if a.HeadDim = c.Optional("head_dim", arch.MaxWidth); a.HeadDim == 0 && a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("intermediate_size", arch.MaxRows)
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	a.Activation = c.Activation(activation, append([]string{"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh",
		"relu", "relu2"}, others...)...)
	a.AttentionDropout = c.Probability("attention_dropout")
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	a.Gated, a.Rotary = true, true
	return a
}

// ReadBiased is llama for a family whose attention_bias puts a bias on all four projections.
func ReadBiased(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = ReadLlama(c, a)
	a.QKVBias = c.Boolean("attention_bias")
	a.OutBias = a.QKVBias
	return a
}

// NoWindow is what an entry without a window says where the class has one by default.
func NoWindow(p *arch.Preset, c map[string]any) {
	if p.SlidingWindow == 0 {
		c["sliding_window"] = nil
	}
}
