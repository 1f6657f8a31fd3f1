package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Latent are the sizes of multi-head latent attention: queries (unless queryRank is 0) and keys with values go
// through a narrow projection; a head of queries and keys has a part with rotary positions and one without.
type Latent struct {
	QueryRank, KeyValueRank     int64
	KeyDim, RotaryDim, ValueDim int64
	AttentionBias, interleaved  bool
	// second marks V2, which also turns complex numbers.
	routed
}

// DeepSeekV3Family is transformers' DeepseekV3ForCausalLM (modeling_deepseek_v3.py, configuration_deepseek_v3.py,
// 4.57).
var DeepSeekV3Family = arch.Family{ModelType: "deepseek_v3", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Build: buildDeepSeek,
	Defaults: map[string]any{
		"vocab_size": 129280.0, "hidden_size": 7168.0, "intermediate_size": 18432.0, "moe_intermediate_size": 2048.0,
		"num_hidden_layers": 61.0, "num_attention_heads": 128.0, "num_key_value_heads": 128.0, "n_shared_experts": 1.0,
		"n_routed_experts": 256.0, "kv_lora_rank": 512.0, "q_lora_rank": 1536.0, "qk_rope_head_dim": 64.0,
		"v_head_dim":       128.0,
		"qk_nope_head_dim": 128.0, "n_group": 8.0, "topk_group": 4.0, "num_experts_per_tok": 8.0,
		"first_k_dense_replace": 3.0,
		"norm_topk_prob":        true, "hidden_act": "silu", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "rope_interleave": true, "attention_bias": false, "attention_dropout": 0.0},
	Spelled: routedSpelled, Numbers: latentNumbers,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		own := readLatent(c)
		own.interleaved = c.Boolean("rope_interleave")
		own.groupsOfTwo(c)
		a = own.settle(a)
		latent(c, own, &a)
		return a
	}}

// CountsBias counts the routers' corrections with the parameters, as the counts of published files do.
func CountsBias(a *arch.Architecture) {
	if own := RoutedOf(a); own != nil {
		own.biasCounts = !own.Second
	}
}

// latent refuses numbers that no module could be built with.
func latent(c *arch.Config, own *Latent, a *arch.Architecture) {
	if a.KVHeads != a.Heads {
		c.Errs.Add(c.Pointer+"/num_key_value_heads", "unsupported",
			"latent attention is modelled with as many key/value heads as heads")
	}
	if float64(a.Hidden+own.KeyValueRank)*float64(own.QueryRank+own.KeyValueRank+1)+
		float64(a.Heads)*float64(own.KeyDim+own.RotaryDim+own.ValueDim)*float64(own.QueryRank+own.KeyValueRank+
			a.Hidden) > arch.MaxParameters/float64(arch.MaxLayers) {
		c.Errs.Add(c.Pointer+"/kv_lora_rank", "too_large", "the attention of a layer would have more "+
			"than %.0e parameters", arch.MaxParameters/float64(arch.MaxLayers))
	}
}

// readLatent reads what both versions have.
func readLatent(c *arch.Config) *Latent {
	return &Latent{QueryRank: c.Optional("q_lora_rank", arch.MaxWidth), KeyValueRank: c.Integer("kv_lora_rank",
		arch.MaxWidth),
		KeyDim: c.Integer("qk_nope_head_dim", arch.MaxWidth), RotaryDim: c.Integer("qk_rope_head_dim", arch.MaxWidth),
		ValueDim:      c.Integer("v_head_dim", arch.MaxWidth),
		AttentionBias: c.Boolean("attention_bias"), routed: readRouted(c)}
}

// routedSpelled are the names of all that have a routed mixture.
var routedSpelled = map[string]string{"num_experts": "n_routed_experts"}

// latentNumbers are what a catalog entry says of both.
func latentNumbers(p *arch.Preset, c map[string]any) {
	routedNumbers(p, c)
	if p.MLA.QueryRank == 0 {
		c["q_lora_rank"] = nil
	}
}

// settle puts own into a: rotary tables are as wide as the part of a head that they turn.
func (own *Latent) settle(a arch.Architecture) arch.Architecture {
	a.Own, a.HeadDim = own, own.RotaryDim
	a.Lead = own.FirstDense
	return a
}

// Heads are those of attention as its kernel has them.
func (own *Latent) Heads(a *arch.Architecture) step.Heads {
	return step.Heads{Query: a.Heads, KV: a.Heads, Dim: own.KeyDim + own.RotaryDim, Value: own.ValueDim}
}

// deepSeekLayer is what a layer has besides its norms.
type deepSeekLayer struct {
	q, qDown, qUp, kvDown, kvUp, out arch.Linear
	qNorm, kvNorm                    arch.Norm
	routedLayer
}

func buildDeepSeek(b *arch.Builder) step.Network {
	own := b.A.Own.(*Latent)
	parts := make([]deepSeekLayer, b.Recorded)
	with := blocks.LikeLlama()
	if own.Second {
		with.MakeTable = polarTable
	}
	with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) { own.declare(b, l, &parts[l.Index]) }
	with.Block = func(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
		return own.layer(m, t, l, &parts[l.Index], w, x)
	}
	return blocks.BuildDecoder(b, with)
}

