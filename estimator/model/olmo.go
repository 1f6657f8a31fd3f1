package model

import (
	"maps"

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

// OLMo: norms without parameters, computed by LayerNorm in float32.
var olmoFamily = family{modelType: "olmo", planned: true, keys: commonKeys, build: buildOlmo, defaults: olmoDefaults,
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.own = clipped(c.number("clip_qkv"))
	}}

// OLMo 2: norms behind attention and MLP, and over all queries and all keys.
var olmo2Family = family{modelType: "olmo2", keys: commonKeys, build: buildOlmo2, defaults: olmoDefaults,
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm = true
	}}

// OLMo 3: OLMo 2 with windows in three layers of four, which have rotary tables of their own.
// Source: transformers/models/olmo3/modeling_olmo3.py, configuration_olmo3.py, 4.57.
var olmo3Family = family{modelType: "olmo3", keys: commonKeys,
	defaults: func() map[string]any {
		d := maps.Clone(olmoDefaults)
		d["sliding_window"] = 4096.0
		return d
	}(),
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm, a.SlidingWindow = true, c.integer("sliding_window", maxRows)
		c.layerTypes(a, everyNth(4))
	},
	build: func(b *builder) step.Network {
		with := likeOlmo2()
		with.localTables, with.ownTables = true, true
		return b.decoder(with)
	}}

func buildOlmo(b *builder) step.Network {
	with, width := likeLlama(), b.a.Hidden
	with.declare = func(b *builder, l *decoderLayer) {
		b.projections(l)
		b.mlp(l)
	}
	with.normalize = func(_ norm, t *step.Tape, x step.T) step.T { return t.PlainLayerNorm(x, width) }
	with.plainNorms, with.wideTables, with.rotate = true, true, rotateAndCast
	with.project = (*decoder).projectAll
	with.clip = bool(b.a.own.(clipped))
	return b.decoder(with)
}

func buildOlmo2(b *builder) step.Network { return b.decoder(likeOlmo2()) }

func likeOlmo2() traits {
	with := likeLlama()
	with.declare, with.block, with.project = declareOlmo2, (*decoder).postNorm, (*decoder).projectAll
	with.normalize, with.rotate, with.wideTables = norm.wide, rotateAndCast, true
	return with
}

// declareOlmo2 lists the modules of Olmo2DecoderLayer.
func declareOlmo2(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	l.qNorm = b.norm("self_attn.q_norm", a.Heads*a.HeadDim, false)
	l.kNorm = b.norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	b.mlp(l)
	l.postAttentionNorm = b.norm("post_attention_layernorm", a.Hidden, false)
	l.postFeedforwardNorm = b.norm("post_feedforward_layernorm", a.Hidden, false)
}

// projectAll is q_proj, k_proj and v_proj with OLMo 2's norms and OLMo's clamps, all before the heads are told apart.
// Source: transformers/models/olmo2/modeling_olmo2.py (Olmo2Attention), models/olmo/modeling_olmo.py, 4.57.
func (m *decoder) projectAll(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	normed := func(p linear, g norm) step.T {
		y := p.forward(t, x)
		if !m.a.QKNorm {
			return y
		}
		n := m.normalize(g, t, y)
		t.Drop(y)
		return n
	}
	q, k, v = normed(l.q, l.qNorm), normed(l.k, l.kNorm), l.v.forward(t, x)
	if m.clip {
		q, k, v = t.ClampInPlace(q), t.ClampInPlace(k), t.ClampInPlace(v)
	}
	return t.Heads(q, c.query), t.Heads(k, c.key), t.Heads(v, c.value)
}

// rotateAndCast is apply_rotary_pos_emb where cosines and sines are in float32 and what they turn is cast back.
func rotateAndCast(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
	qw, kw := rotate(t, q, k, w)
	qr, kr = t.Cast(qw, q.Dtype(), step.LabelRotary), t.Cast(kw, k.Dtype(), step.LabelRotary)
	t.Drop(qw, kw)
	return qr, kr
}

// postNorm is x + post_attention_layernorm(self_attn(x)), and the same with the MLP.
func (m *decoder) postNorm(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, w, x)
	t.In(step.PartNorm)
	middle := m.addNormed(t, x, attn, l.postAttentionNorm)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, middle)
	t.In(step.PartNorm)
	y := m.addNormed(t, middle, mlp, l.postFeedforwardNorm)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}
