package model

import "github.com/vramplan/vramplan/estimator/step"

// glm4MoEFamily is GLM 4.5: Llama with rotary positions on a part of every head, norms of queries and keys if asked
// for, and the mixtures of DeepSeek V3 behind the first layers. Source:
// transformers/models/glm4_moe/modeling_glm4_moe.py, configuration_glm4_moe.py, 4.57 and 5.23.
var glm4MoEFamily = family{modelType: "glm4_moe", keys: commonKeys,
	defaults: map[string]any{
		"vocab_size": 151552.0, "hidden_size": 4096.0, "intermediate_size": 10944.0, "num_hidden_layers": 46.0,
		"num_attention_heads": 96.0, "num_key_value_heads": 8.0, "partial_rotary_factor": 0.5, "hidden_act": "silu",
		"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "moe_intermediate_size": 1408.0, "num_experts_per_tok": 8.0, "n_shared_experts": 1.0,
		"n_routed_experts": 128.0, "n_group": 1.0, "topk_group": 1.0, "first_k_dense_replace": 1.0,
		"norm_topk_prob": true, "use_qk_norm": false, "output_router_logits": false},
	spelled: routedSpelled,
	numbers: func(p *Preset, c map[string]any) {
		routedNumbers(p, c)
		c["use_qk_norm"] = p.QKNorm != ""
	},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.Rotary = false // said of the part that is turned
		a.QKVBias, a.QKNorm, a.FreeHeadDim = c.boolean("attention_bias"), c.boolean("use_qk_norm"), true
		own := &glmMixture{partialRotary: partialRotary{width: c.rotaryFraction("partial_rotary_factor", a, true)},
			routed: c.readRouted()}
		own.groupsOfTwo(c)
		own.wideBias = true
		a.own, a.Lead = own, own.firstDense
		c.refuseRouterOptions()
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare = declareGLMMixture
		with.rotate = func(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
			return rotateAndJoin(t, b.a, q, k, w.cos, w.sin)
		}
		if b.a.QKNorm {
			with.project = (*decoder).projectThenNorm
		}
		return b.decoder(with)
	}}

// glmMixture is what GLM 4.5 has besides Llama.
type glmMixture struct {
	partialRotary
	routed
}

// declareGLMMixture lists the modules of Glm4MoeDecoderLayer.
func declareGLMMixture(b *builder, l *decoderLayer) {
	a := b.a
	own := &a.own.(*glmMixture).routed
	b.projections(l)
	if a.QKNorm {
		l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
	}
	if l.index < own.firstDense {
		b.mlp(l)
	} else {
		m := &routedMixture{a: a, own: own}
		own.declareExperts(b, &m.layer)
		l.experts = m
	}
	l.inputNorm = b.norm("input_layernorm", a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", a.Hidden, false)
}

// routedMixture is a routed mixture in place of a layer's MLP.
type routedMixture struct {
	a     *Architecture
	own   *routed
	layer routedLayer
}

func (m *routedMixture) forward(t *step.Tape, x step.T) (y, _ step.T) {
	return m.own.mixture(m.a, t, &m.layer, x), step.NoTensor
}
