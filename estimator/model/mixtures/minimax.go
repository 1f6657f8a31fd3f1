package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// MiniMaxM2Family is MiniMax M2: norms over all queries and all keys, rotary positions on a part of every head, and a
// mixture of experts in every layer.
// Source: transformers/models/minimax_m2/modeling_minimax_m2.py, configuration_minimax_m2.py, 5.23.
var MiniMaxM2Family = arch.Family{ModelType: "minimax_m2", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 200064.0, "hidden_size": 3072.0, "intermediate_size": 1536.0, "num_hidden_layers": 62.0,
		"num_attention_heads": 48.0, "num_key_value_heads": 8.0, "head_dim": 128.0, "hidden_act": "silu",
		"max_position_embeddings": 196608.0, "use_cache": true, "tie_word_embeddings": false,
		"attention_dropout": 0.0, "num_experts_per_tok": 8.0, "num_local_experts": 256.0,
		"output_router_logits": false, "router_jitter_noise": 0.0, "partial_rotary_factor": 1.0},
	Spelled: map[string]string{"num_experts": "num_local_experts"},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Rotary = false // said of the part that is turned
		a.QKNorm, a.FreeHeadDim = true, true
		// as the published files have it
		if width := c.Optional("rotary_dim", arch.MaxWidth); width > 0 && c.Given["partial_rotary_factor"] == nil {
			c.Given["partial_rotary_factor"] = float64(width) / float64(a.HeadDim)
		}
		a.Own = &glmMixture{PartialRotary: blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, true)},
			routed: routed{experts: &arch.Experts{Count: c.Integer("num_local_experts", arch.MaxExperts),
				TopK: c.Integer("num_experts_per_tok", arch.MaxExperts), FFN: a.FFN, Path: "mlp", GroupedAlone: true}}}
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Project = declareMiniMaxM2, decoders.ProjectAll
		with.Rotate = func(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
			return decoders.RotateAndJoin(t, b.A, q, k, w.Cos, w.Sin)
		}
		return blocks.BuildDecoder(b, with)
	}}

// declareMiniMaxM2 lists the modules of MiniMaxM2DecoderLayer.
func declareMiniMaxM2(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	l.QNorm = b.Norm("self_attn.q_norm", a.Heads*a.HeadDim, false)
	l.KNorm = b.Norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	l.Experts = buildMiniMaxMixture(b, arch.ExpertsOf(a))
	l.InputNorm = b.Norm("input_layernorm", a.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, false)
}
