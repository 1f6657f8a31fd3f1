package model

import "github.com/vramplan/vramplan/estimator/step"

// miniMaxM2Family is MiniMax M2: norms over all queries and all keys, rotary positions on a part of every head, and a
// mixture of experts in every layer.
// Source: transformers/models/minimax_m2/modeling_minimax_m2.py, configuration_minimax_m2.py, 5.23.
var miniMaxM2Family = family{modelType: "minimax_m2", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 200064.0, "hidden_size": 3072.0, "intermediate_size": 1536.0, "num_hidden_layers": 62.0,
		"num_attention_heads": 48.0, "num_key_value_heads": 8.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 196608.0, "use_cache": true, "tie_word_embeddings": false,
		"attention_dropout": 0.0, "num_experts_per_tok": 8.0, "num_local_experts": 256.0,
		"output_router_logits": false, "router_jitter_noise": 0.0, "partial_rotary_factor": 1.0},
	spelled: map[string]string{"num_experts": "num_local_experts"},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.Rotary = false // said of the part that is turned
		a.QKNorm, a.FreeHeadDim = true, true
		// as the published files have it
		if width := c.optional("rotary_dim", maxWidth); width > 0 && c.given["partial_rotary_factor"] == nil {
			c.given["partial_rotary_factor"] = float64(width) / float64(a.HeadDim)
		}
		a.own = &glmMixture{partialRotary: partialRotary{width: c.rotaryFraction("partial_rotary_factor", a, true)},
			routed: routed{experts: &experts{Count: c.integer("num_local_experts", maxExperts),
				TopK: c.integer("num_experts_per_tok", maxExperts), FFN: a.FFN, Path: "mlp", GroupedAlone: true}}}
		c.refuseRouterOptions()
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.project = declareMiniMaxM2, (*decoder).projectAll
		with.rotate = func(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
			return rotateAndJoin(t, b.a, q, k, w.cos, w.sin)
		}
		return b.decoder(with)
	}}

// declareMiniMaxM2 lists the modules of MiniMaxM2DecoderLayer.
func declareMiniMaxM2(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	l.qNorm = b.norm("self_attn.q_norm", a.Heads*a.HeadDim, false)
	l.kNorm = b.norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	l.experts = b.miniMaxMixture(expertsOf(a))
	l.inputNorm = b.norm("input_layernorm", a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", a.Hidden, false)
}
