#!/usr/bin/env python3
"""Draw crosses of families and recipes, as jobs for trace.py.

    python crosses.py 40 --seed 7 > crosses.ndjson

A family is a line of families.ndjson, a recipe one value of each axis below. The same number and seed draw the same jobs; the
first jobs of a larger number are those of a smaller one. --only takes families by the beginning of their names, --card cards of
trace.py in place of those below. --wide adds axes of what is rarer: dropout, sequences longer than windows, DoRA, modules that are
trained whole, evaluations, more optimizers and cards.
"""

import argparse
import json
import os
import random

PRECISIONS = ("amp-bf16", "amp-bf16", "amp-fp16", "bf16", "fp32")
OPTIMIZERS = (
    *(dict(name="adamw", implementation=i) for i in ("fused", "foreach", "for-loop")),
    *(dict(name="adafactor", implementation=i) for i in ("transformers", "torch")),
    *(dict(name=n) for n in "sgd sgd-momentum adamw-8bit rmsprop adagrad nadam radam adamax adadelta muon".split()),
)
CHECKPOINTING = (None, None, "full", dict(mode="full", reentrant=True), dict(mode="full", reentrant=False))
CARDS = ("a100-sxm4-80gb", "a100-sxm4-80gb", "h100-sxm5", "b200", "rtx-4090", "t4")
WIDE_CARDS = (*CARDS, "v100-sxm2-16gb", "l4", "h200-sxm", "b300", "rtx-5090")
WIDE_OPTIMIZERS = (
    *OPTIMIZERS,
    *(dict(name=n, implementation=i) for n in ("adam", "amsgrad") for i in ("fused", "foreach", "for-loop")),
    *(dict(name=n, implementation="fused") for n in ("sgd", "sgd-momentum")),
)
HEADS = ("sequenceclassification", "tokenclassification")
FRAMEWORKS = ("hf-trainer", "hf-trainer", "pytorch", "accelerate")


def families():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "families.ndjson")) as f:
        return [json.loads(line) for line in f]


def adapters(r, family, precision):
    targets = r.choice((family["targets"], family["targets"], "all-linear"))
    lora = dict(rank=8, target_modules=targets, dropout=r.choice((0.0, 0.05)))
    if precision.startswith("amp-") and r.random() < 0.25:
        lora["base_precision"] = "fp32"
    return lora


def widen(r, family, training):
    """What is rarer, put into a training that was drawn."""
    if r.random() < 0.35:
        training["optimizer"] = r.choice(WIDE_OPTIMIZERS)
    if r.random() < 0.3:
        training["dropout"] = r.choice((0.1, dict(attention=0.1), dict(hidden=0.1), 0.0))
    lengths = family["config"].get("max_position_embeddings"), family["config"].get("n_positions")
    if "sequence_length" in training and r.random() < 0.3:
        training["sequence_length"] = min(n for n in (*lengths, r.choice((1, 13, 511, 777, 1024, 1500))) if n)
    lora = training.get("lora")
    if lora and r.random() < 0.35:
        lora["dora"] = True
    head = "lm_head" if "q_proj" in family.get("targets", ()) else "classifier" if family["name"].endswith(HEADS) else None
    if lora and head and r.random() < 0.3:
        lora["modules_to_save"] = [head]
    if family.get("eager") and r.random() < 0.3:
        training.pop("attention")  # what newer releases of transformers choose by themselves
    if r.random() < 0.25:
        training["evaluation"] = r.choice((dict(), dict(micro_batch=1), dict(micro_batch=8), dict(micro_batch=5, keep_logits=True)))


def draw(r, chosen, cards=CARDS, wide=False):
    """A job, and what it is called."""
    family = r.choice(chosen)
    config, precision = dict(family["config"]), r.choice(PRECISIONS)
    training = dict(
        micro_batch=r.choice((1, 2, 3, 4)),
        sequence_length=r.choice((64, 77, 128, 200, 256, 500)),
        gradient_accumulation=r.choice((1, 1, 1, 2)),
        precision=precision,
        optimizer=r.choice(OPTIMIZERS),
        framework=r.choice(FRAMEWORKS),
    )
    lengths = (config.get("max_position_embeddings"), config.get("max_target_positions"), 77 if family["name"] == "clip" else None)
    training["sequence_length"] = min(n for n in (*lengths, training["sequence_length"]) if n)
    if family["name"] == "vit":
        del training["sequence_length"]
    checkpointing, eager, padded, adapted = r.choice(CHECKPOINTING), r.random() < 0.25, r.random() < 0.15, r.random() < 0.35
    if checkpointing:
        training["gradient_checkpointing"] = checkpointing
    if eager or family.get("eager"):  # what has no other attention in transformers
        training["attention"] = "eager"
    if padded and family["name"] != "vit":
        training["attention_mask"] = "explicit"
    if adapted and "targets" in family:
        training["lora"] = adapters(r, family, precision)
    if r.random() < 0.15:
        training["clip_grad_norm"] = False
    card = r.choice(cards)
    if wide:
        widen(r, family, training)
    return family["name"], dict(model=dict(hf_config=config), training=training, gpus=[card])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--card", action="append", default=[])
    parser.add_argument("--wide", action="store_true")
    args = parser.parse_args()
    r = random.Random(args.seed)
    chosen = [f for f in families() if not args.only or f["name"].startswith(tuple(args.only))]
    for i in range(args.number):
        name, job = draw(r, chosen, args.card or (WIDE_CARDS if args.wide else CARDS), args.wide)
        print(json.dumps(dict(id=f"x{args.seed}-{i}-{name}", job=job)))


if __name__ == "__main__":
    main()
