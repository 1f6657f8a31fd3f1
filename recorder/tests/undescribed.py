"""Models that nobody described, small, as their libraries build them: for recordings that are held against traces. Each NAME has NAME() and
NAME_batch(b, t), as vramplan_record takes them. Those of timm and diffusers are what --timm and --diffusers record."""

import json
import os
import tempfile

import torch

from vramplan_record import libraries


def _transformers(kind, config, **given):
    import transformers

    return getattr(transformers, kind)(getattr(transformers, config)(**given))


def _ids(b, t):
    return torch.zeros(b, t, dtype=torch.long)


def _text(b, t):
    return {"input_ids": _ids(b, t), "attention_mask": torch.ones(b, t, dtype=torch.long), "labels": _ids(b, t)}


def bart():
    return _transformers("BartForConditionalGeneration", "BartConfig", vocab_size=2000, d_model=128, encoder_layers=2, decoder_layers=2,
                         encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, max_position_embeddings=512,
                         dropout=0.1)


def mamba():
    """without its kernels: the loop over the sequence"""
    return _transformers("MambaForCausalLM", "MambaConfig", vocab_size=2000, hidden_size=64, state_size=8, num_hidden_layers=2, use_cache=False)


def mamba_batch(b, t):
    return {"input_ids": _ids(b, t), "labels": _ids(b, t)}


def wav2vec2():
    return _transformers("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                         intermediate_size=128, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, layerdrop=0.0,
                         mask_time_prob=0.0, classifier_proj_size=32)


def wav2vec2_batch(b, t):
    return {"input_values": torch.zeros(b, 4000), "labels": torch.zeros(b, dtype=torch.long)}


def mixtral():
    return _transformers("MixtralForCausalLM", "MixtralConfig", vocab_size=2000, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, max_position_embeddings=512)


bart_batch = mixtral_batch = _text


def _pair(make, name, size):
    model, batch, _ = make(name, size)
    return model, batch


def resnet50():
    return _pair(libraries.from_timm, "resnet50", 64)[0]()


def resnet50_batch(b, t):
    return _pair(libraries.from_timm, "resnet50", 64)[1](b, t)


def efficientnet():
    return _pair(libraries.from_timm, "efficientnet_b0", 64)[0]()


def efficientnet_batch(b, t):
    return _pair(libraries.from_timm, "efficientnet_b0", 64)[1](b, t)


def convnext():
    return _pair(libraries.from_timm, "convnext_atto", 64)[0]()


def convnext_batch(b, t):
    return _pair(libraries.from_timm, "convnext_atto", 64)[1](b, t)


def swin():
    return _pair(libraries.from_timm, "swin_tiny_patch4_window7_224", None)[0]()


def swin_batch(b, t):
    return _pair(libraries.from_timm, "swin_tiny_patch4_window7_224", None)[1](b, t)


def diffusion():
    from diffusers import UNet2DConditionModel

    net = UNet2DConditionModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=64, attention_head_dim=8,
                               down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))
    return libraries.denoising(net)


def diffusion_batch(b, t):
    picture = (b, 4, 16, 16)
    return {"sample": torch.zeros(picture), "timestep": torch.zeros(b, dtype=torch.long), "noise": torch.zeros(picture),
            "encoder_hidden_states": torch.zeros(b, libraries.TEXT, 64)}


def vit():
    return _pair(libraries.from_timm, "vit_tiny_patch16_224", 64)[0]()


def vit_batch(b, t):
    return _pair(libraries.from_timm, "vit_tiny_patch16_224", 64)[1](b, t)


def _diffusers(name, **given):
    """what --diffusers makes of a config.json"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as f:
            json.dump({"_class_name": name, **given}, f)
        return _pair(libraries.from_diffusers, path, None)


def _unconditional():
    return _diffusers("UNet2DModel", sample_size=16, block_out_channels=(32, 64), layers_per_block=1, attention_head_dim=8,
                      down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))


def unconditional():
    return _unconditional()[0]()


def unconditional_batch(b, t):
    return _unconditional()[1](b, t)


def _patches():
    return _diffusers("SD3Transformer2DModel", sample_size=16, patch_size=2, in_channels=4, out_channels=4, num_layers=2, attention_head_dim=16,
                      num_attention_heads=4, joint_attention_dim=64, caption_projection_dim=64, pooled_projection_dim=32, pos_embed_max_size=16)


def patches():
    return _patches()[0]()


def patches_batch(b, t):
    return _patches()[1](b, t)
