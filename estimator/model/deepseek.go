package model

import "github.com/vramplan/vramplan/estimator/step"

// latent are the sizes of multi-head latent attention: queries (unless queryRank is 0) and keys with values go
// through a narrow projection; a head of queries and keys has a part with rotary positions and one without.
type latent struct {
	queryRank, keyValueRank     int64
	keyDim, rotaryDim, valueDim int64
	attentionBias, interleaved  bool
	// second marks V2, which also turns complex numbers.
	routed
}

// deepSeekV3Family is transformers' DeepseekV3ForCausalLM (modeling_deepseek_v3.py, configuration_deepseek_v3.py,
// 4.57).
var deepSeekV3Family = family{modelType: "deepseek_v3", keys: commonKeys, classes: classifyingLM, build: buildDeepSeek,
	defaults: map[string]any{
		"vocab_size": 129280.0, "hidden_size": 7168.0, "intermediate_size": 18432.0, "moe_intermediate_size": 2048.0,
		"num_hidden_layers": 61.0, "num_attention_heads": 128.0, "num_key_value_heads": 128.0, "n_shared_experts": 1.0,
		"n_routed_experts": 256.0, "kv_lora_rank": 512.0, "q_lora_rank": 1536.0, "qk_rope_head_dim": 64.0,
		"v_head_dim":       128.0,
		"qk_nope_head_dim": 128.0, "n_group": 8.0, "topk_group": 4.0, "num_experts_per_tok": 8.0,
		"first_k_dense_replace": 3.0,
		"norm_topk_prob":        true, "hidden_act": "silu", "max_position_embeddings": 4096.0, "use_cache": true,
		"tie_word_embeddings": false, "rope_interleave": true, "attention_bias": false, "attention_dropout": 0.0},
	spelled: routedSpelled, numbers: latentNumbers,
	read: func(c *config, a *Architecture) {
		c.llama(a)
		own := c.readLatent()
		own.interleaved = c.boolean("rope_interleave")
		own.groupsOfTwo(c)
		own.settle(a)
		c.latent(own, a)
	}}

// countsBias counts the routers' corrections with the parameters, as the counts of published files do.
func (a *Architecture) countsBias() {
	if own := routedOf(a); own != nil {
		own.biasCounts = !own.second
	}
}

// latent refuses numbers that no module could be built with.
func (c *config) latent(own *latent, a *Architecture) {
	if a.KVHeads != a.Heads {
		c.errs.Add(c.pointer+"/num_key_value_heads", "unsupported",
			"latent attention is modelled with as many key/value heads as heads")
	}
	if float64(a.Hidden+own.keyValueRank)*float64(own.queryRank+own.keyValueRank+1)+
		float64(a.Heads)*float64(own.keyDim+own.rotaryDim+own.valueDim)*float64(own.queryRank+own.keyValueRank+
			a.Hidden) > maxParameters/float64(maxLayers) {
		c.errs.Add(c.pointer+"/kv_lora_rank", "too_large", "the attention of a layer would have more "+
			"than %.0e parameters", maxParameters/float64(maxLayers))
	}
}

// readLatent reads what both versions have.
func (c *config) readLatent() *latent {
	return &latent{queryRank: c.optional("q_lora_rank", maxWidth), keyValueRank: c.integer("kv_lora_rank", maxWidth),
		keyDim: c.integer("qk_nope_head_dim", maxWidth), rotaryDim: c.integer("qk_rope_head_dim", maxWidth),
		valueDim:      c.integer("v_head_dim", maxWidth),
		attentionBias: c.boolean("attention_bias"), routed: c.readRouted()}
}

// routedSpelled are the names of all that have a routed mixture.
var routedSpelled = map[string]string{"num_experts": "n_routed_experts"}

// latentNumbers are what a catalog entry says of both.
func latentNumbers(p *Preset, c map[string]any) {
	routedNumbers(p, c)
	if p.MLA.QueryRank == 0 {
		c["q_lora_rank"] = nil
	}
}

// settle puts own into a: rotary tables are as wide as the part of a head that they turn.
func (own *latent) settle(a *Architecture) {
	a.own, a.HeadDim = own, own.rotaryDim
	a.Lead = own.firstDense
}

func (own *latent) heads(a *Architecture) step.Heads {
	return step.Heads{Query: a.Heads, KV: a.Heads, Dim: own.keyDim + own.rotaryDim, Value: own.valueDim}
}

// deepSeekLayer is what a layer has besides its norms.
type deepSeekLayer struct {
	q, qDown, qUp, kvDown, kvUp, out linear
	qNorm, kvNorm                    norm
	routedLayer
}

