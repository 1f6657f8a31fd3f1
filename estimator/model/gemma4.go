package model

import "github.com/vramplan/vramplan/estimator/step"

// gemma4TextFamily is the text model of Gemma 4: Gemma 3 whose layers with and without a window have heads of different
// sizes, with norms of values, too, an embedding for every layer, and last layers that take the keys and values of
// those before.
// Source: transformers/models/gemma4/modeling_gemma4.py, configuration_gemma4.py (Gemma4TextConfig), 5.23.
var gemma4TextFamily = family{modelType: "gemma4_text", keys: commonKeys, build: buildGemma4,
	uncompiled: "torch.compile is not modelled for gemma4_text",
	defaults: map[string]any{
		"vocab_size": 262144.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 30.0,
		"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0, "global_head_dim": 512.0,
		"hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072.0, "use_cache": true,
		"tie_word_embeddings": true, "attention_bias": false, "attention_dropout": 0.0, "sliding_window": 512.0,
		"vocab_size_per_layer_input": 262144.0, "hidden_size_per_layer_input": 256.0, "attention_k_eq_v": false,
		"num_kv_shared_layers": 0.0, "enable_moe_block": false, "use_double_wide_mlp": false},
	read: readGemma4,
}

// gemma4Options is what Gemma 4 has besides Gemma 3.
type gemma4Options struct {
	softCaps
	// full are the heads of layers without a window; the others have those of the architecture.
	full step.Heads
	// keysAreValues says that the former have no projection of values.
	keysAreValues bool
	// sharing is how many layers at the end take the keys and values of earlier ones, and doubled that their MLPs are
	// twice as wide.
	sharing int64
	doubled bool
	// perLayer is the width of each layer's own embeddings, 0 without, and perLayerRows how many there are.
	perLayer, perLayerRows int64
}

func readGemma4(c *config, a *Architecture) {
	c.decoder(a, "hidden_activation")
	a.QKVBias, a.QKNorm, a.FreeHeadDim = c.boolean("attention_bias"), true, true
	a.OutBias = a.QKVBias
	a.SlidingWindow = c.integer("sliding_window", maxRows)
	c.layerTypes(a, everyNth(6))
	o := &gemma4Options{softCaps: softCaps{logits: c.number("final_logit_softcapping")},
		full: step.Heads{Query: a.Heads, KV: a.KVHeads, Dim: c.integer("global_head_dim", maxWidth),
			Drops: a.AttentionDropout > 0},
		keysAreValues: c.boolean("attention_k_eq_v"), doubled: c.boolean("use_double_wide_mlp")}
	if kv := c.optional("num_global_key_value_heads", maxWidth); kv > 0 && o.keysAreValues {
		o.full.KV = kv
	}
	if o.full.KV > 0 && a.Heads%o.full.KV != 0 {
		c.errs.Add(c.pointer+"/num_global_key_value_heads", "not_divisible", "num_global_key_value_heads %d does not "+
			"divide num_attention_heads %d", o.full.KV, a.Heads)
	}
	if v, _ := c.value("num_kv_shared_layers"); v != 0.0 {
		o.sharing = c.integer("num_kv_shared_layers", maxLayers)
	}
	if v, _ := c.value("hidden_size_per_layer_input"); v != 0.0 && v != nil {
		o.perLayer = c.integer("hidden_size_per_layer_input", maxWidth)
		o.perLayerRows = c.integer("vocab_size_per_layer_input", maxRows)
	}
	for _, key := range []string{"enable_moe_block", "use_bidirectional_attention"} {
		// "vision" is of tokens of pictures, which text has none of
		if v, _ := c.value(key); v != nil && v != false && v != "vision" {
			c.errs.Add(c.pointer+"/"+key, "unsupported",
				"%s is %s, which is not modelled for gemma4_text; leave it out",
				key, describe(v))
		}
	}
	if o.sharing >= a.Layers && a.Layers > 0 {
		c.errs.Add(c.pointer+"/num_kv_shared_layers", "out_of_range",
			"num_kv_shared_layers is %d, so many layers at the "+
				"end take the keys and values of layers before them, and there are %d; transformers stops there, too: give one "+
				"below num_hidden_layers, such as 0", o.sharing, a.Layers)
		return
	}
	c.lastSeesAll(a)
	a.own, a.Irregular = o, true
	if o.sharing > 0 || o.perLayer > 0 {
		a.CheckpointsApart =
			"layers that take keys and values of others, or embeddings of their own, under checkpointing"
	}
	for i := a.Layers - o.sharing; i < a.Layers; i++ {
		if a.Layers > 0 && o.makes(a, i) < 0 {
			c.errs.Add(c.pointer+"/num_kv_shared_layers", "conflict",
				"layer %d takes the keys and values of one of its "+
					"kind before it, and there is none", i)
			return
		}
	}
}

