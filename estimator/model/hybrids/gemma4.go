package hybrids

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/step"
)

// Gemma4TextFamily is the text model of Gemma 4: Gemma 3 whose layers with and without a window have heads of different
// sizes, with norms of values, too, an embedding for every layer, and last layers that take the keys and values of
// those before.
// Source: transformers/models/gemma4/modeling_gemma4.py, configuration_gemma4.py (Gemma4TextConfig), 5.23.
var Gemma4TextFamily = arch.Family{ModelType: "gemma4_text", Keys: arch.CommonKeys, Build: buildGemma4,
	Uncompiled: "torch.compile is not modelled for gemma4_text",
	Defaults: map[string]any{
		"vocab_size": 262144.0, "hidden_size": 2304.0, "intermediate_size": 9216.0, "num_hidden_layers": 30.0,
		"num_attention_heads": 8.0, "num_key_value_heads": 4.0, "head_dim": 256.0, "global_head_dim": 512.0,
		"hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 131072.0, "use_cache": true,
		"tie_word_embeddings": true, "attention_bias": false, "attention_dropout": 0.0, "sliding_window": 512.0,
		"vocab_size_per_layer_input": 262144.0, "hidden_size_per_layer_input": 256.0, "attention_k_eq_v": false,
		"num_kv_shared_layers": 0.0, "enable_moe_block": false, "use_double_wide_mlp": false},
	Read: readGemma4,
}

// gemma4Options is what Gemma 4 has besides Gemma 3.
type gemma4Options struct {
	decoders.SoftCaps
	// full are the heads of layers without a window; the others have those of the architecture.
	full step.Heads
	// keysAreValues says that the former have no projection of values.
	keysAreValues bool
	// sharing is how many layers at the end take the keys and values of earlier ones, and doubled that their MLPs are
	// twice as wide.
	sharing int64
	doubled bool
	// PerLayer is the width of each layer's own embeddings, 0 without, and perLayerRows how many there are.
	PerLayer, perLayerRows int64
}

func readGemma4(c *arch.Config, a arch.Architecture) arch.Architecture {
	a = blocks.ReadDecoder(c, a, "hidden_activation")
	a.QKVBias, a.QKNorm, a.FreeHeadDim = c.Boolean("attention_bias"), true, true
	a.OutBias = a.QKVBias
	a.SlidingWindow = c.Integer("sliding_window", arch.MaxRows)
	a = c.LayerTypes(a, arch.EveryNth(6))
	o := &gemma4Options{SoftCaps: decoders.SoftCaps{Logits: c.Number("final_logit_softcapping")},
		full: step.Heads{Query: a.Heads, KV: a.KVHeads, Dim: c.Integer("global_head_dim", arch.MaxWidth),
			Drops: a.AttentionDropout > 0},
		keysAreValues: c.Boolean("attention_k_eq_v"), doubled: c.Boolean("use_double_wide_mlp")}
	if kv := c.Optional("num_global_key_value_heads", arch.MaxWidth); kv > 0 && o.keysAreValues {
		o.full.KV = kv
	}
	if o.full.KV > 0 && a.Heads%o.full.KV != 0 {
		c.Errs.Add(c.Pointer+"/num_global_key_value_heads", "not_divisible", "num_global_key_value_heads %d does not "+
			"divide num_attention_heads %d", o.full.KV, a.Heads)
	}
	if v, _ := c.Value("num_kv_shared_layers"); v != 0.0 {
		o.sharing = c.Integer("num_kv_shared_layers", arch.MaxLayers)
	}
	if v, _ := c.Value("hidden_size_per_layer_input"); v != 0.0 && v != nil {
		o.PerLayer = c.Integer("hidden_size_per_layer_input", arch.MaxWidth)
		o.perLayerRows = c.Integer("vocab_size_per_layer_input", arch.MaxRows)
	}
	for _, key := range []string{"enable_moe_block", "use_bidirectional_attention"} {
		// "vision" is of tokens of pictures, which text has none of
		if v, _ := c.Value(key); v != nil && v != false && v != "vision" {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported",
				"%s is %s, which is not modelled for gemma4_text; leave it out",
				key, arch.Describe(v))
		}
	}
	if o.sharing >= a.Layers && a.Layers > 0 {
		c.Errs.Add(c.Pointer+"/num_kv_shared_layers", "out_of_range",
			"num_kv_shared_layers is %d, so many layers at the "+
				"end take the keys and values of layers before them, and there are %d; transformers stops there, too: give one "+
				"below num_hidden_layers, such as 0", o.sharing, a.Layers)
		return a
	}
	a = lastSeesAll(c, a)
	a.Own, a.Irregular = o, true
	if o.sharing > 0 || o.PerLayer > 0 {
		a.CheckpointsApart =
			"layers that take keys and values of others, or embeddings of their own, under checkpointing"
	}
	for i := a.Layers - o.sharing; i < a.Layers; i++ {
		if a.Layers > 0 && o.makes(&a, i) < 0 {
			c.Errs.Add(c.Pointer+"/num_kv_shared_layers", "conflict",
				"layer %d takes the keys and values of one of its "+
					"kind before it, and there is none", i)
			return a
		}
	}
	return a
}

