package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Exaone4Family is EXAONE 4: norms behind attention and MLP as OLMo 2 has them, norms over each head of queries and
// keys, and windows in some layers, which alone have rotary positions then.
// Source: transformers/models/exaone4/modeling_exaone4.py, configuration_exaone4.py, 4.57 and 5.23.
var Exaone4Family = arch.Family{ModelType: "exaone4", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM, Numbers: blocks.NoWindow,
	Defaults: map[string]any{
		"vocab_size": 102400.0, "hidden_size": 4096.0, "intermediate_size": 16384.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 2048.0, "use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"sliding_window": 4096.0, "sliding_window_pattern": 4.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.QKNorm, a.SlidingWindow = true, c.Optional("sliding_window", arch.MaxRows)
		a.Own = turnsWindows(a.SlidingWindow > 0)
		pattern := int64(0) // which may be "LLLG" where layer_types says what it means
		if _, given := c.Value("layer_types"); !given && a.SlidingWindow > 0 {
			pattern = c.Integer("sliding_window_pattern", arch.MaxLayers)
		}
		a = c.LayerTypes(a, func(i int64) bool { return pattern > 0 && arch.EveryNth(pattern)(i) })
		a = c.SettleWindows(a)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Block, with.Project = declareExaone4, postNorm, (*blocks.Decoder).ProjectThenNorm
		with.RotaryWindows = bool(b.A.Own.(turnsWindows))
		return blocks.BuildDecoder(b, with)
	}}

// turnsWindows says that only layers with a window have rotary positions.
type turnsWindows bool

// declareExaone4 lists the modules of Exaone4DecoderLayer.
func declareExaone4(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	l.QNorm, l.KNorm = b.Norm("self_attn.q_norm", a.HeadDim, false), b.Norm("self_attn.k_norm", a.HeadDim, false)
	blocks.DeclareMLP(b, l)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, false)
	l.PostFeedforwardNorm = b.Norm("post_feedforward_layernorm", a.Hidden, false)
}
