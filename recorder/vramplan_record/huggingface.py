"""Modules of transformers from a config.json, with the batches that its collators make."""

import torch

HEADS = {
    "language-model": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "image-classification": "AutoModelForImageClassification",
}


def from_config(written, head=None, attention=None, no_cache=False, target=None, padded=False, beyond=False):
    """model and batch for recording.record, and the name of the class; written is what a config.json says, beyond that sequences are longer than
    its window of attention"""
    import transformers

    config = transformers.AutoConfig.for_model(**written)
    caches = getattr(config, "use_cache", None)
    if no_cache:
        config.use_cache = False
    if beyond and getattr(config, "sliding_window", None):
        config.sliding_window = min(config.sliding_window, SHORT)
    if attention:
        config._attn_implementation = attention
    names = written.get("architectures") or []
    if head is None and names and hasattr(transformers, names[0]):
        kind = getattr(transformers, names[0])
        made = kind._from_config if hasattr(kind, "_from_config") else kind
        name = names[0]
    else:
        auto = getattr(transformers, HEADS[head or "language-model"])
        made, name = auto.from_config, type(auto._model_mapping[type(config)]).__name__
        name = auto._model_mapping[type(config)].__name__
    options = {"attn_implementation": attention} if attention else {}

    def model():
        return made(config, **options)

    batch = batch_for(name, config, target, padded)
    batch.padded, batch.caches = padded, caches
    batch.window = getattr(config, "sliding_window", None)
    batch.longest = next((getattr(config, k) for k in LIMITS if isinstance(getattr(config, k, None), int)), None)
    return model, batch, name


# A window that a recording is beyond: how wide it is changes no tensor of sequences that are longer.
SHORT = 256

# What a config.json calls the number of its learned positions.
LIMITS = ("max_target_positions", "n_positions", "max_position_embeddings")


def batch_for(name, config, target=None, padded=False):
    """the batch of a class: sequences with their mask and labels (target of a sequence where they are written anew), pictures, or sound"""
    def ids(b, t):
        return torch.zeros(b, t, dtype=torch.long)

    def mask(b, t):
        if not padded:
            return torch.ones(b, t, dtype=torch.long)
        return torch.arange(t).lt(t - 1).long().expand(b, t).contiguous()  # the last token is padding

    def pictures(b, t):
        side = config.image_size
        return {"pixel_values": torch.zeros(b, config.num_channels, side, side), "labels": torch.zeros(b, dtype=torch.long)}

    def text(b, t):
        return {"input_ids": ids(b, t), "attention_mask": mask(b, t), "labels": ids(b, target or t)}

    def sound(b, t):
        frames = 2 * config.max_source_positions
        return {"input_features": torch.zeros(b, config.num_mel_bins, frames), "labels": ids(b, t)}

    def both(b, t):
        image = config.vision_config
        return {"input_ids": ids(b, t), "attention_mask": mask(b, t), "return_loss": True,
                "pixel_values": torch.zeros(b, image.num_channels, image.image_size, image.image_size)}

    def classified(b, t):
        return {"input_ids": ids(b, t), "attention_mask": mask(b, t), "labels": torch.zeros(b, dtype=torch.long)}

    if "ImageClassification" in name:
        pictures.fixed = True
        return pictures
    if name == "WhisperForConditionalGeneration":
        return sound
    if name == "CLIPModel":
        return both
    return classified if "SequenceClassification" in name else text