func (own *Latent) declare(b *arch.Builder, l *blocks.DecoderLayer, s *deepSeekLayer) {
	a, d := b.A, b.A.Hidden
	h := own.Heads(a)
	if own.QueryRank == 0 {
		s.q = b.Linear("self_attn.q_proj", d, h.Query*h.Dim, false)
	} else {
		s.qDown = b.Linear("self_attn.q_a_proj", d, own.QueryRank, own.AttentionBias)
		s.qNorm = b.Norm("self_attn.q_a_layernorm", own.QueryRank, false)
		s.qUp = b.Linear("self_attn.q_b_proj", own.QueryRank, h.Query*h.Dim, false)
	}
	s.kvDown = b.Linear("self_attn.kv_a_proj_with_mqa", d, own.KeyValueRank+own.RotaryDim, own.AttentionBias)
	s.kvNorm = b.Norm("self_attn.kv_a_layernorm", own.KeyValueRank, false)
	s.kvUp = b.Linear("self_attn.kv_b_proj", own.KeyValueRank, h.Query*(own.KeyDim+own.ValueDim), false)
	s.out = b.Linear("self_attn.o_proj", h.Query*own.ValueDim, d, own.AttentionBias)
	if l.Index < own.FirstDense {
		s.mlp = arch.BuildGatedMLP(b, "mlp", a.FFN, a.MLPBias)
	} else {
		own.declareExperts(b, &s.routedLayer)
	}
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, false), b.Norm("post_attention_layernorm", d, false)
}

// cachesLatents is DeepSeek that caches keys and values as they are compressed.
var cachesLatents = release.Declare("caches-latents", release.Change{
	Library: "transformers", After: "5.14", From: "5.17",
	What: "DeepSeek V2 and V3 of transformers 5.17 cache keys and values as they are " +
		"compressed, write a head's " +
		"keys into one tensor part by part, turn even and odd elements where they lie, and choose experts with " +
		"gradients kept track of",
	Source: "models/deepseek_v3/modeling_deepseek_v3.py (DeepseekV3Attention, DeepseekV3TopkRouter), " +
		"models/deepseek_v2/modeling_deepseek_v2.py, 4.57.6 and 5.23.0",
	Shown: "traces of DeepSeek V2 and V3",
})

// layer is DeepseekV3DecoderLayer.
func (own *Latent) layer(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, s *deepSeekLayer, w *blocks.Around,
	x step.T) step.T {
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attention := own.attention
	if m.A.Software.Has(cachesLatents) {
		attention = own.latentAttention
	}
	attn, probabilities := attention(m, t, s, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attn, step.LabelResidual)
	t.Drop(attn)

	h = m.Normalize(l.PostAttentionNorm, t, middle)
	t.In(step.PartMLP)
	var mlp step.T
	if l.Index < own.FirstDense {
		mlp = s.mlp.Forward(t, m.A, h)
	} else {
		mlp = own.mixture(m.A, t, &s.routedLayer, h)
	}
	t.Drop(h)
	t.In(step.PartNorm)
	y := t.Add(middle, mlp, step.LabelResidual)
	t.Drop(mlp, middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention is DeepseekV3Attention.
func (own *Latent) attention(m *blocks.Decoder, t *step.Tape, s *deepSeekLayer, w *blocks.Around, x step.T) (step.T,
	*step.T) {
	heads := own.Heads(m.A)
	n := t.Shape.N() * heads.Query
	qs := t.Heads(own.queries(m, t, s, x), heads.Query > 1)
	qPass, qTurned := t.Split2(qs, n*own.KeyDim)
	compressed := s.kvDown.Forward(t, x)
	kPass, kTurned := t.Split2(compressed, t.Shape.N()*own.KeyValueRank)
	normed := m.Normalize(s.kvNorm, t, kPass)
	up := t.Heads(s.kvUp.Forward(t, normed), heads.Query > 1)
	t.Drop(normed, kPass)
	kPass, v := t.Split2(up, n*own.KeyDim)
	t.Drop(up)
	qr, kr := own.rotate(t, qTurned, kTurned, heads, w)
	t.Drop(qTurned, kTurned)
	expanded := t.Expand(kr, heads.Query)
	t.Drop(kr)
	q, k := t.JoinHeads(qPass, qr), t.JoinHeads(kPass, expanded)
	k, v = blocks.AppendKV(t, &m.Cache, k, v)
	y, probabilities := m.Scores(t, w, heads, q, k, v)
	out := s.out.Forward(t, y)
	t.Drop(y, q, k, v, qs, qPass, qr, compressed, kPass, expanded)
	return out, probabilities
}

func (own *Latent) queries(m *blocks.Decoder, t *step.Tape, s *deepSeekLayer, x step.T) step.T {
	if own.QueryRank == 0 {
		return s.q.Forward(t, x)
	}
	down := s.qDown.Forward(t, x)
	normed := m.Normalize(s.qNorm, t, down)
	t.Drop(down)
	up := s.qUp.Forward(t, normed)
	t.Drop(normed)
	return up
}

// rotate is apply_rotary_pos_emb_interleave or apply_rotary_pos_emb.
func (own *Latent) rotate(t *step.Tape, q, k step.T, heads step.Heads, w *blocks.Around) (qr, kr step.T) {
	if own.Second {
		return own.rotateComplex(t, q, k, heads, w)
	}
	if !own.interleaved {
		return blocks.Rotate(t, q, k, w)
	}
	qi, ki := t.Deinterleave(q), t.Deinterleave(k)
	qr, kr = blocks.Rotate(t, qi, ki, w)
	t.Drop(qi, ki)
	return qr, kr
}