// lastSeesAll takes the window from the last layer, as the class does.
func lastSeesAll(c *arch.Config, a arch.Architecture) arch.Architecture {
	if a.Layers == 0 || !a.Slides(a.Layers-1) {
		return a
	}
	each := make([]bool, a.Layers)
	for i := range each {
		each[i] = a.Slides(int64(i))
	}
	each[len(each)-1] = false
	a.Sliding = arch.ShortestPattern(each)
	return a
}

// makes is the layer whose keys and values layer i has: its own or, where layers share, the last of its kind that makes
// any; -1 where there is none.
func (o *gemma4Options) makes(a *arch.Architecture, i int64) int64 {
	first := a.Layers - o.sharing
	if i < first {
		return i
	}
	for k := first - 1; k >= 0; k-- {
		if a.Slides(k) == a.Slides(i) {
			return k
		}
	}
	return -1
}

// stores says that later layers take the keys and values of layer i.
func (o *gemma4Options) stores(a *arch.Architecture, i int64) bool {
	for k := a.Layers - o.sharing; k < a.Layers; k++ {
		if o.makes(a, k) == i {
			return true
		}
	}
	return false
}

// Gemma4 is Gemma4ForCausalLM.
type Gemma4 struct {
	blocks.Decoder
	Own    *gemma4Options
	beside []gemma4Layer

	PerLayer, PerLayerScale step.Weight
	perLayerProjection      arch.Linear
	perLayerNorm            arch.Norm

	Inputs step.T   // of all layers together
	parts  []step.T // of each layer, once it has begun
	shared *step.Shared
}

// gemma4Layer is what a layer has besides Gemma 3's modules.
type gemma4Layer struct {
	scalar        step.Weight
	gate, project arch.Linear
	norm          arch.Norm
}

func buildGemma4(b *arch.Builder) step.Network {
	a := b.A
	own := a.Own.(*gemma4Options)
	m := &Gemma4{Own: own, beside: make([]gemma4Layer, b.Recorded)}
	m.Decoder = blocks.Decoder{A: a, Traits: blocks.LikeLlama(), Layers: make([]blocks.DecoderLayer, b.Recorded)}
	m.Normalize, m.ScaleEmbedding, m.LocalTables = gemma4, blocks.ScaledByModule, true
	m.Each = m.handOver
	m.Block = func(_ *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
		return m.layer4(t, l, w, x)
	}
	if own.Logits {
		m.ScaleLogits = (*step.Tape).SoftCapLogits
	}
	m.Embed = b.Embedding("embed_tokens", a.Vocabulary, a.Hidden)
	b.InputSection()
	m.EmbedScale = b.Scalar("embed_tokens.embed_scale")
	b.Stack(func(i int64) { m.declare4(b, i) })
	m.Final = b.Norm("norm", a.Hidden, false)
	b.FinalNormSection(false)
	for _, kind := range [...]struct {
		name  string
		slide bool
		width int64
	}{{"full_attention_", false, own.full.Dim}, {"sliding_attention_", true, a.HeadDim}} {
		if hasKind(a, kind.slide) {
			b.Frequencies("rotary_emb."+kind.name, kind.width/2)
		}
	}
	if own.PerLayer > 0 {
		m.PerLayer = b.Parameter("embed_tokens_per_layer", own.perLayerRows, a.Layers*own.PerLayer)
		b.Embeds(m.PerLayer)
		m.PerLayerScale = b.Scalar("embed_tokens_per_layer.embed_scale")
		m.perLayerProjection = b.Linear("per_layer_model_projection", a.Hidden, a.Layers*own.PerLayer, false)
		m.perLayerNorm = b.Norm("per_layer_projection_norm", own.PerLayer, false)
	}
	m.SlidingFirst = true
	m.Head = b.Head("lm_head", a.Hidden, false)
	b.HeadSection(m.Head)
	return m
}

