package decoders

import (
	"maps"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// olmoDefaults hold for OLMo and OLMo 2.
// Source: transformers/models/olmo/configuration_olmo.py, models/olmo2/configuration_olmo2.py, 4.57.
var olmoDefaults = map[string]any{
	"vocab_size": 50304.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
	"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
	"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0}

// clipped says that OLMo clamps queries, keys and values.
type clipped bool

// OLMoFamily is OLMo: norms without parameters, computed by LayerNorm in float32.
var OLMoFamily = arch.Family{ModelType: "olmo", Planned: true, Classes: arch.ScoringLM,
	Keys: arch.CommonKeys, Build: buildOlmo, Defaults: olmoDefaults,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.Own = clipped(c.Number("clip_qkv"))
		return a
	}}

// OLMo2Family is OLMo 2: norms behind attention and MLP, and over all queries and all keys.
var OLMo2Family = arch.Family{ModelType: "olmo2", Classes: arch.ScoringLM,
	Keys: arch.CommonKeys, Build: buildOlmo2, Defaults: olmoDefaults,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm = true
		return a
	}}

// OLMo3Family is OLMo 3: OLMo 2 with windows in three layers of four, which have rotary tables of their own.
// Source: transformers/models/olmo3/modeling_olmo3.py, configuration_olmo3.py, 4.57.
var OLMo3Family = arch.Family{ModelType: "olmo3", Classes: arch.ScoringLM, Keys: arch.CommonKeys,
	Defaults: func() map[string]any {
		d := maps.Clone(olmoDefaults)
		d["sliding_window"] = 4096.0
		return d
	}(),
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm, a.SlidingWindow = true, c.Integer("sliding_window", arch.MaxRows)
		a = c.LayerTypes(a, arch.EveryNth(4))
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := likeOlmo2()
		with.LocalTables, with.OwnTables = true, true
		return blocks.BuildDecoder(b, with)
	}}

func buildOlmo(b *arch.Builder) step.Network {
	with, width := blocks.LikeLlama(), b.A.Hidden
	with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) {
		blocks.DeclareProjections(b, l)
		blocks.DeclareMLP(b, l)
	}
	with.Normalize = func(_ arch.Norm, t *step.Tape, x step.T) step.T { return t.PlainLayerNorm(x, width) }
	with.PlainNorms, with.WideTables, with.Rotate = true, true, rotateAndCast
	with.Project = ProjectAll
	if b.A.Own.(clipped) {
		with.Project = ProjectClamped
	}
	return blocks.BuildDecoder(b, with)
}

func buildOlmo2(b *arch.Builder) step.Network { return blocks.BuildDecoder(b, likeOlmo2()) }

func likeOlmo2() blocks.Traits {
	with := blocks.LikeLlama()
	with.Declare, with.Block, with.Project = declareOlmo2, postNorm, ProjectAll
	with.Normalize, with.Rotate, with.WideTables = arch.Norm.Wide, rotateAndCast, true
	return with
}

// declareOlmo2 lists the modules of Olmo2DecoderLayer.
func declareOlmo2(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	l.QNorm = b.Norm("self_attn.q_norm", a.Heads*a.HeadDim, false)
	l.KNorm = b.Norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	blocks.DeclareMLP(b, l)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, false)
	l.PostFeedforwardNorm = b.Norm("post_feedforward_layernorm", a.Hidden, false)
}

// ProjectAll is q_proj, k_proj and v_proj with OLMo 2's norms, all before the heads are told apart.
// Source: transformers/models/olmo2/modeling_olmo2.py (Olmo2Attention), models/olmo/modeling_olmo.py, 4.57.
func ProjectAll(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (q, k, v step.T) {
	c := m.Copies(t, w)
	q, k, v = normedProjections(m, t, l, x)
	return t.Heads(q, c.Query), t.Heads(k, c.Key), t.Heads(v, c.Value)
}

// ProjectClamped is ProjectAll with OLMo's clamps.
func ProjectClamped(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around,
	x step.T) (q, k, v step.T) {
	c := m.Copies(t, w)
	q, k, v = normedProjections(m, t, l, x)
	q, k, v = t.ClampInPlace(q), t.ClampInPlace(k), t.ClampInPlace(v)
	return t.Heads(q, c.Query), t.Heads(k, c.Key), t.Heads(v, c.Value)
}

func normedProjections(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, x step.T) (q, k, v step.T) {
	normed := func(p arch.Linear, g arch.Norm) step.T {
		y := p.Forward(t, x)
		if !m.A.QKNorm {
			return y
		}
		n := m.Normalize(g, t, y)
		t.Drop(y)
		return n
	}
	return normed(l.Q, l.QNorm), normed(l.K, l.KNorm), l.V.Forward(t, x)
}

// rotateAndCast is apply_rotary_pos_emb where cosines and sines are in float32 and what they turn is cast back.
func rotateAndCast(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	qw, kw := blocks.Rotate(t, q, k, w)
	qr, kr = t.Cast(qw, q.Dtype(), step.LabelRotary), t.Cast(kw, k.Dtype(), step.LabelRotary)
	t.Drop(qw, kw)
	return qr, kr
}

// postNorm is x + post_attention_layernorm(self_attn(x)), and the same with the MLP.
func postNorm(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
	t.In(step.PartAttention)
	attn, probabilities := m.Attention(t, l, w, x)
	t.In(step.PartNorm)
	middle := AddNormed(m, t, x, attn, l.PostAttentionNorm)
	t.In(step.PartMLP)
	mlp := m.MLP(t, l, middle)
	t.In(step.PartNorm)
	y := AddNormed(m, t, middle, mlp, l.PostFeedforwardNorm)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}