func buildDeepSeek(b *builder) step.Network {
	own := b.a.own.(*latent)
	parts := make([]deepSeekLayer, b.recorded)
	with := likeLlama()
	if own.second {
		with.makeTable = polarTable
	}
	with.declare = func(b *builder, l *decoderLayer) { own.declare(b, l, &parts[l.index]) }
	with.block = func(m *decoder, t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
		return own.layer(m, t, l, &parts[l.index], w, x)
	}
	return b.decoder(with)
}

func (own *latent) declare(b *builder, l *decoderLayer, s *deepSeekLayer) {
	a, d := b.a, b.a.Hidden
	h := own.heads(a)
	if own.queryRank == 0 {
		s.q = b.linear("self_attn.q_proj", d, h.Query*h.Dim, false)
	} else {
		s.qDown = b.linear("self_attn.q_a_proj", d, own.queryRank, own.attentionBias)
		s.qNorm = b.norm("self_attn.q_a_layernorm", own.queryRank, false)
		s.qUp = b.linear("self_attn.q_b_proj", own.queryRank, h.Query*h.Dim, false)
	}
	s.kvDown = b.linear("self_attn.kv_a_proj_with_mqa", d, own.keyValueRank+own.rotaryDim, own.attentionBias)
	s.kvNorm = b.norm("self_attn.kv_a_layernorm", own.keyValueRank, false)
	s.kvUp = b.linear("self_attn.kv_b_proj", own.keyValueRank, h.Query*(own.keyDim+own.valueDim), false)
	s.out = b.linear("self_attn.o_proj", h.Query*own.valueDim, d, own.attentionBias)
	if l.index < own.firstDense {
		s.mlp = buildGatedMLP(b, "mlp", a.FFN, a.MLPBias)
	} else {
		own.declareExperts(b, &s.routedLayer)
	}
	l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, false), b.norm("post_attention_layernorm", d, false)
}

// layer is DeepseekV3DecoderLayer.
func (own *latent) layer(m *decoder, t *step.Tape, l *decoderLayer, s *deepSeekLayer, w *around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attention := own.attention
	if m.a.Software.CachesLatents {
		attention = own.latentAttention
	}
	attn, probabilities := attention(m, t, s, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := t.Add(x, attn, step.LabelResidual)
	t.Drop(attn)

	h = m.normalize(l.postAttentionNorm, t, middle)
	t.In(step.PartMLP)
	var mlp step.T
	if l.index < own.firstDense {
		mlp = s.mlp.forward(t, m.a, h)
	} else {
		mlp = own.mixture(m.a, t, &s.routedLayer, h)
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
func (own *latent) attention(m *decoder, t *step.Tape, s *deepSeekLayer, w *around, x step.T) (step.T, *step.T) {
	heads := own.heads(m.a)
	n := t.Shape.N() * heads.Query
	qs := t.Heads(own.queries(m, t, s, x), heads.Query > 1)
	qPass, qTurned := t.Split2(qs, n*own.keyDim)
	compressed := s.kvDown.forward(t, x)
	kPass, kTurned := t.Split2(compressed, t.Shape.N()*own.keyValueRank)
	normed := m.normalize(s.kvNorm, t, kPass)
	up := t.Heads(s.kvUp.forward(t, normed), heads.Query > 1)
	t.Drop(normed, kPass)
	kPass, v := t.Split2(up, n*own.keyDim)
	t.Drop(up)
	qr, kr := own.rotate(t, qTurned, kTurned, heads, w)
	t.Drop(qTurned, kTurned)
	expanded := t.Expand(kr, heads.Query)
	t.Drop(kr)
	q, k := t.JoinHeads(qPass, qr), t.JoinHeads(kPass, expanded)
	k, v = appendKV(t, &m.cache, k, v)
	y, probabilities := m.scores(t, w, heads, q, k, v)
	out := s.out.forward(t, y)
	t.Drop(y, q, k, v, qs, qPass, qr, compressed, kPass, expanded)
	return out, probabilities
}

func (own *latent) queries(m *decoder, t *step.Tape, s *deepSeekLayer, x step.T) step.T {
	if own.queryRank == 0 {
		return s.q.forward(t, x)
	}
	down := s.qDown.forward(t, x)
	normed := m.normalize(s.qNorm, t, down)
	t.Drop(down)
	up := s.qUp.forward(t, normed)
	t.Drop(normed)
	return up
}

// rotate is apply_rotary_pos_emb_interleave or apply_rotary_pos_emb.
func (own *latent) rotate(t *step.Tape, q, k step.T, heads step.Heads, w *around) (qr, kr step.T) {
	if own.second {
		return own.rotateComplex(t, q, k, heads, w)
	}
	if !own.interleaved {
		return rotate(t, q, k, w)
	}
	qi, ki := t.Deinterleave(q), t.Deinterleave(k)
	qr, kr = rotate(t, qi, ki, w)
	t.Drop(qi, ki)
	return qr, kr
}
