#!/usr/bin/env python3
"""Draw jobs of transformers' Trainer in which one thing is otherwise: a key of the configuration, the modules that get adapters, a switch.

    python flips.py 1000 --seed 39 > flips.ndjson

The same number and seed draw the same jobs, and the first of a larger number are those of a smaller one. A family is a line of
families.ndjson whose batches huggingface.py makes; its configuration is written out as the library writes it, so that every key that it has
may be changed. Needs transformers; nothing is built.
"""

import argparse
import copy
import json
import random

import crosses
import judges

ACTIVATIONS = ("gelu", "gelu_new", "relu", "relu2", "silu", "gelu_pytorch_tanh")
# Keys that no module reads, those that say what the model is, and ids of tokens.
SKIPPED = {"model_type", "architectures", "transformers_version", "dtype", "torch_dtype", "id2label", "label2id", "problem_type", "return_dict",
           "is_encoder_decoder", "chunk_size_feed_forward", "initializer_range", "vocab_size", "use_cache", "is_decoder", "num_labels"}  # fmt: skip
LAYERS = {"num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers", "n_layers"}
SWITCHES = dict(
    precision=("bf16", "fp32", "amp-bf16", "amp-fp16"),
    optimizer=tuple({"name": n} for n in ("sgd", "adamw", "adafactor", "rmsprop", "adagrad")),
    gradient_checkpointing=("none", "full", dict(mode="full", reentrant=True), dict(mode="full", reentrant=False)),
    gradient_accumulation=(2, 3),
    attention=("eager", "sdpa"),
    attention_mask=("explicit",),
    clip_grad_norm=(False,),
    sequence_length=(1, 7, 129, 500),
    micro_batch=(1, 3, 8),
    evaluation=(dict(), dict(micro_batch=1), dict(micro_batch=5, keep_logits=True)),
    states=(dict(weights="bf16"), dict(weights="fp32")),
    dropout=(0.0, 0.1),
)


def written(config):
    """The configuration as the library writes it, every key of it; one of its own is what is drawn from."""
    import transformers

    given = transformers.AutoConfig.for_model(**config)
    whole = json.loads(json.dumps(given.to_dict(), default=str))
    return {k: v for k, v in whole.items() if not k.startswith("_")} | config


def other(r, key, value):
    """A value of the key that is otherwise, or None."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and ("act" in key and value in ACTIVATIONS):
        return r.choice([a for a in ACTIVATIONS if a != value])
    if isinstance(value, int) and not key.endswith("_id") and "position" not in key:
        return value + 1 if key in LAYERS else r.choice([v for v in (value // 2, value * 2, 1) if v and v != value])
    if isinstance(value, float) and ("drop" in key or key.endswith("_factor")):
        return 0.1 if value == 0 else 0.0
    return None


def targets(r, family):
    """Modules for adapters, by the last parts of their names in the class itself."""
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(**family["config"])
    with torch.device("meta"):
        model = getattr(transformers, family["config"]["architectures"][0])(config)
    names = sorted({n.split(".")[-1] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)} - {"lm_head"})
    if r.random() < 0.2 or not names:
        return "all-linear"
    return sorted(r.sample(names, r.randint(1, len(names))))


def draw(r, families):
    """A job and its name."""
    family = r.choice(families)
    config = family["config"]
    training = dict(
        framework="hf-trainer", micro_batch=2, sequence_length=128, precision=r.choice(("amp-bf16", "amp-bf16", "bf16")),
        optimizer=dict(name="adamw", implementation="fused"),
    )  # fmt: skip
    if "decoder_start_token_id" in config or config["model_type"] in ("t5", "mt5", "bart", "mbart"):
        training["target_sequence_length"] = 64
    kind = r.choice(("key", "key", "key", "target", "switch", "switch"))
    if kind == "key":
        whole = written(config)
        changes = {k: other(r, k, v) for k, v in sorted(whole.items()) if k not in SKIPPED}
        changes = {k: v for k, v in changes.items() if v is not None}
        key = r.choice(sorted(changes))
        config = dict(whole, **{key: changes[key]})
        name = f"{key}={changes[key]}"
    elif kind == "target":
        lora = dict(rank=8, target_modules=targets(r, family), dropout=r.choice((0.0, 0.0, 0.05)))
        training["lora"] = lora
        name = "+".join(lora["target_modules"]) if isinstance(lora["target_modules"], list) else lora["target_modules"]
        name += "~drop" if lora["dropout"] else ""
    else:
        key = r.choice(sorted(SWITCHES))
        training[key] = copy.deepcopy(r.choice(SWITCHES[key]))
        name = f"{key}={json.dumps(training[key])}"
    job = dict(model=dict(hf_config=config), training=training, gpus=[r.choice(("a100-sxm4-80gb", "h100-sxm5"))])
    return f"{kind}:{family['name']}~{name}~{training['precision']}", job


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=39)
    parser.add_argument("--versions", default="{}", help="releases, as training.versions says them")
    args = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    r = random.Random(args.seed)
    families = [f for f in crosses.families() if f["config"]["model_type"] not in judges.OTHER_INPUTS]
    drawn = {}
    while len(drawn) < args.count:
        name, job = draw(r, families)
        job["training"]["versions"] = json.loads(args.versions)
        if name not in drawn:
            drawn[name] = job
            print(json.dumps(dict(id=name, job=job)), flush=True)


if __name__ == "__main__":
    main()
