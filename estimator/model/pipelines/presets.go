package pipelines

import (
	"encoding/json"
	"slices"
	"strings"
)

// The parts of published pipelines, as the config.json in each folder of their repositories has them, without keys that
// change no memory.
const (
	clipLarge = `{"model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 768,
		"intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 77,
		"vocab_size": 49408, "projection_dim": 768, "hidden_act": "quick_gelu", "eos_token_id": 2}`
	clipLargeProjected = `{"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"],
		"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
		"max_position_embeddings": 77, "vocab_size": 49408, "projection_dim": 768, "hidden_act": "quick_gelu",
		"eos_token_id": 2}`
	clipBigG = `{"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"],
		"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 20,
		"max_position_embeddings": 77, "vocab_size": 49408, "projection_dim": 1280, "hidden_act": "gelu",
		"eos_token_id": 2}`
	t5XXL = `{"model_type": "t5", "architectures": ["T5EncoderModel"], "d_model": 4096, "d_kv": 64, "d_ff": 10240,
		"num_layers": 24, "num_heads": 64, "vocab_size": 32128, "feed_forward_proj": "gated-gelu",
		"relative_attention_num_buckets": 32, "tie_word_embeddings": false}`
	vae16 = `{"_class_name": "AutoencoderKL", "latent_channels": 16, "block_out_channels": [128, 256, 512, 512],
		"layers_per_block": 2, "norm_num_groups": 32, "use_quant_conv": false, "use_post_quant_conv": false,
		"down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"],
		"up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"]}`
	vae4 = `{"_class_name": "AutoencoderKL", "latent_channels": 4, "block_out_channels": [128, 256, 512, 512],
		"layers_per_block": 2, "norm_num_groups": 32,
		"down_block_types": ["DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"],
		"up_block_types": ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"]}`
	fluxDev = `{"_class_name": "FluxTransformer2DModel", "in_channels": 64, "num_layers": 19,
		"num_single_layers": 38, "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096,
		"pooled_projection_dim": 768, "guidance_embeds": true}`
	fluxSchnell = `{"_class_name": "FluxTransformer2DModel", "in_channels": 64, "num_layers": 19,
		"num_single_layers": 38, "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096,
		"pooled_projection_dim": 768, "guidance_embeds": false}`
	sd3Medium = `{"_class_name": "SD3Transformer2DModel", "sample_size": 128, "patch_size": 2, "in_channels": 16,
		"num_layers": 24, "attention_head_dim": 64, "num_attention_heads": 24, "joint_attention_dim": 4096,
		"caption_projection_dim": 1536, "pooled_projection_dim": 2048, "out_channels": 16, "pos_embed_max_size": 192}`
	sd35Medium = `{"_class_name": "SD3Transformer2DModel", "sample_size": 128, "patch_size": 2, "in_channels": 16,
		"num_layers": 24, "attention_head_dim": 64, "num_attention_heads": 24, "joint_attention_dim": 4096,
		"caption_projection_dim": 1536, "pooled_projection_dim": 2048, "out_channels": 16, "pos_embed_max_size": 384,
		"qk_norm": "rms_norm", "dual_attention_layers": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}`
	sd35Large = `{"_class_name": "SD3Transformer2DModel", "sample_size": 128, "patch_size": 2, "in_channels": 16,
		"num_layers": 38, "attention_head_dim": 64, "num_attention_heads": 38, "joint_attention_dim": 4096,
		"caption_projection_dim": 2432, "pooled_projection_dim": 2048, "out_channels": 16, "pos_embed_max_size": 192,
		"qk_norm": "rms_norm", "dual_attention_layers": []}`
	sd15UNet = `{"_class_name": "UNet2DConditionModel", "sample_size": 64, "in_channels": 4, "out_channels": 4,
		"block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2, "attention_head_dim": 8,
		"cross_attention_dim": 768, "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D",
		"CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D",
		"CrossAttnUpBlock2D", "CrossAttnUpBlock2D"], "act_fn": "silu", "norm_num_groups": 32}`
	sdxlUNet = `{"_class_name": "UNet2DConditionModel", "sample_size": 128, "in_channels": 4, "out_channels": 4,
		"block_out_channels": [320, 640, 1280], "layers_per_block": 2, "attention_head_dim": [5, 10, 20],
		"cross_attention_dim": 2048, "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D",
		"CrossAttnDownBlock2D"], "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
		"act_fn": "silu", "norm_num_groups": 32, "transformer_layers_per_block": [1, 2, 10],
		"use_linear_projection": true, "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
		"projection_class_embeddings_input_dim": 2816}`
)

// publishedPipelines are those that have a name of their own: the repository's on the hub.
var publishedPipelines = map[string]Pipeline{
	"black-forest-labs/FLUX.1-dev":          published(fluxDev, "", vae16, clipLarge, t5XXL),
	"black-forest-labs/FLUX.1-schnell":      published(fluxSchnell, "", vae16, clipLarge, t5XXL),
	"stabilityai/stable-diffusion-3-medium": published(sd3Medium, "", vae16, clipLargeProjected, clipBigG, t5XXL),
	"stabilityai/stable-diffusion-3-medium-diffusers": published(sd3Medium, "", vae16, clipLargeProjected, clipBigG,
		t5XXL),
	"stabilityai/stable-diffusion-3.5-medium": published(sd35Medium, "", vae16, clipLargeProjected, clipBigG, t5XXL),
	"stabilityai/stable-diffusion-3.5-large":  published(sd35Large, "", vae16, clipLargeProjected, clipBigG, t5XXL),
	"stabilityai/stable-diffusion-3.5-large-turbo": published(sd35Large, "", vae16, clipLargeProjected, clipBigG,
		t5XXL),
	"stable-diffusion-v1-5/stable-diffusion-v1-5": published("", sd15UNet, vae4, clipLarge),
	"stabilityai/stable-diffusion-xl-base-1.0":    published("", sdxlUNet, vae4, clipLarge, clipBigG),
}

func published(transformer, unet, vae string, texts ...string) Pipeline {
	p := Pipeline{VAE: json.RawMessage(vae)}
	if transformer != "" {
		p.Transformer = json.RawMessage(transformer)
	}
	if unet != "" {
		p.UNet = json.RawMessage(unet)
	}
	for _, text := range texts {
		p.TextEncoders = append(p.TextEncoders, json.RawMessage(text))
	}
	return p
}

// PublishedPipelines are the names of the pipelines that are known, in order.
func PublishedPipelines() []string {
	var names []string
	for name := range publishedPipelines {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Completed is p with the parts of the published pipeline of this name where it has none; ok is false where the name is
// not known. The case of its letters does not matter, nor the owner where the name alone tells.
func (p Pipeline) Completed(name string) (whole Pipeline, ok bool) {
	for known, parts := range publishedPipelines {
		_, short, _ := strings.Cut(known, "/")
		if !strings.EqualFold(known, name) && !strings.EqualFold(short, name) {
			continue
		}
		if p.Transformer == nil && p.UNet == nil {
			p.Transformer, p.UNet = parts.Transformer, parts.UNet
		}
		if p.VAE == nil {
			p.VAE = parts.VAE
		}
		if len(p.TextEncoders) == 0 {
			p.TextEncoders = parts.TextEncoders
		}
		return p, true
	}
	return p, false
}