// hasKind says whether some layer has a window, or has none.
func hasKind(a *arch.Architecture, slides bool) bool {
	for i := range a.Layers {
		if a.Slides(i) == slides {
			return true
		}
	}
	return false
}

// declare4 lists the modules of Gemma4TextDecoderLayer.
func (m *Gemma4) declare4(b *arch.Builder, i int64) {
	a, own, d := b.A, m.Own, b.A.Hidden
	l, more := &m.Layers[i], &m.beside[i]
	l.Index = i
	h := m.headsOf(i)
	kv := h.KV * h.Dim
	l.Q = b.Linear("self_attn.q_proj", d, h.Query*h.Dim, a.QKVBias)
	l.QNorm = b.Norm("self_attn.q_norm", h.Dim, false)
	ffn := a.FFN
	if own.makes(a, i) == i {
		l.KNorm = b.Norm("self_attn.k_norm", h.Dim, false)
		l.K = b.Linear("self_attn.k_proj", d, kv, a.QKVBias)
		if !m.joint(i) {
			l.V = b.Linear("self_attn.v_proj", d, kv, a.QKVBias)
		}
	} else if own.doubled {
		ffn *= 2
	}
	l.Out = b.Linear("self_attn.o_proj", h.Query*h.Dim, d, a.OutBias)
	mlp := arch.BuildGatedMLP(b, "mlp", ffn, false)
	l.Gate, l.Up, l.Down = mlp.Gate, mlp.Up, mlp.Down
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, false), b.Norm("post_attention_layernorm", d, false)
	l.PreFeedforwardNorm = b.Norm("pre_feedforward_layernorm", d, false)
	l.PostFeedforwardNorm = b.Norm("post_feedforward_layernorm", d, false)
	if own.PerLayer > 0 {
		more.gate = b.Linear("per_layer_input_gate", d, own.PerLayer, false)
		more.project = b.Linear("per_layer_projection", own.PerLayer, d, false)
		more.norm = b.Norm("post_per_layer_input_norm", d, false)
	}
	more.scalar = b.Scalar("layer_scalar")
}

// headsOf is the geometry of layer i.
func (m *Gemma4) headsOf(i int64) step.Heads {
	if m.A.Slides(i) {
		return m.A.Geometry()
	}
	return m.Own.full
}

// joint says that layer i makes its values of what its keys are made of.
func (m *Gemma4) joint(i int64) bool { return m.Own.keysAreValues && !m.A.Slides(i) }

// Forward embeds the tokens and runs the layers and the head.
func (m *Gemma4) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	ids := batch[0]
	x := m.Embeddings(t, ids)
	m.Begin()
	if m.Own.PerLayer > 0 {
		m.Inputs = m.layerInputs(t, ids, x)
	}
	given := blocks.Handed{Embedded: x, Ended: func() { m.Forget(t) }}
	if m.Own.PerLayer > 0 {
		given.Locals = []step.T{m.Inputs}
	}
	return m.Read(t, given, batch[2])
}

// Begin is before a forward.
func (m *Gemma4) Begin() { m.Inputs, m.parts, m.shared = step.NoTensor, nil, step.NewShared() }

// handOver takes layer i's part of the inputs of all layers, and hands it to the layer with the keys and values that
// layers share.
func (m *Gemma4) handOver(t *step.Tape, i int, all step.Besides) step.Besides {
	all.Shared = m.shared
	if m.Own.PerLayer == 0 {
		return all
	}
	part := t.Slice(m.Inputs, t.Shape.N()*m.Own.PerLayer)
	if i > 0 { // the loop's variable
		t.Drop(m.parts[i-1])
	}
	m.parts = append(m.parts, part)
	all.Arguments = []step.T{part}
	return all
}

// Forget lets go of the last layer's part and of the keys and values that layers shared.
func (m *Gemma4) Forget(t *step.Tape) {
	if n := len(m.parts); n > 0 {
		t.Drop(m.parts[n-1])
	}
	m.shared.Leave(t)
}

// layerInputs is get_per_layer_inputs and project_per_layer_inputs.
func (m *Gemma4) layerInputs(t *step.Tape, ids, x step.T) step.T {
	own := t.ScaledEmbedding(ids, m.PerLayer, m.PerLayerScale, step.LabelEmbedding)
	y := m.ProjectInputs(t, x, own)
	t.Drop(own)
	return y
}

