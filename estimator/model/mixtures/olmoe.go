package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// OlmoeFamily is OLMo 2's attention with the norms of Llama and a mixture of experts in every layer.
// Source: transformers/models/olmoe/modeling_olmoe.py, configuration_olmoe.py, 4.57.
var OlmoeFamily = arch.Family{ModelType: "olmoe", Keys: arch.CommonKeys,
	Defaults: map[string]any{
		"vocab_size": 50304.0, "hidden_size": 2048.0, "intermediate_size": 2048.0, "num_hidden_layers": 16.0,
		"num_attention_heads": 16.0, "hidden_act": "silu", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0, "num_experts_per_tok": 8.0,
		"num_experts": 64.0, "output_router_logits": false, "norm_topk_prob": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm = true
		a.Own = &arch.Experts{Count: c.Integer("num_experts", arch.MaxExperts),
			TopK: c.Integer("num_experts_per_tok", arch.MaxExperts),
			FFN:  a.FFN, Normalise: c.Boolean("norm_topk_prob"), Path: "mlp", Expert: arch.BuildGatedMLP, Uncounted: true,
			Clipped: c.Number("clip_qkv")}
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Project = declareOLMoE, decoders.ProjectAll
		if arch.ExpertsOf(b.A).Clipped {
			with.Project = decoders.ProjectClamped
		}
		if !b.A.Software.Has(arch.GroupsExperts) { // whose mask and attention are the library's
			with.Repeats, with.MakeMask = true, olmoeMask
		}
		return blocks.BuildDecoder(b, with)
	}}

func declareOLMoE(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	l.QNorm = b.Norm("self_attn.q_norm", a.Hidden, false)
	l.KNorm = b.Norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	l.Experts = blocks.OfRelease(arch.ExpertsOf(a), b)
	l.InputNorm = b.Norm("input_layernorm", a.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, false)
}

// olmoeMask is OLMoE's _update_causal_mask, which builds the triangle anew.
func olmoeMask(t *step.Tape, _ int64, d step.DType) *step.T { return blocks.TriangularMask(t, d) }
