package model

import "github.com/vramplan/vramplan/estimator/step"

// Phi-3 and Phi-4: Llama with one matrix for queries, keys and values, one for gate and up, and dropout on the
// residuals. Source: transformers/models/phi3/modeling_phi3.py, configuration_phi3.py, 4.57.
var phi3Family = family{modelType: "phi3", keys: commonKeys, classes: classifyingLM,
	defaults: map[string]any{
		"vocab_size": 32064.0, "hidden_size": 3072.0, "intermediate_size": 8192.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "resid_pdrop": 0.0, "attention_dropout": 0.0, "hidden_act": "silu",
		"max_position_embeddings": 4096.0, "use_cache": true, "tie_word_embeddings": false,
		"partial_rotary_factor": 1.0},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.Rotary = false // said of the part that is turned
		a.ResidualDropout = c.probability("resid_pdrop")
		a.SlidingWindow = c.optional("sliding_window", maxRows)
		a.own = &partialRotary{width: c.rotaryFraction("partial_rotary_factor", a, true)}
	},
	spelled: map[string]string{"residual_dropout": "resid_pdrop"},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.block = declarePhi3, (*decoder).phi3Block
		return b.decoder(with)
	}}

// declarePhi3 lists the modules of Phi3DecoderLayer.
func declarePhi3(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.out = b.linear("self_attn.o_proj", q, d, false)
	l.qkv = b.linear("self_attn.qkv_proj", d, q+2*kv, false)
	l.gateUp = b.linear("mlp.gate_up_proj", d, 2*a.FFN, false)
	l.down = b.linear("mlp.down_proj", a.FFN, d, false)
	l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, false), b.norm("post_attention_layernorm", d, false)
}

// phi3Block is x + dropout(self_attn(input_layernorm(x))), then the same with the MLP.
func (m *decoder) phi3Block(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.fusedAttention(t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.addDropped(t, x, attn)

	h = m.normalize(l.postAttentionNorm, t, middle)
	t.In(step.PartMLP)
	mlp := m.fusedMLP(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := m.addDropped(t, middle, mlp)
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// addDropped is residual + dropout(x). It takes over x.
func (m *decoder) addDropped(t *step.Tape, residual, x step.T) step.T {
	dropped := t.Dropout(x, m.a.ResidualDropout)
	y := t.Add(residual, dropped, step.LabelResidual)
	t.Drop(dropped, x)
	return y
}

// fusedAttention is self_attn on slices of one projection. It returns its output and, where they are formed, the
// probabilities.
func (m *decoder) fusedAttention(t *step.Tape, l *decoderLayer, w *around, x step.T) (step.T, *step.T) {
	heads := m.a.geometry()
	c := m.copies(t, w)
	qkv := l.qkv.forward(t, x)
	n := qkv.Numel() / (heads.Query + 2*heads.KV)
	q, k, v := t.Slice(qkv, n*heads.Query), t.Slice(qkv, n*heads.KV), t.Slice(qkv, n*heads.KV)
	q, k, v = t.Heads(q, c.query), t.Heads(k, c.key), t.Heads(v, c.value)

	p := m.a.rotary()
	qs, ks := p.split(t, q, heads.Dim), p.split(t, k, heads.Dim)
	turn := func(r rotated) step.T {
		turned := t.Rotary(r.turned, w.cos, w.sin)
		y := t.JoinHeads(turned, r.rest)
		t.Drop(turned)
		return y
	}
	qr, kr := turn(qs), turn(ks)
	qs.drop(t)
	ks.drop(t)
	t.Drop(q, k)
	k, v = appendKV(t, &m.cache, kr, v)
	y, probabilities := attend(t, m.a, w.mask, qr, k, v)
	out := l.out.forward(t, y)
	t.Drop(y, qr, k, v, qkv)
	return out, probabilities
}

// fusedMLP is down(up·act(gate)) on the halves of one projection.
func (m *decoder) fusedMLP(t *step.Tape, l *decoderLayer, x step.T) step.T {
	both := l.gateUp.forward(t, x)
	gate, up := t.SplitHalves(both)
	t.Drop(both)
	act := activation(t, m.a.Activation, gate)
	product := t.Mul(up, act, false, step.LabelActivation)
	t.Drop(act, up)
	down := l.down.forward(t, product)
	t.Drop(product, gate)
	return down
}
