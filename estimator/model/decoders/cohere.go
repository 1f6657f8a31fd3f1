package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// CohereFamily is Cohere: one norm for attention and MLP, which run side by side, and scaled logits.
// Source: transformers/models/cohere/modeling_cohere.py, configuration_cohere.py, 4.57.
var CohereFamily = arch.Family{ModelType: "cohere", Planned: true, Keys: arch.CommonKeys, Defaults: cohereDefaults,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.QKNorm = c.Boolean("use_qk_norm")
		return a
	},
	Build: func(b *arch.Builder) step.Network { return blocks.BuildDecoder(b, likeCohere()) }}

// Cohere2Family is Cohere 2: windows in three layers of four, which alone have rotary positions. In
// transformers 4 it fills no cache in training.
// Source: transformers/models/cohere2/modeling_cohere2.py, configuration_cohere2.py, 4.57 and 5.23.
var Cohere2Family = arch.Family{ModelType: "cohere2", Keys: arch.CommonKeys, Defaults: cohereDefaults,
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.UseCache, a.CachesInTrainingLater, a.CachesInEvaluation = false, a.UseCache, a.UseCache
		a.SlidingWindow = c.Integer("sliding_window", arch.MaxRows)
		if pattern := c.Integer("sliding_window_pattern", arch.MaxLayers); pattern > 0 {
			a = c.LayerTypes(a, arch.EveryNth(pattern))
		}
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := likeCohere()
		with.RotaryWindows = true
		return blocks.BuildDecoder(b, with)
	}}

// The window is Cohere 2's alone.
var cohereDefaults = map[string]any{
	"vocab_size": 256000.0, "hidden_size": 8192.0, "intermediate_size": 22528.0, "num_hidden_layers": 40.0,
	"num_attention_heads": 64.0, "hidden_act": "silu", "max_position_embeddings": 8192.0, "use_cache": true,
	"tie_word_embeddings": true, "attention_bias": false, "attention_dropout": 0.0, "use_qk_norm": false,
	"sliding_window": 4096.0, "sliding_window_pattern": 4.0}

func likeCohere() blocks.Traits {
	with := blocks.LikeLlama()
	with.Declare, with.Block, with.Project = declareCohere, parallel, projectCohere
	with.Normalize, with.Rotate, with.ScaleLogits = arch.Norm.Cohere, rotateWide, (*step.Tape).ScaleLogits
	return with
}

// declareCohere lists the modules of CohereDecoderLayer. The norms of queries and keys have a gain for every head.
func declareCohere(b *arch.Builder, l *blocks.DecoderLayer) {
	a := b.A
	blocks.DeclareProjections(b, l)
	if a.QKNorm {
		l.QNorm = b.Norm("self_attn.q_norm", a.Heads*a.HeadDim, false)
		l.KNorm = b.Norm("self_attn.k_norm", a.KVHeads*a.HeadDim, false)
	}
	blocks.DeclareMLP(b, l)
	l.InputNorm = b.Norm("input_layernorm", a.Hidden, false)
}

// projectCohere is q_proj, k_proj and v_proj, and then the norms of queries and keys over each head.
func projectCohere(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (q, k,
	v step.T) {
	c := m.Copies(t, w)
	q, k, v = t.Heads(l.Q.Forward(t, x), c.Query), t.Heads(l.K.Forward(t, x), c.Key),
		t.Heads(l.V.Forward(t, x), c.Value)
	if m.A.QKNorm {
		qn := t.CohereLayerNorm(q, l.QNorm.W, m.A.HeadDim)
		t.Drop(q)
		kn := t.CohereLayerNorm(k, l.KNorm.W, m.A.HeadDim)
		t.Drop(k)
		q, k = qn, kn
	}
	return q, k, v
}

// rotateWide is Cohere's apply_rotary_pos_emb: in float32, and cast back.
func rotateWide(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
	qf, kf := t.Float(q, step.LabelRotary), t.Float(k, step.LabelRotary)
	qw, kw := blocks.Rotate(t, qf, kf, w)
	qr, kr = t.Cast(qw, q.Dtype(), step.LabelRotary), t.Cast(kw, q.Dtype(), step.LabelRotary)
	t.Drop(qf, kf, qw, kw)
	return qr, kr
}

// parallel is x + self_attn(h) + mlp(h) with h = input_layernorm(x).
func parallel(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
	t.SumsAgain()
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.Attention(t, l, w, h)
	t.In(step.PartMLP)
	mlp := m.MLP(t, l, h)
	t.In(step.PartNorm)
	sum := t.Add(x, attn, step.LabelResidual)
	y := t.Add(sum, mlp, step.LabelResidual)
	t.Drop(sum, h, attn, mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}
