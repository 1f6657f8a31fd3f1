package hybrids

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/step"
)

// Qwen3NextFamily is Qwen3-Next: Qwen3.5's layers, whose delta nets have their projections in two linear layers, with
// mixtures of experts and one that all tokens share.
// Source: transformers/models/qwen3_next/modeling_qwen3_next.py, configuration_qwen3_next.py, 4.57 and 5.23.
var Qwen3NextFamily = arch.Family{ModelType: "qwen3_next", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Uncompiled: Qwen35Family.Uncompiled,
	Defaults: arch.With(Qwen35Family.Defaults, map[string]any{
		"vocab_size": 151936.0, "hidden_size": 2048.0, "intermediate_size": 5632.0, "num_hidden_layers": 48.0,
		"num_key_value_heads": 2.0, "decoder_sparse_step": 1.0, "moe_intermediate_size": 512.0,
		"shared_expert_intermediate_size": 512.0, "num_experts_per_tok": 10.0, "num_experts": 512.0,
		"norm_topk_prob": true, "output_router_logits": false}),
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = mixedDeltaNets(c, a)
		a.Own.(*deltaNets).joined = true
		return a
	},
	Build: func(b *arch.Builder) step.Network { return deltaDecoder(b, nil) }}

// Qwen35MoEFamily is the text model of Qwen3.5 with mixtures of experts and one that all tokens share.
// Source: transformers/models/qwen3_5_moe/modeling_qwen3_5_moe.py, configuration_qwen3_5_moe.py, 5.23.
var Qwen35MoEFamily = arch.Family{ModelType: "qwen3_5_moe_text", Keys: arch.CommonKeys, Ignored: deltaNetsIgnored,
	Uncompiled: Qwen35Family.Uncompiled,
	Defaults: arch.With(Qwen35Family.Defaults, map[string]any{
		"hidden_size": 2048.0, "intermediate_size": 512.0, "num_hidden_layers": 40.0, "num_key_value_heads": 2.0,
		"decoder_sparse_step": 1.0, "moe_intermediate_size": 512.0, "shared_expert_intermediate_size": 512.0,
		"num_experts_per_tok": 8.0, "num_experts": 256.0, "norm_topk_prob": true, "output_router_logits": false}),
	Read:  mixedDeltaNets,
	Build: func(b *arch.Builder) step.Network { return deltaDecoder(b, gridTables) }}

// mixedDeltaNets reads decoders with delta nets and mixtures of experts.
func mixedDeltaNets(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = mixtures.ReadQwenMoE(c, a)
	e := a.Own.(*arch.Experts)
	e.SharedFFN = c.Integer("shared_expert_intermediate_size", arch.MaxRows)
	a.QKVBias = c.Boolean("attention_bias")
	a.OutBias, a.QKNorm = a.QKVBias, true
	a = readDeltaNets(c, a)
	a.Own.(*deltaNets).sparse = e
	a.Irregular = a.Irregular || e.Dense != nil
	return a
}

// projectJoined is in_proj_qkvz and in_proj_ba, whose results lie by the heads of the keys: what is used of them is cut
// out, and copied where several values have one key, or where it is convolved.
// Source: transformers/models/qwen3_next/modeling_qwen3_next.py (fix_query_key_value_ordering), 5.23.
func (l *deltaNet) projectJoined(o *deltaNets, t *step.Tape, x step.T) projected {
	h, n := o.heads, t.Shape.N()
	keys, values := n*h.Keys*h.KeyDim, n*h.Values*h.ValueDim
	wide, narrow := l.qkvz.Forward(t, x), l.ba.Keys(t, x, l.relays(t))
	parts, rest := t.SplitParts(wide, keys, keys, values, values), t.Chunks(narrow, 2)
	dense := func(x step.T) step.T {
		y := t.Contiguous(x)
		t.Drop(x)
		return y
	}
	if h.Values > h.Keys {
		parts[2], parts[3] = dense(parts[2]), dense(parts[3])
		rest[0], rest[1] = dense(rest[0]), dense(rest[1])
	}
	q, k, v := dense(parts[0]), dense(parts[1]), parts[2]
	if h.Values == h.Keys {
		v = dense(v)
	}
	return projected{mixed: t.JoinParts(q, k, v), z: parts[3], b: rest[0], a: rest[1], apart: []step.T{q, k, v},
		whole: []step.T{wide, narrow}}
}
