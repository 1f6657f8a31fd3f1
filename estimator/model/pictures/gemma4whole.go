package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/step"
)

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

func readGemma4Towers(c *arch.Config, _ *arch.Architecture) towers {
	m := gemma4Towers{}
	if v := c.Part("vision_config", gemma4VisionDefaults); v.Given != nil {
		m.vision = &gemma4Vision{layers: v.Integer("num_hidden_layers", arch.MaxBeside), hidden: v.Integer("hidden_size",
			arch.MaxWidth),
			ffn: v.Integer("intermediate_size", arch.MaxRows), heads: v.Integer("num_attention_heads", arch.MaxWidth),
			kv: v.Integer("num_key_value_heads", arch.MaxWidth), headDim: v.Integer("head_dim", arch.MaxWidth),
			patch: v.Integer("patch_size", arch.MaxKernel), places: v.Integer("position_embedding_size", arch.MaxRows),
			clipped: v.Boolean("use_clipped_linears"), standardised: v.Boolean("standardize")}
	}
	if v := c.Part("audio_config", gemma4AudioDefaults); v.Given != nil {
		m.audio = &gemma4Audio{layers: v.Integer("num_hidden_layers", arch.MaxBeside), hidden: v.Integer("hidden_size",
			arch.MaxWidth),
			heads: v.Integer("num_attention_heads", arch.MaxWidth), kernel: v.Integer("conv_kernel_size", arch.MaxKernel),
			out: v.Integer("output_proj_dims", arch.MaxWidth), clipped: v.Boolean("use_clipped_linears")}
		list, _ := v.Value("subsampling_conv_channels")
		channels, _ := list.([]any)
		if len(channels) != len(m.audio.channels) {
			v.Errs.Add(v.Pointer+"/subsampling_conv_channels", "wrong_type",
				"subsampling_conv_channels is %s; it is a "+
					"list of two numbers", arch.Describe(list))
			return m
		}
		for i, n := range channels {
			m.audio.channels[i] = v.Whole("subsampling_conv_channels", n, arch.MaxWidth)
		}
	}
	return m
}

func (m gemma4Towers) declare(b *arch.Builder) {
	v := m.vision
	if v == nil {
		return
	}
	d := v.hidden
	projection := b.Linear("vision_tower.patch_embedder.input_proj", 3*v.patch*v.patch, d, false)
	table := b.Parameter("vision_tower.patch_embedder.position_embedding_table", 2*v.places, d)
	b.Stacked(table, 2)
	b.Ahead(table, projection.W)
	b.Frequencies("vision_tower.encoder.rotary_emb.", v.headDim/4)
	b.OfLayers = v.layers
	for range v.layers {
		for _, l := range [...]struct {
			name    string
			in, out int64
		}{{"q_proj", d, v.heads * v.headDim}, {"k_proj", d, v.kv * v.headDim}, {"v_proj", d, v.kv * v.headDim},
			{"o_proj", v.heads * v.headDim, d}} {
			clippable(b, "vision_tower.encoder.layers.self_attn."+l.name, l.in, l.out, v.clipped)
		}
		b.Norm("vision_tower.encoder.layers.self_attn.q_norm", v.headDim, false)
		b.Norm("vision_tower.encoder.layers.self_attn.k_norm", v.headDim, false)
		clippable(b, "vision_tower.encoder.layers.mlp.gate_proj", d, v.ffn, v.clipped)
		clippable(b, "vision_tower.encoder.layers.mlp.up_proj", d, v.ffn, v.clipped)
		clippable(b, "vision_tower.encoder.layers.mlp.down_proj", v.ffn, d, v.clipped)
		for _, name := range [...]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
			"post_feedforward_layernorm"} {
			b.Norm("vision_tower.encoder.layers."+name, d, false)
		}
	}
	if v.standardised {
		b.Buffer("vision_tower.std_bias", d, b.Dtype)
		b.Buffer("vision_tower.std_scale", d, b.Dtype)
	}
}

// clippable is Gemma4ClippableLinear, whose bounds are four numbers.
func clippable(b *arch.Builder, name string, in, out int64, clipped bool) {
	if l := b.A.LoRA; l != nil && (l.Adapts(name) || b.Matched(name)) {
		b.Foreign = name
	}
	b.Linear(name+".linear", in, out, false)
	if !clipped {
		return
	}
	for _, bound := range [...]string{".input_min", ".input_max", ".output_min", ".output_max"} {
		b.Buffer(name+bound, 1, b.Dtype)
	}
}