// lastSeesAll takes the window from the last layer, as the class does.
func (c *config) lastSeesAll(a *Architecture) {
	if a.Layers == 0 || !a.slides(a.Layers-1) {
		return
	}
	each := make([]bool, a.Layers)
	for i := range each {
		each[i] = a.slides(int64(i))
	}
	each[len(each)-1] = false
	a.Sliding = shortestPattern(each)
}

// makes is the layer whose keys and values layer i has: its own or, where layers share, the last of its kind that makes
// any; -1 where there is none.
func (o *gemma4Options) makes(a *Architecture, i int64) int64 {
	first := a.Layers - o.sharing
	if i < first {
		return i
	}
	for k := first - 1; k >= 0; k-- {
		if a.slides(k) == a.slides(i) {
			return k
		}
	}
	return -1
}

// stores says that later layers take the keys and values of layer i.
func (o *gemma4Options) stores(a *Architecture, i int64) bool {
	for k := a.Layers - o.sharing; k < a.Layers; k++ {
		if o.makes(a, k) == i {
			return true
		}
	}
	return false
}

// gemma4 is Gemma4ForCausalLM.
type gemma4 struct {
	decoder
	own    *gemma4Options
	beside []gemma4Layer

	perLayer, perLayerScale step.Weight
	perLayerProjection      linear
	perLayerNorm            norm

	inputs step.T   // of all layers together
	parts  []step.T // of each layer, once it has begun
	shared *step.Shared
}

// gemma4Layer is what a layer has besides Gemma 3's modules.
type gemma4Layer struct {
	scalar        step.Weight
	gate, project linear
	norm          norm
}

func buildGemma4(b *builder) step.Network {
	a := b.a
	own := a.own.(*gemma4Options)
	m := &gemma4{own: own, beside: make([]gemma4Layer, b.recorded)}
	m.decoder = decoder{a: a, traits: likeLlama(), layers: make([]decoderLayer, b.recorded)}
	m.normalize, m.scaleEmbedding, m.localTables, m.forgets = norm.gemma4, scaledByModule, true, m.forget
	m.each = m.handOver
	m.block = func(_ *decoder, t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
		return m.layer4(t, l, w, x)
	}
	if own.logits {
		m.scaleLogits = (*step.Tape).SoftCapLogits
	}
	m.embed = b.embedding("embed_tokens", a.Vocabulary, a.Hidden)
	b.inputSection()
	m.embedScale = b.scalar("embed_tokens.embed_scale")
	b.stack(func(i int64) { m.declare4(b, i) })
	m.final = b.norm("norm", a.Hidden, false)
	b.finalNormSection(false)
	for _, kind := range [...]struct {
		name  string
		slide bool
		width int64
	}{{"full_attention_", false, own.full.Dim}, {"sliding_attention_", true, a.HeadDim}} {
		if a.hasKind(kind.slide) {
			b.frequencies("rotary_emb."+kind.name, kind.width/2)
		}
	}
	if own.perLayer > 0 {
		m.perLayer = b.parameter("embed_tokens_per_layer", own.perLayerRows, a.Layers*own.perLayer)
		b.embeds(m.perLayer)
		m.perLayerScale = b.scalar("embed_tokens_per_layer.embed_scale")
		m.perLayerProjection = b.linear("per_layer_model_projection", a.Hidden, a.Layers*own.perLayer, false)
		m.perLayerNorm = b.norm("per_layer_projection_norm", own.perLayer, false)
	}
	m.slidingFirst = true
	m.head = b.head("lm_head", a.Hidden, false)
	b.headSection(m.head)
	return m
}

