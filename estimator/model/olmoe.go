package model

import "github.com/vramplan/vramplan/estimator/step"

// olmoeFamily is OLMo 2's attention with the norms of Llama and a mixture of experts in every layer.
// Source: transformers/models/olmoe/modeling_olmoe.py, configuration_olmoe.py, 4.57.
var olmoeFamily = family{modelType: "olmoe", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 50304.0, "hidden_size": 2048.0, "intermediate_size": 2048.0, "num_hidden_layers": 16.0,
		"num_attention_heads": 16.0, "hidden_act": "silu", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0, "num_experts_per_tok": 8.0,
		"num_experts": 64.0, "output_router_logits": false, "norm_topk_prob": false},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm = true
		a.own = &experts{Count: c.integer("num_experts", maxExperts),
			TopK: c.integer("num_experts_per_tok", maxExperts),
			FFN:  a.FFN, Normalise: c.boolean("norm_topk_prob"), Path: "mlp", Expert: buildGatedMLP, Uncounted: true,
			Clipped: c.number("clip_qkv")}
		c.refuseRouterOptions()
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.project = declareOLMoE, (*decoder).projectAll
		with.clip = expertsOf(b.a).Clipped
		if !b.a.Software.GroupsExperts { // whose mask and attention are the library's
			with.repeats, with.makeMask = true, olmoeMask
		}
		return b.decoder(with)
	}}

func declareOLMoE(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	l.qNorm = b.norm("self_attn.q_norm", a.Hidden, false)
	l.kNorm = b.norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	l.experts = expertsOf(a).ofRelease(b)
	l.inputNorm = b.norm("input_layernorm", a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", a.Hidden, false)
}

// olmoeMask is OLMoE's _update_causal_mask, which builds the triangle anew.
func olmoeMask(t *step.Tape, _ int64, d step.DType) *step.T { return triangularMask(t, d) }
