package model

import "github.com/vramplan/vramplan/estimator/step"

// Cohere: one norm for attention and MLP, which run side by side, and scaled logits.
// Source: transformers/models/cohere/modeling_cohere.py, configuration_cohere.py, 4.57.
var cohereFamily = family{modelType: "cohere", planned: true, keys: commonKeys, defaults: cohereDefaults,
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.QKNorm = c.boolean("use_qk_norm")
	},
	build: func(b *builder) step.Network { return b.decoder(likeCohere()) }}

// Cohere 2: windows in three layers of four, which alone have rotary positions. In
// transformers 4 it fills no cache in training.
// Source: transformers/models/cohere2/modeling_cohere2.py, configuration_cohere2.py, 4.57 and 5.23.
var cohere2Family = family{modelType: "cohere2", keys: commonKeys, defaults: cohereDefaults,
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.UseCache, a.CachesInTrainingLater, a.CachesInEvaluation = false, a.UseCache, a.UseCache
		a.SlidingWindow = c.integer("sliding_window", maxRows)
		if pattern := c.integer("sliding_window_pattern", maxLayers); pattern > 0 {
			c.layerTypes(a, everyNth(pattern))
		}
	},
	build: func(b *builder) step.Network {
		with := likeCohere()
		with.rotaryWindows = true
		return b.decoder(with)
	}}

// The window is Cohere 2's alone.
var cohereDefaults = map[string]any{
	"vocab_size": 256000.0, "hidden_size": 8192.0, "intermediate_size": 22528.0, "num_hidden_layers": 40.0,
	"num_attention_heads": 64.0, "hidden_act": "silu", "max_position_embeddings": 8192.0, "use_cache": true,
	"tie_word_embeddings": true, "attention_bias": false, "attention_dropout": 0.0, "use_qk_norm": false,
	"sliding_window": 4096.0, "sliding_window_pattern": 4.0}

func likeCohere() traits {
	with := likeLlama()
	with.declare, with.block, with.project = declareCohere, (*decoder).parallel, (*decoder).projectCohere
	with.normalize, with.rotate, with.scaleLogits = norm.cohere, rotateWide, (*step.Tape).ScaleLogits
	return with
}

// declareCohere lists the modules of CohereDecoderLayer. The norms of queries and keys have a gain for every head.
func declareCohere(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	if a.QKNorm {
		l.qNorm = b.norm("self_attn.q_norm", a.Heads*a.HeadDim, false)
		l.kNorm = b.norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	}
	b.mlp(l)
	l.inputNorm = b.norm("input_layernorm", a.Hidden, false)
}

// projectCohere is q_proj, k_proj and v_proj, and then the norms of queries and keys over each head.
func (m *decoder) projectCohere(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	c := m.copies(t, w)
	q, k, v = t.Heads(l.q.forward(t, x), c.query), t.Heads(l.k.forward(t, x), c.key),
		t.Heads(l.v.forward(t, x), c.value)
	if m.a.QKNorm {
		qn := t.CohereLayerNorm(q, l.qNorm.w, m.a.HeadDim)
		t.Drop(q)
		kn := t.CohereLayerNorm(k, l.kNorm.w, m.a.HeadDim)
		t.Drop(k)
		q, k = qn, kn
	}
	return q, k, v
}

// rotateWide is Cohere's apply_rotary_pos_emb: in float32, and cast back.
func rotateWide(t *step.Tape, q, k step.T, w *around) (qr, kr step.T) {
	qf, kf := t.Float(q, step.LabelRotary), t.Float(k, step.LabelRotary)
	qw, kw := rotate(t, qf, kf, w)
	qr, kr = t.Cast(qw, q.Dtype(), step.LabelRotary), t.Cast(kw, q.Dtype(), step.LabelRotary)
	t.Drop(qf, kf, qw, kw)
	return qr, kr
}

// parallel is x + self_attn(h) + mlp(h) with h = input_layernorm(x).
func (m *decoder) parallel(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.SumsAgain()
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, w, h)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
	t.In(step.PartNorm)
	sum := t.Add(x, attn, step.LabelResidual)
	y := t.Add(sum, mlp, step.LabelResidual)
	t.Drop(sum, h, attn, mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}