// hasKind says whether some layer has a window, or has none.
func (a *Architecture) hasKind(slides bool) bool {
	for i := range a.Layers {
		if a.slides(i) == slides {
			return true
		}
	}
	return false
}

// declare4 lists the modules of Gemma4TextDecoderLayer.
func (m *gemma4) declare4(b *builder, i int64) {
	a, own, d := b.a, m.own, b.a.Hidden
	l, more := &m.layers[i], &m.beside[i]
	l.index = i
	h := m.headsOf(i)
	kv := h.KV * h.Dim
	l.q = b.linear("self_attn.q_proj", d, h.Query*h.Dim, a.QKVBias)
	l.qNorm = b.norm("self_attn.q_norm", h.Dim, false)
	ffn := a.FFN
	if own.makes(a, i) == i {
		l.kNorm = b.norm("self_attn.k_norm", h.Dim, false)
		l.k = b.linear("self_attn.k_proj", d, kv, a.QKVBias)
		if !m.joint(i) {
			l.v = b.linear("self_attn.v_proj", d, kv, a.QKVBias)
		}
	} else if own.doubled {
		ffn *= 2
	}
	l.out = b.linear("self_attn.o_proj", h.Query*h.Dim, d, a.OutBias)
	mlp := buildGatedMLP(b, "mlp", ffn, false)
	l.gate, l.up, l.down = mlp.gate, mlp.up, mlp.down
	l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, false), b.norm("post_attention_layernorm", d, false)
	l.preFeedforwardNorm = b.norm("pre_feedforward_layernorm", d, false)
	l.postFeedforwardNorm = b.norm("post_feedforward_layernorm", d, false)
	if own.perLayer > 0 {
		more.gate = b.linear("per_layer_input_gate", d, own.perLayer, false)
		more.project = b.linear("per_layer_projection", own.perLayer, d, false)
		more.norm = b.norm("post_per_layer_input_norm", d, false)
	}
	more.scalar = b.scalar("layer_scalar")
}

// headsOf is the geometry of layer i.
func (m *gemma4) headsOf(i int64) step.Heads {
	if m.a.slides(i) {
		return m.a.geometry()
	}
	return m.own.full
}

// joint says that layer i makes its values of what its keys are made of.
func (m *gemma4) joint(i int64) bool { return m.own.keysAreValues && !m.a.slides(i) }

func (m *gemma4) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	ids := batch[0]
	x := m.embeddings(t, ids)
	m.begin()
	if m.own.perLayer > 0 {
		m.inputs = m.layerInputs(t, ids, x)
	}
	given := handed{embedded: x}
	if m.own.perLayer > 0 {
		given.locals = []step.T{m.inputs}
	}
	return m.read(t, given, batch[2])
}

// begin is before a forward.
func (m *gemma4) begin() { m.inputs, m.parts, m.shared = step.NoTensor, nil, step.NewShared() }

// handOver takes layer i's part of the inputs of all layers, and hands it to the layer with the keys and values that
// layers share.
func (m *gemma4) handOver(t *step.Tape, i int, all step.Besides) step.Besides {
	all.Shared = m.shared
	if m.own.perLayer == 0 {
		return all
	}
	part := t.Slice(m.inputs, t.Shape.N()*m.own.perLayer)
	if i > 0 { // the loop's variable
		t.Drop(m.parts[i-1])
	}
	m.parts = append(m.parts, part)
	all.Arguments = []step.T{part}
	return all
}

// forget lets go of the last layer's part and of the keys and values that layers shared.
func (m *gemma4) forget(t *step.Tape) {
	if n := len(m.parts); n > 0 {
		t.Drop(m.parts[n-1])
	}
	m.shared.Leave(t)
}

// layerInputs is get_per_layer_inputs and project_per_layer_inputs.
func (m *gemma4) layerInputs(t *step.Tape, ids, x step.T) step.T {
	own := t.ScaledEmbedding(ids, m.perLayer, m.perLayerScale, step.LabelEmbedding)
	y := m.projectInputs(t, x, own)
	t.Drop(own)
	return y
}