// ProjectInputs is project_per_layer_inputs.
func (m *Gemma4) ProjectInputs(t *step.Tape, x, own step.T) step.T {
	projected := m.perLayerProjection.Forward(t, x)
	scaled := t.MulScalar(projected, step.LabelEmbedding)
	t.Drop(projected)
	normed := gemma4(m.perLayerNorm, t, scaled)
	t.Drop(scaled)
	sum := t.Add(normed, own, step.LabelEmbedding)
	y := t.MulScalar(sum, step.LabelEmbedding)
	t.Drop(sum, normed)
	return y
}

// gemma4 is Gemma4RMSNorm.
func gemma4(m arch.Norm, t *step.Tape, x step.T) step.T { return t.Gemma4RMSNorm(x, m.W, m.W.Rows) }

// layer4 is Gemma4TextDecoderLayer.
func (m *Gemma4) layer4(t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) step.T {
	part := step.NoTensor
	if m.Own.PerLayer > 0 {
		part = m.parts[l.Index]
	}
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attn, probabilities := m.attend4(t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := decoders.AddNormed(&m.Decoder, t, x, attn, l.PostAttentionNorm)

	h = m.Normalize(l.PreFeedforwardNorm, t, middle)
	t.In(step.PartMLP)
	mlp := m.MLP(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	y := decoders.AddNormed(&m.Decoder, t, middle, mlp, l.PostFeedforwardNorm)
	t.Drop(middle)
	more := &m.beside[l.Index]
	if m.Own.PerLayer > 0 {
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
func (m *Gemma4) addOwn(t *step.Tape, more *gemma4Layer, part, x step.T) step.T {
	gate := more.gate.Forward(t, x)
	act := arch.Activation(t, m.A.Activation, gate)
	t.Drop(gate)
	product := t.Mul(act, part, false, step.LabelActivation)
	t.Drop(act)
	projected := more.project.Forward(t, product)
	t.Drop(product)
	y := decoders.AddNormed(&m.Decoder, t, x, projected, more.norm)
	t.Drop(x)
	return y
}

// attend4 is Gemma4TextAttention.
func (m *Gemma4) attend4(t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T) (step.T, *step.T) {
	heads, masked := m.headsOf(l.Index), w.Mask != nil
	copiesKV := heads.KV > 1 && t.CopiesKVGradient(heads, masked, t.Recipe.UseCache)
	projected := l.Q.Forward(t, x)
	normed := m.Normalize(l.QNorm, t, projected)
	t.Drop(projected)
	q := t.Rotary(normed, w.Cos, w.Sin)
	t.Drop(normed)
	source := m.Own.makes(m.A, l.Index)
	var k, v step.T
	if source != l.Index {
		k, v = m.shared.Pair(source)
		t.Hold(k)
		t.Hold(v)
	} else {
		k, v = m.keysAndValues(t, l, w, x, copiesKV)
	}
	y, probabilities := m.Scores(t, w, heads, q, k, v)
	out := l.Out.Forward(t, y)
	t.Drop(y, q, k, v)
	return out, probabilities
}

// keysAndValues are those that a layer makes itself, in the cache if there is one.
func (m *Gemma4) keysAndValues(t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, x step.T, copies bool) (k,
	v step.T) {
	heads := m.headsOf(l.Index)
	keys := l.K.Forward(t, x) // whose gradient comes out of the rotation as the tokens lie
	values := t.Hold(keys)
	if !m.joint(l.Index) {
		t.Drop(values)
		values = t.Heads(l.V.Forward(t, x), copies)
	}
	normed := m.Normalize(l.KNorm, t, keys)
	t.Drop(keys)
	k = t.Rotary(normed, w.Cos, w.Sin)
	t.Drop(normed)
	v = t.Gemma4RMSNorm(values, step.NoWeight, heads.Dim)
	t.Drop(values)
	if t.Recipe.UseCache {
		if m.A.Slides(l.Index) {
			m.Cache = append(m.Cache, t.Input(1, step.I64))
		}
		kc := t.CacheAppend(k, k.Dtype())
		vc := t.CacheAppend(v, kc.Dtype())
		t.Drop(k, v)
		k, v = kc, vc
		m.Cache = append(m.Cache, t.Hold(kc), t.Hold(vc))
	}
	if m.Own.stores(m.A, l.Index) {
		m.shared.Put(t, l.Index, t.Hold(k), t.Hold(v))
	}
	return k, v
}

// RotaryWidth is that of the layers without a window.
func (o *gemma4Options) RotaryWidth() int64 { return o.full.Dim }
