package model

import "github.com/vramplan/vramplan/estimator/step"

// exaone4Family is EXAONE 4: norms behind attention and MLP as OLMo 2 has them, norms over each head of queries and
// keys, and windows in some layers, which alone have rotary positions then.
// Source: transformers/models/exaone4/modeling_exaone4.py, configuration_exaone4.py, 4.57 and 5.23.
var exaone4Family = family{modelType: "exaone4", keys: commonKeys, classes: classifyingLM, numbers: noWindow,
	defaults: map[string]any{
		"vocab_size": 102400.0, "hidden_size": 4096.0, "intermediate_size": 16384.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 2048.0, "use_cache": true, "tie_word_embeddings": false, "attention_dropout": 0.0,
		"sliding_window": 4096.0, "sliding_window_pattern": 4.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.QKNorm, a.SlidingWindow = true, c.optional("sliding_window", maxRows)
		a.own = turnsWindows(a.SlidingWindow > 0)
		pattern := int64(0) // which may be "LLLG" where layer_types says what it means
		if _, given := c.value("layer_types"); !given && a.SlidingWindow > 0 {
			pattern = c.integer("sliding_window_pattern", maxLayers)
		}
		c.layerTypes(a, func(i int64) bool { return pattern > 0 && everyNth(pattern)(i) })
		c.settleWindows(a)
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.block, with.project = declareExaone4, (*decoder).postNorm, (*decoder).projectThenNorm
		with.rotaryWindows = bool(b.a.own.(turnsWindows))
		return b.decoder(with)
	}}

// turnsWindows says that only layers with a window have rotary positions.
type turnsWindows bool

// declareExaone4 lists the modules of Exaone4DecoderLayer.
func declareExaone4(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
	b.mlp(l)
	l.postAttentionNorm = b.norm("post_attention_layernorm", a.Hidden, false)
	l.postFeedforwardNorm = b.norm("post_feedforward_layernorm", a.Hidden, false)
}