func (m gemma4Towers) declareBehind(b *arch.Builder) {
	if m.audio != nil {
		m.audio.declare(b)
	}
	if m.vision != nil {
		b.Linear("embed_vision.embedding_projection", m.vision.hidden, b.A.Hidden, false)
	}
	if m.audio != nil {
		b.Linear("embed_audio.embedding_projection", m.audio.out, b.A.Hidden, false)
	}
}

func (m *gemma4Audio) declare(b *arch.Builder) {
	d, c := m.hidden, m.channels
	b.Convolution("audio_tower.subsample_conv_projection.layer0.conv", 1, c[0], 3, 3, false)
	b.Norm("audio_tower.subsample_conv_projection.layer0.norm", c[0], false)
	b.Convolution("audio_tower.subsample_conv_projection.layer1.conv", c[0], c[1], 3, 3, false)
	b.Norm("audio_tower.subsample_conv_projection.layer1.norm", c[1], false)
	b.Linear("audio_tower.subsample_conv_projection.input_proj_linear", c[0]/4*c[1], d, false)
	b.Buffer("audio_tower.rel_pos_enc.inv_timescales", d/2, step.F32)
	b.OfLayers = m.layers
	for range m.layers {
		for _, name := range [...]string{"feed_forward1", "feed_forward2"} {
			clippable(b, "audio_tower.layers."+name+".ffw_layer_1", d, 4*d, m.clipped)
			clippable(b, "audio_tower.layers."+name+".ffw_layer_2", 4*d, d, m.clipped)
			b.Norm("audio_tower.layers."+name+".pre_layer_norm", d, false)
			b.Norm("audio_tower.layers."+name+".post_layer_norm", d, false)
		}
		at := len(b.P.List)
		for _, name := range [...]string{"q_proj", "k_proj", "v_proj", "post"} {
			clippable(b, "audio_tower.layers.self_attn."+name, d, d, m.clipped)
		}
		b.Linear("audio_tower.layers.self_attn.relative_k_proj", d, d, false)
		if m.heads > 0 {
			scale := b.Parameter("audio_tower.layers.self_attn.per_dim_scale", d/m.heads, 1)
			b.P.List[scale.Index].Ahead = int(scale.Index) - at
		}
		b.Buffer("audio_tower.layers.self_attn.softcap", 1, step.F32)
		clippable(b, "audio_tower.layers.lconv1d.linear_start", d, 2*d, m.clipped)
		clippable(b, "audio_tower.layers.lconv1d.linear_end", d, d, m.clipped)
		b.Convolution("audio_tower.layers.lconv1d.depthwise_conv1d", 1, d, 1, m.kernel, false)
		b.Norm("audio_tower.layers.lconv1d.pre_layer_norm", d, false)
		b.Norm("audio_tower.layers.lconv1d.conv_norm", d, false)
		for _, name := range [...]string{"norm_pre_attn", "norm_post_attn", "norm_out"} {
			b.Norm("audio_tower.layers."+name, d, false)
		}
	}
	b.Linear("audio_tower.output_proj", d, m.out, true)
}

// gemma4OnText is Gemma4ForConditionalGeneration on a batch of text: it looks for tokens of pictures and sound, puts
// padding in their places, and embeds what it has then, itself.
// Source: transformers/models/gemma4/modeling_gemma4.py (Gemma4Model.forward), 5.23.
type gemma4OnText struct{ text *hybrids.Gemma4 }

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
	text.Given = batch[1]
	x := text.Embeddings(t, ids)
	// The order of the masks is that of a set of Python's, another in each process; that of the tables, too.
	given := blocks.Handed{Embedded: x, SlidingFirst: true, Captured: batch[2:3], Ended: func() { text.Forget(t) },
		Locals: []step.T{images, videos, sounds, marked, ids}}
	text.Begin()
	if text.Own.PerLayer > 0 {
		given.Locals = append(given.Locals, t.Input(x.Numel(), x.Dtype())) // with padding, of which nothing is read
		own := t.ScaledEmbedding(ids, text.PerLayer, text.PerLayerScale, step.LabelEmbedding)
		given.Prepare = func() []step.T {
			text.Inputs = text.ProjectInputs(t, x, own)
			return []step.T{text.Inputs}
		}
		given.Locals = append(given.Locals, own)
	}
	return text.Read(t, given, batch[2])
}
