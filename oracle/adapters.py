#!/usr/bin/env python3
"""Count the parameters that peft trains, without a driver: models are made on the meta device.

    python oracle/adapters.py 400 --seed 7 > counted.jsonl      jobs drawn one target set at a time, with what peft trains or says
    python oracle/adapters.py --jobs jobs.ndjson > counted.jsonl     the same of jobs that somebody wrote

A line is a job with the releases that counted it, and `trained`, or `refused` where peft stops: `go run ./estimator/adapters counted.jsonl` holds the estimator
against it. Families are those of families.ndjson and the mixtures of experts below, targets some of the linear layers that the model has, of those that
transformers 4 had in its place, and of what people name besides; --mixtures draws mixtures alone. Other releases of peft come by PYTHONPATH.
"""

import argparse
import copy
import json
import logging
import random
import sys
import warnings

import peft
import torch
import transformers
from crosses import families
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

SIZES = dict(
    hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=300, max_position_embeddings=512
)
LATENT = dict(
    num_key_value_heads=4, kv_lora_rank=24, q_lora_rank=40, qk_rope_head_dim=8, v_head_dim=12, qk_nope_head_dim=16, moe_intermediate_size=40
)
ROUTED = dict(n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1)
QWEN = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=40)
MIXTURES = {
    "qwen3_moe": dict(QWEN, head_dim=16, mlp_only_layers=[1]),
    "qwen2_moe": dict(QWEN, shared_expert_intermediate_size=56),
    "olmoe": dict(num_experts=8, num_experts_per_tok=2),
    "deepseek_v2": dict(LATENT, **ROUTED, topk_method="greedy"),
    "deepseek_v3": dict(LATENT, **ROUTED),
    "gpt_oss": dict(num_local_experts=4, num_experts_per_tok=2, head_dim=16),
    "granitemoehybrid": dict(
        num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=56, layer_types=["attention"] * 3, position_embedding_type="rope"
    ),
}
OTHERS = ("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "gate_up_proj", "lm_head", "router")


def mixtures():
    known = [f for f in families() if any(key in f["config"] for key in ("num_experts_per_tok", "moe_k", "moe_topk"))]
    named = [dict(name=name, config=dict(SIZES, model_type=name, architectures=[CAUSAL[name]], **own)) for name, own in MIXTURES.items() if name in CAUSAL]
    return known + named


def made(config):
    settings = transformers.CONFIG_MAPPING[config["model_type"]].from_dict(dict(config))
    named = (config.get("architectures") or [CAUSAL[config["model_type"]]])[0]
    with torch.device("meta"):
        return getattr(transformers, named)(settings)


def draw(r, family):
    """Adapters on a family, the targets of which are drawn from the names of its layers."""
    linear = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
    names = sorted({name for name, module in made(family["config"]).named_modules() if isinstance(module, linear)})
    leaves = sorted({name.rsplit(".", 1)[-1] for name in names})
    listed = family.get("targets")
    choices = ["all-linear", r.sample(leaves, r.randint(1, min(4, len(leaves)))), list(OTHERS[1:4]) + r.sample(leaves, 1)]
    choices += [r.sample(sorted({*leaves, *OTHERS}), r.randint(1, 5))] * 2 + ([listed] if isinstance(listed, list) else [])
    lora = dict(rank=r.choice((1, 4, 8, 12)), target_modules=r.choice(choices))
    if r.random() < 0.15:
        lora["dropout"] = 0.05
    if r.random() < 0.1:
        lora["dora"] = True
    if r.random() < 0.1:
        lora["modules_to_save"] = ["lm_head"]
    return lora


def count(job):
    """What peft trains of a job, or why it does not."""
    lora = job["training"]["lora"]
    model = made(job["model"]["hf_config"])
    settings = dict(
        r=lora["rank"], lora_alpha=lora.get("alpha", 2 * lora["rank"]), target_modules=copy.deepcopy(lora["target_modules"]),
        lora_dropout=lora.get("dropout", 0.0), use_dora=lora.get("dora", False), modules_to_save=lora.get("modules_to_save"),
    )  # fmt: skip
    try:
        adapted = peft.get_peft_model(model, peft.LoraConfig(**settings))
    except (ValueError, TypeError, AttributeError, NotImplementedError) as e:
        return dict(refused=f"{type(e).__name__}: {e}".splitlines()[0][:200])
    return dict(trained=sum(p.numel() for p in adapted.parameters() if p.requires_grad))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--mixtures", action="store_true")
    parser.add_argument("--jobs")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    versions = dict(torch=torch.__version__.split("+")[0], transformers=transformers.__version__, peft=peft.__version__)
    r = random.Random(args.seed)
    if args.jobs:
        with open(args.jobs) as f:
            given = [json.loads(line) for line in f if line.strip()]
    else:
        chosen = [f for f in (mixtures() if args.mixtures else families() + mixtures()) if f["config"]["model_type"] in transformers.CONFIG_MAPPING]
        given = []
        for i in range(args.number):
            family = r.choice(chosen)
            training = dict(micro_batch=1, sequence_length=64, precision="bf16", lora=draw(r, family))
            given.append(dict(id=f"a{args.seed}-{i}-{family['name']}", job=dict(model=dict(hf_config=family["config"]), training=training)))
    for line in given:
        line["job"]["training"]["versions"] = versions
        json.dump(dict(line, **count(line["job"])), sys.stdout, separators=(",", ":"))
        print(flush=True)


if __name__ == "__main__":
    main()
