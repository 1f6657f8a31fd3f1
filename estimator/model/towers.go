package model

import "github.com/vramplan/vramplan/estimator/step"

// pixtralTower is the tower of Mistral 3 and what joins it to the text model.
// Source: transformers/models/pixtral/modeling_pixtral.py, models/mistral3/modeling_mistral3.py, 5.23.
type pixtralTower struct {
	nothingBehind
	layers, hidden, ffn, heads, headDim, channels, image, patch, merge int64
	bias                                                               bool
}

var pixtralDefaults = map[string]any{"hidden_size": 1024.0, "intermediate_size": 4096.0, "num_hidden_layers": 24.0,
	"num_attention_heads": 16.0, "num_channels": 3.0, "image_size": 1024.0, "patch_size": 16.0}

func (c *config) pixtral(*Architecture) towers {
	v := c.part("vision_config", pixtralDefaults)
	whole := &config{given: c.given, errs: c.errs, asked: c.asked, pointer: c.pointer, read: c.read,
		defaults: map[string]any{"spatial_merge_size": 2.0, "multimodal_projector_bias": false}}
	m := pixtralTower{layers: v.integer("num_hidden_layers", maxBeside), hidden: v.integer("hidden_size", maxWidth),
		ffn: v.integer("intermediate_size", maxRows), heads: v.integer("num_attention_heads", maxWidth),
		channels: v.integer("num_channels", maxWidth), image: v.integer("image_size", maxRows),
		patch: v.integer("patch_size", maxKernel),
		merge: whole.integer("spatial_merge_size", maxKernel), bias: whole.boolean("multimodal_projector_bias")}
	m.headDim = v.optional("head_dim", maxWidth)
	if m.headDim == 0 && m.heads > 0 {
		m.headDim = m.hidden / m.heads
	}
	return m
}

func (m pixtralTower) declare(b *builder) {
	d, inner := m.hidden, m.hidden
	b.convolution("vision_tower.patch_conv", m.channels, d, m.patch, m.patch, false)
	b.norm("vision_tower.ln_pre", d, false)
	b.ofLayers = m.layers
	for range m.layers {
		b.norm("vision_tower.transformer.layers.attention_norm", d, false)
		b.linear("vision_tower.transformer.layers.feed_forward.gate_proj", d, m.ffn, false)
		b.linear("vision_tower.transformer.layers.feed_forward.up_proj", d, m.ffn, false)
		b.linear("vision_tower.transformer.layers.feed_forward.down_proj", m.ffn, d, false)
		for _, name := range [...]string{"k_proj", "v_proj", "q_proj"} {
			b.linear("vision_tower.transformer.layers.attention."+name, d, inner, false)
		}
		b.linear("vision_tower.transformer.layers.attention.o_proj", inner, d, false)
		b.norm("vision_tower.transformer.layers.ffn_norm", d, false)
	}
	if b.a.Software.ComputesPixtralPositions {
		b.frequencies("vision_tower.patch_positional_embedding.", m.headDim/2)
	} else if m.patch > 0 {
		side := m.image / m.patch
		b.buffer("vision_tower.patch_positional_embedding.inv_freq", side*side*m.headDim, step.F32)
		if b.a.Software.KeepsFrequencies {
			b.buffer("vision_tower.patch_positional_embedding.original_inv_freq", side*side*m.headDim, step.F32)
		}
	}
	b.norm("multi_modal_projector.norm", d, false)
	b.linear("multi_modal_projector.patch_merger.merging_layer", d*m.merge*m.merge, d, false)
	b.linear("multi_modal_projector.linear_1", d, b.a.Hidden, m.bias)
	b.linear("multi_modal_projector.linear_2", b.a.Hidden, b.a.Hidden, m.bias)
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

func qwen35Towers(c *config, _ *Architecture) towers {
	v := c.part("vision_config", qwen35TowerDefaults)
	return qwen35Tower{layers: v.integer("depth", maxBeside), hidden: v.integer("hidden_size", maxWidth),
		ffn: v.integer("intermediate_size", maxRows), heads: v.integer("num_heads", maxWidth),
		channels: v.integer("in_channels", maxWidth), patch: v.integer("patch_size", maxKernel),
		frames: v.integer("temporal_patch_size", maxKernel), merge: v.integer("spatial_merge_size", maxKernel),
		places: v.integer("num_position_embeddings", maxRows), out: v.integer("out_hidden_size", maxWidth)}
}

func (m qwen35Tower) declare(b *builder) {
	d := m.hidden
	b.convolution("visual.patch_embed.proj", m.channels*m.frames, d, m.patch, m.patch, true)
	b.embedding("visual.pos_embed", m.places, d)
	if m.heads > 0 {
		b.frequencies("visual.rotary_pos_emb.", d/m.heads/4)
	}
	b.ofLayers = m.layers
	for range m.layers {
		b.norm("visual.blocks.norm1", d, true)
		b.norm("visual.blocks.norm2", d, true)
		b.linear("visual.blocks.attn.qkv", d, 3*d, true)
		b.linear("visual.blocks.attn.proj", d, d, true)
		b.linear("visual.blocks.mlp.linear_fc1", d, m.ffn, true)
		b.linear("visual.blocks.mlp.linear_fc2", m.ffn, d, true)
	}
	wide := d * m.merge * m.merge
	b.norm("visual.merger.norm", d, true)
	b.linear("visual.merger.linear_fc1", wide, wide, true)
	b.linear("visual.merger.linear_fc2", wide, m.out, true)
}

var _ step.Network = (*besideTowers)(nil)
