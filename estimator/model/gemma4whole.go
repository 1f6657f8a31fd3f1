package model

import "github.com/vramplan/vramplan/estimator/step"

// gemma4Towers are the towers of Gemma 4, for pictures before the text model and for sound behind it.
// Source: transformers/models/gemma4/modeling_gemma4.py (Gemma4VisionModel, Gemma4AudioModel,
// Gemma4MultimodalEmbedder), 5.23.
type gemma4Towers struct {
	vision *gemma4Vision
	audio  *gemma4Audio
}

type gemma4Vision struct {
	layers, hidden, ffn, heads, kv, headDim, patch, places int64
	clipped, standardised                                  bool
}

type gemma4Audio struct {
	layers, hidden, heads, kernel, out int64
	channels                           [2]int64
	clipped                            bool
}

var gemma4VisionDefaults = map[string]any{"hidden_size": 768.0, "intermediate_size": 3072.0, "num_hidden_layers": 16.0,
	"num_attention_heads": 12.0, "num_key_value_heads": 12.0, "head_dim": 64.0, "patch_size": 16.0,
	"position_embedding_size": 10240.0, "use_clipped_linears": false, "standardize": false}

var gemma4AudioDefaults = map[string]any{"hidden_size": 1024.0, "num_hidden_layers": 12.0, "num_attention_heads": 8.0,
	"conv_kernel_size": 5.0, "output_proj_dims": 1536.0, "use_clipped_linears": true,
	"subsampling_conv_channels": []any{128.0, 32.0}}

func readGemma4Towers(c *config, _ *Architecture) towers {
	m := gemma4Towers{}
	if v := c.part("vision_config", gemma4VisionDefaults); v.given != nil {
		m.vision = &gemma4Vision{layers: v.integer("num_hidden_layers", maxBeside), hidden: v.integer("hidden_size",
			maxWidth),
			ffn: v.integer("intermediate_size", maxRows), heads: v.integer("num_attention_heads", maxWidth),
			kv: v.integer("num_key_value_heads", maxWidth), headDim: v.integer("head_dim", maxWidth),
			patch: v.integer("patch_size", maxKernel), places: v.integer("position_embedding_size", maxRows),
			clipped: v.boolean("use_clipped_linears"), standardised: v.boolean("standardize")}
	}
	if v := c.part("audio_config", gemma4AudioDefaults); v.given != nil {
		m.audio = &gemma4Audio{layers: v.integer("num_hidden_layers", maxBeside), hidden: v.integer("hidden_size",
			maxWidth),
			heads: v.integer("num_attention_heads", maxWidth), kernel: v.integer("conv_kernel_size", maxKernel),
			out: v.integer("output_proj_dims", maxWidth), clipped: v.boolean("use_clipped_linears")}
		list, _ := v.value("subsampling_conv_channels")
		channels, _ := list.([]any)
		if len(channels) != len(m.audio.channels) {
			v.errs.Add(v.pointer+"/subsampling_conv_channels", "wrong_type",
				"subsampling_conv_channels is %s; it is a "+
					"list of two numbers", describe(list))
			return m
		}
		for i, n := range channels {
			m.audio.channels[i] = v.whole("subsampling_conv_channels", n, maxWidth)
		}
	}
	return m
}

func (m gemma4Towers) declare(b *builder) {
	v := m.vision
	if v == nil {
		return
	}
	d := v.hidden
	projection := b.linear("vision_tower.patch_embedder.input_proj", 3*v.patch*v.patch, d, false)
	table := b.parameter("vision_tower.patch_embedder.position_embedding_table", 2*v.places, d)
	b.stacked(table, 2)
	b.ahead(table, projection.w)
	b.frequencies("vision_tower.encoder.rotary_emb.", v.headDim/4)
	b.ofLayers = v.layers
	for range v.layers {
		for _, l := range [...]struct {
			name    string
			in, out int64
		}{{"q_proj", d, v.heads * v.headDim}, {"k_proj", d, v.kv * v.headDim}, {"v_proj", d, v.kv * v.headDim},
			{"o_proj", v.heads * v.headDim, d}} {
			b.clippable("vision_tower.encoder.layers.self_attn."+l.name, l.in, l.out, v.clipped)
		}
		b.norm("vision_tower.encoder.layers.self_attn.q_norm", v.headDim, false)
		b.norm("vision_tower.encoder.layers.self_attn.k_norm", v.headDim, false)
		b.clippable("vision_tower.encoder.layers.mlp.gate_proj", d, v.ffn, v.clipped)
		b.clippable("vision_tower.encoder.layers.mlp.up_proj", d, v.ffn, v.clipped)
		b.clippable("vision_tower.encoder.layers.mlp.down_proj", v.ffn, d, v.clipped)
		for _, name := range [...]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
			"post_feedforward_layernorm"} {
			b.norm("vision_tower.encoder.layers."+name, d, false)
		}
	}
	if v.standardised {
		b.buffer("vision_tower.std_bias", d, b.dtype)
		b.buffer("vision_tower.std_scale", d, b.dtype)
	}
}

