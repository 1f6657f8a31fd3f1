package model

import "github.com/vramplan/vramplan/estimator/step"

// StableLM: Llama between LayerNorms, with rotary positions on a part of every head and, if asked for, attention and
// MLP beside each other. Source: transformers/models/stablelm/modeling_stablelm.py, configuration_stablelm.py, 4.57.
var stableLMFamily = family{modelType: "stablelm", keys: commonKeys, classes: classifyingLM,
	defaults: map[string]any{
		"vocab_size": 50304.0, "hidden_size": 2560.0, "intermediate_size": 6912.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "num_key_value_heads": 32.0, "hidden_act": "silu",
		"max_position_embeddings": 4096.0,
		"use_cache":               true, "tie_word_embeddings": false, "use_qkv_bias": false, "qk_layernorm": false,
		"use_parallel_residual": false,
		"hidden_dropout":        0.0, "attention_dropout": 0.0, "partial_rotary_factor": 0.25},
	read: func(c *config, a *Architecture) {
		c.llama(a)
		a.Rotary = false // said of the part that is turned
		a.HeadDim = 0    // head_dim is not read
		if a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		a.ResidualDropout = c.probability("hidden_dropout")
		a.QKVBias, a.QKNorm, a.NormBias = c.boolean("use_qkv_bias"), c.boolean("qk_layernorm"), true
		a.own = &partialRotary{width: c.rotaryFraction("partial_rotary_factor", a, false),
			parallel: c.boolean("use_parallel_residual")}
	},
	spelled: map[string]string{"attention_bias": "use_qkv_bias", "residual_dropout": "hidden_dropout"},
	numbers: func(p *Preset, c map[string]any) {
		c["use_parallel_residual"], c["qk_layernorm"] = p.NormsPerLayer == 1, p.QKNorm != ""
	},
	build: func(b *builder) step.Network {
		with := likeLlama()
		with.declare, with.block = declareStableLM, (*decoder).stableLMBlock
		with.normalize, with.normBias, with.repeats = norm.layer, true, true
		if b.a.Software.InterfacesStableLM {
			with.repeats = false
			return b.decoder(with)
		}
		with.makeMask = func(t *step.Tape, _ int64, d step.DType) *step.T { return triangularMask(t, d) }
		with.addsMask = true
		return b.decoder(with)
	}}

// declareStableLM lists the modules of StableLmDecoderLayer. Every head's queries and keys have a norm of their own.
func declareStableLM(b *builder, l *decoderLayer) {
	a := b.a
	b.projections(l)
	if a.QKNorm {
		l.qNorms, l.kNorms = b.headNorms("self_attn.q_layernorm", a.Heads),
			b.headNorms("self_attn.k_layernorm", a.KVHeads)
	}
	if !a.Software.InterfacesStableLM {
		b.frequencies("self_attn.rotary_emb.", a.rotaryWidth()/2)
	}
	b.mlp(l)
	l.inputNorm = b.norm("input_layernorm", a.Hidden, true)
	if !a.rotary().parallel {
		l.postAttentionNorm = b.norm("post_attention_layernorm", a.Hidden, true)
	}
}

// headNorms is StableLmLayerNormPerHead.
func (b *builder) headNorms(name string, heads int64) []norm {
	all := make([]norm, heads)
	for i := range all {
		all[i] = b.norm(name+".norms", b.a.HeadDim, false)
	}
	return all
}

// normHeads is q_layernorm or k_layernorm. It takes over x.
func normHeads(t *step.Tape, norms []norm, x step.T) step.T {
	gains := make([]step.Weight, len(norms))
	for i, n := range norms {
		gains[i] = n.w
	}
	y := t.HeadNorms(x, gains)
	t.Drop(x)
	return y
}

// stableLMBlock is x + self_attn(h) + dropout(mlp(h)) with h = input_layernorm(x) or, one after the other, as in Llama.
func (m *decoder) stableLMBlock(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.stableLMAttention(t, l, w, h)

	t.In(step.PartNorm)
	middle := t.Hold(h)
	sum := t.Hold(attn)
	if !m.a.rotary().parallel {
		t.Drop(sum)
		sum = t.Add(x, attn, step.LabelResidual)
		t.Drop(middle)
		middle = m.normalize(l.postAttentionNorm, t, sum)
	}
	t.In(step.PartMLP)
	down := m.mlp(t, l, middle)
	t.Drop(middle)
	mlp := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	t.In(step.PartNorm)
	if m.a.rotary().parallel {
		t.Drop(sum)
		sum = t.Add(x, attn, step.LabelResidual)
	}
	y := t.Add(sum, mlp, step.LabelResidual)
	t.Drop(sum, h, attn, mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// stableLMAttention is StableLmSdpaAttention or StableLmAttention, which repeat grouped keys and values for every
// kernel and let go of the probabilities, or that of later releases, which goes through the library's interfaces.
func (m *decoder) stableLMAttention(t *step.Tape, l *decoderLayer, w *around, x step.T) (step.T, *step.T) {
	heads, c, p := m.a.geometry(), m.copies(t, w), m.a.rotary()
	q, k, v := l.q.forward(t, x), l.k.forward(t, x), l.v.forward(t, x)
	q, k, v = t.Heads(q, c.query), t.Heads(k, c.key), t.Heads(v, c.value)
	if m.a.QKNorm {
		q, k = normHeads(t, l.qNorms, q), normHeads(t, l.kNorms, k)
	}
	qs, ks := p.split(t, q, heads.Dim), p.split(t, k, heads.Dim)
	qe, ke := t.Rotary(qs.turned, w.cos, w.sin), t.Rotary(ks.turned, w.cos, w.sin)
	t.Drop(qs.turned, ks.turned)
	qr := t.JoinHeads(qe, qs.rest)
	t.Drop(q)
	kr := t.JoinHeads(ke, ks.rest)
	t.Drop(k)
	k, v = appendKV(t, &m.cache, kr, v)
	if m.repeats {
		for _, x := range [...]*step.T{&k, &v} {
			repeated := t.RepeatKV(*x, heads)
			t.Drop(*x)
			*x = repeated
		}
		if w.mask != nil && t.Recipe.Attention != step.AttentionEager {
			k, v = denseHeads(t, heads, k, v)
		}
		heads.KV = heads.Query
	}
	y, probabilities := m.scores(t, w, heads, qr, k, v)
	out := l.out.forward(t, y)
	t.Drop(y, qr, k, v, qe, ke, qs.rest, ks.rest)
	if probabilities != nil && m.repeats {
		t.Drop(*probabilities)
		probabilities = nil
	}
	return out, probabilities
}

// denseHeads is contiguous() on keys and values, which StableLmSdpaAttention calls where there is a mask. It copies
// what is still a view: values that no cache holds and that were not repeated, and what one head repeats for all. It
// takes over k and v.
func denseHeads(t *step.Tape, heads step.Heads, k, v step.T) (dk, dv step.T) {
	dense := func(x step.T) step.T {
		y := t.Contiguous(x)
		t.Drop(x)
		return y
	}
	switch {
	case heads.Query == 1:
		return k, v
	case heads.KV == 1:
		return dense(k), dense(v)
	case heads.KV == heads.Query && !t.Recipe.UseCache:
		return k, dense(v)
	}
	return k, v
}
