package pictures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// pixtralTower is the tower of Mistral 3 and what joins it to the text model.
// Source: transformers/models/pixtral/modeling_pixtral.py, models/mistral3/modeling_mistral3.py, 5.23.
type pixtralTower struct {
	nothingBehind
	layers, hidden, ffn, heads, headDim, channels, image, patch, merge int64
	bias                                                               bool
}

var pixtralDefaults = map[string]any{"hidden_size": 1024.0, "intermediate_size": 4096.0, "num_hidden_layers": 24.0,
	"num_attention_heads": 16.0, "num_channels": 3.0, "image_size": 1024.0, "patch_size": 16.0}

func pixtral(c *arch.Config, _ *arch.Architecture) towers {
	v := c.Part("vision_config", pixtralDefaults)
	whole := &arch.Config{Given: c.Given, Errs: c.Errs, Asked: c.Asked, Pointer: c.Pointer, Read: c.Read,
		Defaults: map[string]any{"spatial_merge_size": 2.0, "multimodal_projector_bias": false}}
	m := pixtralTower{layers: v.Integer("num_hidden_layers", arch.MaxBeside), hidden: v.Integer("hidden_size", arch.MaxWidth),
		ffn: v.Integer("intermediate_size", arch.MaxRows), heads: v.Integer("num_attention_heads", arch.MaxWidth),
		channels: v.Integer("num_channels", arch.MaxWidth), image: v.Integer("image_size", arch.MaxRows),
		patch: v.Integer("patch_size", arch.MaxKernel),
		merge: whole.Integer("spatial_merge_size", arch.MaxKernel), bias: whole.Boolean("multimodal_projector_bias")}
	m.headDim = v.Optional("head_dim", arch.MaxWidth)
	if m.headDim == 0 && m.heads > 0 {
		m.headDim = m.hidden / m.heads
	}
	return m
}

// computesPixtralPositions is the tower of Mistral 3 without a table of the positions of all patches.
var computesPixtralPositions = release.Declare("computes-pixtral-positions", release.Change{
	Library: "transformers", After: "5.16", From: "5.17",
	What: "Mistral 3's tower computes the rotary positions of its patches since transformers 5.17; before, it had a " +
		"table of all of them",
	Source: "models/pixtral/modeling_pixtral.py (PixtralRotaryEmbedding.__init__), 4.57.6, 5.16.0 and 5.17.0",
	Shown:  "traces of Mistral 3 on text with 4.57 and 5.23",
})

func (m pixtralTower) declare(b *arch.Builder) {
	d, inner := m.hidden, m.hidden
	b.Convolution("vision_tower.patch_conv", m.channels, d, m.patch, m.patch, false)
	b.Norm("vision_tower.ln_pre", d, false)
	b.OfLayers = m.layers
	for range m.layers {
		b.Norm("vision_tower.transformer.layers.attention_norm", d, false)
		b.Linear("vision_tower.transformer.layers.feed_forward.gate_proj", d, m.ffn, false)
		b.Linear("vision_tower.transformer.layers.feed_forward.up_proj", d, m.ffn, false)
		b.Linear("vision_tower.transformer.layers.feed_forward.down_proj", m.ffn, d, false)
		for _, name := range [...]string{"k_proj", "v_proj", "q_proj"} {
			b.Linear("vision_tower.transformer.layers.attention."+name, d, inner, false)
		}
		b.Linear("vision_tower.transformer.layers.attention.o_proj", inner, d, false)
		b.Norm("vision_tower.transformer.layers.ffn_norm", d, false)
	}
	if b.A.Software.Has(computesPixtralPositions) {
		b.Frequencies("vision_tower.patch_positional_embedding.", m.headDim/2)
	} else if m.patch > 0 {
		side := m.image / m.patch
		b.Buffer("vision_tower.patch_positional_embedding.inv_freq", side*side*m.headDim, step.F32)
		if b.A.Software.Has(arch.KeepsFrequencies) {
			b.Buffer("vision_tower.patch_positional_embedding.original_inv_freq", side*side*m.headDim, step.F32)
		}
	}
	b.Norm("multi_modal_projector.norm", d, false)
	b.Linear("multi_modal_projector.patch_merger.merging_layer", d*m.merge*m.merge, d, false)
	b.Linear("multi_modal_projector.linear_1", d, b.A.Hidden, m.bias)
	b.Linear("multi_modal_projector.linear_2", b.A.Hidden, b.A.Hidden, m.bias)
}

// qwen35Tower is the tower of Qwen3.5.
// Source: transformers/models/qwen3_5/modeling_qwen3_5.py (Qwen3_5VisionModel), 5.23.
type qwen35Tower struct {
	nothingBehind
	layers, hidden, ffn, heads, channels, patch, frames, merge, places, out int64
}

var qwen35TowerDefaults = map[string]any{"depth": 27.0, "hidden_size": 1152.0, "intermediate_size": 4304.0,
	"num_heads": 16.0, "in_channels": 3.0, "patch_size": 16.0, "spatial_merge_size": 2.0, "temporal_patch_size": 2.0,
	"out_hidden_size": 3584.0, "num_position_embeddings": 2304.0}

func qwen35Towers(c *arch.Config, _ *arch.Architecture) towers {
	v := c.Part("vision_config", qwen35TowerDefaults)
	return qwen35Tower{layers: v.Integer("depth", arch.MaxBeside), hidden: v.Integer("hidden_size", arch.MaxWidth),
		ffn: v.Integer("intermediate_size", arch.MaxRows), heads: v.Integer("num_heads", arch.MaxWidth),
		channels: v.Integer("in_channels", arch.MaxWidth), patch: v.Integer("patch_size", arch.MaxKernel),
		frames: v.Integer("temporal_patch_size", arch.MaxKernel), merge: v.Integer("spatial_merge_size", arch.MaxKernel),
		places: v.Integer("num_position_embeddings", arch.MaxRows), out: v.Integer("out_hidden_size", arch.MaxWidth)}
}

func (m qwen35Tower) declare(b *arch.Builder) {
	d := m.hidden
	b.Convolution("visual.patch_embed.proj", m.channels*m.frames, d, m.patch, m.patch, true)
	b.Embedding("visual.pos_embed", m.places, d)
	if m.heads > 0 {
		b.Frequencies("visual.rotary_pos_emb.", d/m.heads/4)
	}
	b.OfLayers = m.layers
	for range m.layers {
		b.Norm("visual.blocks.norm1", d, true)
		b.Norm("visual.blocks.norm2", d, true)
		b.Linear("visual.blocks.attn.qkv", d, 3*d, true)
		b.Linear("visual.blocks.attn.proj", d, d, true)
		b.Linear("visual.blocks.mlp.linear_fc1", d, m.ffn, true)
		b.Linear("visual.blocks.mlp.linear_fc2", m.ffn, d, true)
	}
	wide := d * m.merge * m.merge
	b.Norm("visual.merger.norm", d, true)
	b.Linear("visual.merger.linear_fc1", wide, wide, true)
	b.Linear("visual.merger.linear_fc2", wide, m.out, true)
}

var _ step.Network = (*besideTowers)(nil)