// projectInputs is project_per_layer_inputs.
func (m *gemma4) projectInputs(t *step.Tape, x, own step.T) step.T {
	projected := m.perLayerProjection.forward(t, x)
	scaled := t.MulScalar(projected, step.LabelEmbedding)
	t.Drop(projected)
	normed := m.perLayerNorm.gemma4(t, scaled)
	t.Drop(scaled)
	sum := t.Add(normed, own, step.LabelEmbedding)
	y := t.MulScalar(sum, step.LabelEmbedding)
	t.Drop(sum, normed)
	return y
}

// gemma4 is Gemma4RMSNorm.
func (m norm) gemma4(t *step.Tape, x step.T) step.T { return t.Gemma4RMSNorm(x, m.w, m.w.Rows) }

// layer4 is Gemma4TextDecoderLayer.
func (m *gemma4) layer4(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	part := step.NoTensor
	if m.own.perLayer > 0 {
		part = m.parts[l.index]
	}
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attend4(t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.addNormed(t, x, attn, l.postAttentionNorm)

	h = m.normalize(l.preFeedforwardNorm, t, middle)
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := m.addNormed(t, middle, mlp, l.postFeedforwardNorm)
	t.Drop(middle)
	more := &m.beside[l.index]
	if m.own.perLayer > 0 {
		t.In(step.PartMLP)
		y = m.addOwn(t, more, part, y)
	}
	y = t.ScaledInPlace(y, t.Parameter(more.scalar))
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// addOwn adds what the layer's own embeddings let through. It takes over them and x.
func (m *gemma4) addOwn(t *step.Tape, more *gemma4Layer, part, x step.T) step.T {
	gate := more.gate.forward(t, x)
	act := activation(t, m.a.Activation, gate)
	t.Drop(gate)
	product := t.Mul(act, part, false, step.LabelActivation)
	t.Drop(act)
	projected := more.project.forward(t, product)
	t.Drop(product)
	y := m.addNormed(t, x, projected, more.norm)
	t.Drop(x)
	return y
}

// attend4 is Gemma4TextAttention.
func (m *gemma4) attend4(t *step.Tape, l *decoderLayer, w *around, x step.T) (step.T, *step.T) {
	heads, masked := m.headsOf(l.index), w.mask != nil
	copiesKV := heads.KV > 1 && t.CopiesKVGradient(heads, masked, t.Recipe.UseCache)
	projected := l.q.forward(t, x)
	normed := m.normalize(l.qNorm, t, projected)
	t.Drop(projected)
	q := t.Rotary(normed, w.cos, w.sin)
	t.Drop(normed)
	source := m.own.makes(m.a, l.index)
	var k, v step.T
	if source != l.index {
		k, v = m.shared.Pair(source)
		t.Hold(k)
		t.Hold(v)
	} else {
		k, v = m.keysAndValues(t, l, w, x, copiesKV)
	}
	y, probabilities := m.scores(t, w, heads, q, k, v)
	out := l.out.forward(t, y)
	t.Drop(y, q, k, v)
	return out, probabilities
}

// keysAndValues are those that a layer makes itself, in the cache if there is one.
func (m *gemma4) keysAndValues(t *step.Tape, l *decoderLayer, w *around, x step.T, copies bool) (k, v step.T) {
	heads := m.headsOf(l.index)
	keys := l.k.forward(t, x) // whose gradient comes out of the rotation as the tokens lie
	values := t.Hold(keys)
	if !m.joint(l.index) {
		t.Drop(values)
		values = t.Heads(l.v.forward(t, x), copies)
	}
	normed := m.normalize(l.kNorm, t, keys)
	t.Drop(keys)
	k = t.Rotary(normed, w.cos, w.sin)
	t.Drop(normed)
	v = t.Gemma4RMSNorm(values, step.NoWeight, heads.Dim)
	t.Drop(values)
	if t.Recipe.UseCache {
		if m.a.slides(l.index) {
			m.cache = append(m.cache, t.Input(1, step.I64))
		}
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k, v)
		k, v = kc, vc
		m.cache = append(m.cache, t.Hold(kc), t.Hold(vc))
	}
	if m.own.stores(m.a, l.index) {
		m.shared.Put(t, l.index, t.Hold(k), t.Hold(v))
	}
	return k, v
}

// rotaryWidth is that of the layers without a window.
func (o *gemma4Options) rotaryWidth() int64 { return o.full.Dim }
