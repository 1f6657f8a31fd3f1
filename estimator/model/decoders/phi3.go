package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// Phi3Family is Phi-3 and Phi-4: Llama with one matrix for queries, keys and values, one for gate and up, and dropout
// on the residuals. Source: transformers/models/phi3/modeling_phi3.py, configuration_phi3.py, 4.57.
var Phi3Family = arch.Family{ModelType: "phi3", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 32064.0, "hidden_size": 3072.0, "intermediate_size": 8192.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "resid_pdrop": 0.0, "attention_dropout": 0.0, "hidden_act": "silu",
		"max_position_embeddings": 4096.0, "use_cache": true, "tie_word_embeddings": false,
		"partial_rotary_factor": 1.0},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Rotary = false // said of the part that is turned
		a.ResidualDropout = c.Probability("resid_pdrop")
		a.SlidingWindow = c.Optional("sliding_window", arch.MaxRows)
		a.Own = &blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, true)}
		return a
	},
	Spelled: map[string]string{"residual_dropout": "resid_pdrop"},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Declare, with.Block = declarePhi3, phi3Block
		return blocks.BuildDecoder(b, with)
	}}

// declarePhi3 lists the modules of Phi3DecoderLayer.
func declarePhi3(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.Out = b.Linear("self_attn.o_proj", q, d, false)
	l.QKV = b.Linear("self_attn.qkv_proj", d, q+2*kv, false)
	l.GateUp = b.Linear("mlp.gate_up_proj", d, 2*a.FFN, false)
	l.Down = b.Linear("mlp.down_proj", a.FFN, d, false)
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, false), b.Norm("post_attention_layernorm", d, false)
}

// phi3Block is x + dropout(self_attn(input_layernorm(x))), then the same with the MLP.
func phi3Block(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := fusedAttention(m, t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := addDropped(m, t, x, attn)

	h = m.Normalize(l.PostAttentionNorm, t, middle)
	t.In(step.PartMLP)
	mlp := fusedMLP(m, t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := addDropped(m, t, middle, mlp)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// addDropped is residual + dropout(x). It takes over x.
func addDropped(m *blocks.Decoder, t *step.Tape, residual, x step.T) step.T {
	dropped := t.Dropout(x, m.A.ResidualDropout)
	y := t.Add(residual, dropped, step.LabelResidual)
	t.Drop(dropped, x)
	return y
}

// fusedAttention is self_attn on slices of one projection. It returns its output and, where they are formed, the
// probabilities.
func fusedAttention(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (step.T,
	*step.T) {
	heads := m.A.Geometry()
	c := m.Copies(t, w)
	qkv := l.QKV.Forward(t, x)
	n := qkv.Numel() / (heads.Query + 2*heads.KV)
	q, k, v := t.Slice(qkv, n*heads.Query), t.Slice(qkv, n*heads.KV), t.Slice(qkv, n*heads.KV)
	q, k, v = t.Heads(q, c.Query), t.Heads(k, c.Key), t.Heads(v, c.Value)

	p := blocks.Rotary(m.A)
	qs, ks := p.Split(t, q, heads.Dim), p.Split(t, k, heads.Dim)
	turn := func(r blocks.Rotated) step.T {
		turned := t.Rotary(r.Turned, w.Cos, w.Sin)
		y := t.JoinHeads(turned, r.Rest)
		t.Drop(turned)
		return y
	}
	qr, kr := turn(qs), turn(ks)
	qs.Drop(t)
	ks.Drop(t)
	t.Drop(q, k)
	k, v = blocks.AppendKV(t, &m.Cache, kr, v)
	y, probabilities := blocks.Attend(t, m.A, w.Mask, qr, k, v)
	out := l.Out.Forward(t, y)
	t.Drop(y, qr, k, v, qkv)
	return out, probabilities
}

// fusedMLP is down(up·act(gate)) on the halves of one projection.
func fusedMLP(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, x step.T) step.T {
	both := l.GateUp.Forward(t, x)
	gate, up := t.SplitHalves(both)
	t.Drop(both)
	act := arch.Activation(t, m.A.Activation, gate)
	product := t.Mul(up, act, false, step.LabelActivation)
	t.Drop(act, up)
	down := l.Down.Forward(t, product)
	t.Drop(product, gate)
	return down
}
