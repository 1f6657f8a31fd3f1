package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// GLM4MoEFamily is GLM 4.5: Llama with rotary positions on a part of every head, norms of queries and keys if asked
// for, and the mixtures of DeepSeek V3 behind the first layers. Source:
// transformers/models/glm4_moe/modeling_glm4_moe.py, configuration_glm4_moe.py, 4.57 and 5.23.
var GLM4MoEFamily = arch.Family{ModelType: "glm4_moe", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 151552.0, "hidden_size": 4096.0, "intermediate_size": 10944.0, "num_hidden_layers": 46.0,
		"num_attention_heads": 96.0, "num_key_value_heads": 8.0, "partial_rotary_factor": 0.5, "hidden_act": "silu",
		"max_position_embeddings": 131072.0, "use_cache": true, "tie_word_embeddings": false, "attention_bias": false,
		"attention_dropout": 0.0, "moe_intermediate_size": 1408.0, "num_experts_per_tok": 8.0, "n_shared_experts": 1.0,
		"n_routed_experts": 128.0, "n_group": 1.0, "topk_group": 1.0, "first_k_dense_replace": 1.0,
		"norm_topk_prob": true, "use_qk_norm": false, "output_router_logits": false},
	Spelled: routedSpelled,
	Numbers: func(p *arch.Preset, c map[string]any) {
		routedNumbers(p, c)
		c["use_qk_norm"] = p.QKNorm != ""
	},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Rotary = false // said of the part that is turned
		a.QKVBias, a.QKNorm, a.FreeHeadDim = c.Boolean("attention_bias"), c.Boolean("use_qk_norm"), true
		own := &glmMixture{PartialRotary: blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, true)},
			routed: readRouted(c)}
		own.groupsOfTwo(c)
		own.wideBias = true
		a.Own, a.Lead = own, own.FirstDense
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare = declareGLMMixture
		with.Rotate = func(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
			return decoders.RotateAndJoin(t, b.A, q, k, w.Cos, w.Sin)
		}
		if b.A.QKNorm {
			with.Project = (*blocks.Decoder).ProjectThenNorm
		}
		return blocks.BuildDecoder(b, with)
	}}

// glmMixture is what GLM 4.5 has besides Llama.
type glmMixture struct {
	blocks.PartialRotary
	routed
}

// declareGLMMixture lists the modules of Glm4MoeDecoderLayer.
func declareGLMMixture(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	own := &a.Own.(*glmMixture).routed
	blocks.DeclareProjections(b, l)
	if a.QKNorm {
		l.QNorm, l.KNorm = b.Norm("self_attn.q_norm", a.HeadDim, false), b.Norm("self_attn.k_norm", a.HeadDim, false)
	}
	if l.Index < own.FirstDense {
		blocks.DeclareMLP(b, l)
	} else {
		m := &routedMixture{a: a, own: own}
		own.declareExperts(b, &m.layer)
		l.Experts = m
	}
	l.InputNorm = b.Norm("input_layernorm", a.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, false)
}

// routedMixture is a routed mixture in place of a layer's MLP.
type routedMixture struct {
	a     *arch.Architecture
	own   *routed
	layer routedLayer
}

func (m *routedMixture) Forward(t *step.Tape, x step.T) (y, _ step.T) {
	return m.own.mixture(m.a, t, &m.layer, x), step.NoTensor
}
