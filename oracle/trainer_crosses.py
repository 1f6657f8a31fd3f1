#!/usr/bin/env python3
"""Draw jobs of trl's trainers, for trainers.py.

    python trainer_crosses.py 40 --seed 7 --trl 1.16.0 > jobs.ndjson

A job is a decoder of decoders.ndjson, which has the widths of a published model and a few of its layers, a trainer and one value of each of
its switches. The same number and seed draw the same jobs; --only takes trainers by name.
"""

import argparse
import json
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))
PRECISIONS = ("amp-bf16", "amp-bf16", "amp-bf16", "bf16", "fp32", "amp-fp16")
OPTIMIZERS = (
    *(dict(name="adamw", implementation=i) for i in ("fused", "fused", "foreach")),
    dict(name="sgd"),
    dict(name="adafactor"),
)
CHECKPOINTING = ("full", "full", "none", dict(mode="full", reentrant=True), None)
# What each release is, and the trainers that it has.
STACKS = {
    "0.26.2": dict(torch="2.9.1", transformers="4.57.6", trl="0.26.2"),
    "1.16.0": dict(torch="2.15.0", transformers="5.23.0", trl="1.16.0"),
}
KINDS = ("sft", "sft", "dpo", "dpo", "orpo", "cpo", "simpo", "kto", "reward", "gkd", "grpo", "rloo")


def decoders():
    with open(os.path.join(HERE, "decoders.ndjson")) as f:
        return [json.loads(line) for line in f]


def lengths(r):
    return dict(prompt_tokens=r.choice((64, 128, 200)), completion_tokens=r.choice((64, 128, 250, 384)))


def sft(r, training, new):
    training["sequence_length"] = r.choice((256, 384, 512, 1000))
    o = r.choice(({}, {}, dict(packing=True), dict(packing=True, packing_strategy="wrapped"), dict(padding_free=True)))
    return dict(o, **r.choice(({}, {}, dict(loss_type=["dft"])) if new else ({},)))


def dpo(r, training, new):
    o = lengths(r)
    kind = r.choice((None, None, "precomputed"))
    if kind:
        o["reference"] = kind
    losses = ("ipo", "hinge", "robust", "exo_pair", "apo_down", "apo_zero", "bco_pair", "nca_pair", "sppo_hard", "aot", "discopop")
    loss = r.choice((None, *losses, ["sigmoid", "sft"]))
    if loss:
        o["loss_type"] = loss if isinstance(loss, list) else [loss]
    if not new and r.random() < 0.2:
        o[r.choice(("use_logits_to_keep", "padding_free"))] = True
    return o


def pairs(r, training, new):
    return lengths(r)


def kto(r, training, new):
    o = lengths(r)
    training["micro_batch"] = max(2, training["micro_batch"])
    if r.random() < 0.3:
        o["loss_type"] = ["apo_zero_unpaired"]
    if r.random() < 0.3:
        o["reference"] = "precomputed"
    return o


def reward(r, training, new):
    training["sequence_length"] = r.choice((256, 384, 512))
    return {}


def gkd(r, training, new):
    training["sequence_length"] = r.choice((256, 384, 512))
    return dict(beta=r.choice((0.5, 0.0, 1.0)))


def grpo(r, training, new):
    o = dict(prompt_tokens=r.choice((64, 128)), completion_tokens=r.choice((16, 32, 48)), num_generations=r.choice((2, 4)))
    training["micro_batch"] = r.choice((4, 8))
    if r.random() < 0.5:
        o["beta"] = 0.04
    if r.random() < 0.25:
        o["num_iterations"] = 2
    if r.random() < 0.25:
        o["loss_type"] = [r.choice(("grpo", "dapo", "dr_grpo", "bnpo", "cispo"))]
    return o


def rloo(r, training, new):
    o = grpo(r, training, new)
    o.pop("loss_type", None)
    return o


DRAWS = dict(sft=sft, dpo=dpo, orpo=pairs, cpo=pairs, simpo=pairs, kto=kto, reward=reward, gkd=gkd, grpo=grpo, rloo=rloo)


def draw(r, kinds, trl):
    family, kind, precision = r.choice(decoders()), r.choice(kinds), r.choice(PRECISIONS)
    training = dict(
        framework="trl",
        micro_batch=r.choice((1, 2, 3, 4)),
        precision=precision,
        gradient_accumulation=r.choice((1, 1, 2)),
        optimizer=r.choice(OPTIMIZERS),
    )
    if checkpointing := r.choice(CHECKPOINTING):
        training["gradient_checkpointing"] = checkpointing
    if precision == "amp-bf16" and r.random() < 0.5:
        training["states"] = dict(weights="bf16")
    if r.random() < 0.4:
        targets = r.choice((family["targets"], "all-linear"))
        training["lora"] = dict(rank=r.choice((8, 16, 64)), target_modules=targets, dropout=r.choice((0.0, 0.05)))
        if r.random() < 0.25:
            training["lora"].update(base_precision=r.choice(("nf4", "nf4", "int8")))
    if r.random() < 0.2:
        training["evaluation"] = dict(micro_batch=r.choice((1, 4, 8)))
    if r.random() < 0.1:
        training["clip_grad_norm"] = False
    objective = DRAWS[kind](r, training, trl[0] != "0")
    padded = kind in ("sft", "dpo", "orpo", "cpo", "reward") and not {"packing", "padding_free"} & set(objective)
    if r.random() < 0.15 and padded:
        training["attention_mask"] = "explicit"
    if kind in ("kto", "grpo", "rloo") and training.get("evaluation"):  # several completions of a prompt
        training["evaluation"]["micro_batch"] = 8
    if kind == "gkd":
        objective["teacher"] = dict(hf_config=family["config"])
    if training["precision"] == "amp-fp16" and (training.get("lora") or {}).get("base_precision"):
        del training["lora"]["base_precision"]  # whose adapters no scaler takes
    if training["precision"] == "amp-fp16" and training.get("states"):
        del training["states"]
    training.update(objective=dict(kind=kind, **objective), versions=STACKS[trl])
    return f"{kind}-{family['name']}", dict(model=dict(hf_config=family["config"]), training=training, gpus=["a100-sxm4-80gb"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trl", default="1.16.0", choices=STACKS)
    parser.add_argument("--only", action="append", default=[])
    args = parser.parse_args()
    r = random.Random(args.seed)
    for i in range(args.number):
        name, job = draw(r, args.only or KINDS, args.trl)
        print(json.dumps(dict(id=f"t{args.trl.split('.')[0]}-{args.seed}-{i}-{name}", job=job)))


if __name__ == "__main__":
    main()
