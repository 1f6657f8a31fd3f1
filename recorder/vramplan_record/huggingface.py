"""Modules of transformers from a config.json, with the batches that its collators make."""

import json

import torch

HEADS = {
    "language-model": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "classification": "AutoModelForSequenceClassification",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "image-classification": "AutoModelForImageClassification",
}


def from_config(path, head=None, attention=None, no_cache=False):
    """model and batch for recording.record, and the name of the class"""
    import transformers

    with open(path) as f:
        written = json.load(f)
    config = transformers.AutoConfig.for_model(**written)
    if no_cache:
        config.use_cache = False
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

    return model, batch_for(name, config), name


def batch_for(name, config):
    """the batch of a class: full sequences with their mask and labels, or pictures"""
    def ids(b, t):
        return torch.zeros(b, t, dtype=torch.long)

    def pictures(b, t):
        side = config.image_size
        return {"pixel_values": torch.zeros(b, config.num_channels, side, side), "labels": torch.zeros(b, dtype=torch.long)}

    def text(b, t):
        return {"input_ids": ids(b, t), "attention_mask": torch.ones(b, t, dtype=torch.long), "labels": ids(b, t)}

    def classified(b, t):
        return {"input_ids": ids(b, t), "attention_mask": torch.ones(b, t, dtype=torch.long), "labels": torch.zeros(b, dtype=torch.long)}

    if "ImageClassification" in name:
        pictures.fixed = True
        return pictures
    return classified if "SequenceClassification" in name else text
