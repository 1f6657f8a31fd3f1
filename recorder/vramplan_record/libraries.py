"""Models of timm and diffusers by name, with batches as their training scripts make them. The libraries are needed where they are named alone."""

import inspect
import json
import os

import torch
import torch.nn.functional as F

# How many tokens a text encoder hands to a diffusion model: CLIP's, which diffusers' own training scripts have.
TEXT = 77


def with_loss(module, forward, loss):
    """the module, which returns what forward makes of it and a loss of that, as a loop that holds both"""
    own = module.forward

    def call(**batch):
        out = forward(own, **batch)
        return {"output": out, "loss": loss(out, **batch)}

    module.forward = call
    return module


def from_timm(name, size=None):
    """model and batch for recording.record, and what it is called: pictures in classes"""
    import timm

    given = timm.get_pretrained_cfg(name, allow_unregistered=False)
    channels, *sides = given.input_size
    sides = [size, size] if size else sides
    sized = "img_size" in inspect.signature(timm.model_entrypoint(name)).parameters or size and given.fixed_input_size

    def model():
        made = timm.create_model(name, **({"img_size": size} if sized and size else {}))
        return with_loss(made, lambda own, x, labels: own(x), lambda y, x, labels: F.cross_entropy(y, labels))

    def batch(b, t):
        return {"x": torch.zeros(b, channels, *sides), "labels": torch.zeros(b, dtype=torch.long)}

    return model, batch, name


def denoising(module):
    """the module with the loss of diffusers' training scripts: how far the noise that it finds is from that which was added"""
    return with_loss(module, lambda own, noise, **x: own(**x),
                     lambda y, noise, **x: F.mse_loss(y[0][:, : noise.shape[1]].float(), noise.float()))


def from_diffusers(given, size=None):
    """model and batch for recording.record, and what it is called: given is a class, or a config.json that names one"""
    import diffusers

    written = {}
    if os.path.exists(given):
        with open(given) as f:
            written = json.load(f)
    name = written.get("_class_name", given)
    kind = getattr(diffusers, name, None)
    if kind is None:
        raise ValueError(f"diffusers has no class {name}: --diffusers takes one, or a config.json whose _class_name names one")
    accepted = inspect.signature(kind.forward).parameters
    if "timestep" not in accepted or not {"sample", "hidden_states"} & set(accepted):
        raise ValueError(f"{name} does not take a noisy picture and a time: give a function that makes it, and --inputs")
    picture = "sample" if "sample" in accepted else "hidden_states"

    def model():
        return denoising(kind.from_config(dict(written)) if written else kind())

    with torch.device("meta"):
        config = model().config
    side = size or config.sample_size
    if not side:
        raise ValueError(f"{name} does not say how large its pictures are: give --picture-size, in latents where it has an encoder before it")

    def batch(b, t):
        shape = (b, config.in_channels, *([side, side] if isinstance(side, int) else side))
        made = {picture: torch.zeros(shape), "timestep": torch.zeros(b, dtype=torch.long), "noise": torch.zeros(shape)}
        wide = config.get("cross_attention_dim") or config.get("joint_attention_dim")
        if "encoder_hidden_states" in accepted and wide:
            made["encoder_hidden_states"] = torch.zeros(b, TEXT, wide if isinstance(wide, int) else wide[0])
        if "class_labels" in accepted and (config.get("num_embeds_ada_norm") or config.get("num_class_embeds")):
            made["class_labels"] = torch.zeros(b, dtype=torch.long)
        if config.get("pooled_projection_dim"):
            made["pooled_projections"] = torch.zeros(b, config.pooled_projection_dim)
        return made

    return model, batch, name