// clippable is Gemma4ClippableLinear, whose bounds are four numbers.
func (b *builder) clippable(name string, in, out int64, clipped bool) {
	if l := b.a.LoRA; l != nil && (l.adapts(name) || b.matched(name)) {
		b.foreign = name
	}
	b.linear(name+".linear", in, out, false)
	if !clipped {
		return
	}
	for _, bound := range [...]string{".input_min", ".input_max", ".output_min", ".output_max"} {
		b.buffer(name+bound, 1, b.dtype)
	}
}

func (m gemma4Towers) declareBehind(b *builder) {
	if m.audio != nil {
		m.audio.declare(b)
	}
	if m.vision != nil {
		b.linear("embed_vision.embedding_projection", m.vision.hidden, b.a.Hidden, false)
	}
	if m.audio != nil {
		b.linear("embed_audio.embedding_projection", m.audio.out, b.a.Hidden, false)
	}
}

func (m *gemma4Audio) declare(b *builder) {
	d, c := m.hidden, m.channels
	b.convolution("audio_tower.subsample_conv_projection.layer0.conv", 1, c[0], 3, 3, false)
	b.norm("audio_tower.subsample_conv_projection.layer0.norm", c[0], false)
	b.convolution("audio_tower.subsample_conv_projection.layer1.conv", c[0], c[1], 3, 3, false)
	b.norm("audio_tower.subsample_conv_projection.layer1.norm", c[1], false)
	b.linear("audio_tower.subsample_conv_projection.input_proj_linear", c[0]/4*c[1], d, false)
	b.buffer("audio_tower.rel_pos_enc.inv_timescales", d/2, step.F32)
	b.ofLayers = m.layers
	for range m.layers {
		for _, name := range [...]string{"feed_forward1", "feed_forward2"} {
			b.clippable("audio_tower.layers."+name+".ffw_layer_1", d, 4*d, m.clipped)
			b.clippable("audio_tower.layers."+name+".ffw_layer_2", 4*d, d, m.clipped)
			b.norm("audio_tower.layers."+name+".pre_layer_norm", d, false)
			b.norm("audio_tower.layers."+name+".post_layer_norm", d, false)
		}
		at := len(b.p.List)
		for _, name := range [...]string{"q_proj", "k_proj", "v_proj", "post"} {
			b.clippable("audio_tower.layers.self_attn."+name, d, d, m.clipped)
		}
		b.linear("audio_tower.layers.self_attn.relative_k_proj", d, d, false)
		if m.heads > 0 {
			scale := b.parameter("audio_tower.layers.self_attn.per_dim_scale", d/m.heads, 1)
			b.p.List[scale.Index].Ahead = int(scale.Index) - at
		}
		b.buffer("audio_tower.layers.self_attn.softcap", 1, step.F32)
		b.clippable("audio_tower.layers.lconv1d.linear_start", d, 2*d, m.clipped)
		b.clippable("audio_tower.layers.lconv1d.linear_end", d, d, m.clipped)
		b.convolution("audio_tower.layers.lconv1d.depthwise_conv1d", 1, d, 1, m.kernel, false)
		b.norm("audio_tower.layers.lconv1d.pre_layer_norm", d, false)
		b.norm("audio_tower.layers.lconv1d.conv_norm", d, false)
		for _, name := range [...]string{"norm_pre_attn", "norm_post_attn", "norm_out"} {
			b.norm("audio_tower.layers."+name, d, false)
		}
	}
	b.linear("audio_tower.output_proj", d, m.out, true)
}

// gemma4OnText is Gemma4ForConditionalGeneration on a batch of text: it looks for tokens of pictures and sound, puts
// padding in their places, and embeds what it has then, itself.
// Source: transformers/models/gemma4/modeling_gemma4.py (Gemma4Model.forward), 5.23.
type gemma4OnText struct{ text *gemma4 }

func (m *gemma4OnText) Batch(t *step.Tape) []step.T { return m.text.Batch(t) }

func (m *gemma4OnText) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.In(step.PartEmbedding)
	n := t.Shape.N()
	images, videos, sounds := t.Input(n, step.Bool), t.Input(n, step.Bool), t.Input(n, step.Bool)
	either := t.Input(n, step.Bool)
	marked := t.Input(n, step.Bool)
	t.Drop(either)
	clone := t.Input(n, step.I64)
	padding := t.Input(1, step.I64)
	ids := t.Input(n, step.I64)
	t.Drop(padding, clone)
	text := m.text
	text.given = batch[1]
	x := text.embeddings(t, ids)
	// The order of the masks is that of a set of Python's, another in each process; that of the tables, too.
	given := handed{embedded: x, slidingFirst: true, captured: batch[2:3],
		locals: []step.T{images, videos, sounds, marked, ids}}
	text.begin()
	if text.own.perLayer > 0 {
		given.locals = append(given.locals, t.Input(x.Numel(), x.Dtype())) // with padding, of which nothing is read
		own := t.ScaledEmbedding(ids, text.perLayer, text.perLayerScale, step.LabelEmbedding)
		given.prepare = func() []step.T {
			text.inputs = text.projectInputs(t, x, own)
			return []step.T{text.inputs}
		}
		given.locals = append(given.locals, own)
	}
	return text.read(t, given, batch[2])
}
