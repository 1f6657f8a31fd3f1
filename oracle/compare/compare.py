"""Asks vramplan, fitcheck-llm, vramcalc and accelerate estimate-memory five jobs, beside what PyTorch allocated.

Standard library only; run.sh installs the tools and calls this. Prints the commands with what came back, then the table.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
TRUTH = Path(__file__).resolve().parents[2] / "estimator" / "accuracy" / "testdata"


@dataclass(frozen=True)
class Job:
    """A traced row, and how each tool is asked for it: the flags nearest to what was traced."""

    title: str
    file: str
    row: str
    name: str  # the model's name, under which its config.json is laid down
    fitcheck: str
    vramcalc: str


JOBS = [
    Job("GPT-2 124M, nanoGPT, 16 × 1024, accumulation, amp-bf16", "traced.jsonl",
        "nano124m-b16x1024-amp_bf16-adamw_fused-accum=4", "nanogpt/train_gpt2",
        "--no-lora --batch-size 16 --seq-len 1024 --grad-accum 4 --precision bf16 --flash-attn",
        "--train --batch 16 --seq 1024 --precision amp"),
    Job("Llama-3-8B, LoRA r = 16 on q and v, bf16 base, 1 × 2048", "lora.jsonl",
        "llama-3-8b-lora-b1x2048-amp_bf16-adamw_fused-base_dtype=bfloat16-lora=r16", "meta-llama/Meta-Llama-3-8B",
        "--lora-r 16 --lora-targets q_proj,v_proj --batch-size 1 --seq-len 2048 --precision bf16 --flash-attn",
        "--train --lora 16 --batch 1 --seq 2048 --precision pure"),
    Job("Qwen2-1.5B, all weights, 2 × 1024, amp-bf16", "traced.jsonl",
        "qwen2-1.5b-b2x1024-amp_bf16-adamw_fused", "Qwen/Qwen2-1.5B",
        "--no-lora --batch-size 2 --seq-len 1024 --precision bf16 --flash-attn",
        "--train --batch 2 --seq 1024 --precision amp"),
    Job("Llama-3-8B, all weights, checkpointing, 4 × 2048, pure bf16", "traced.jsonl",
        "llama-3-8b-b4x2048-pure_bf16-adamw_fused-ckpt", "meta-llama/Meta-Llama-3-8B",
        "--no-lora --batch-size 4 --seq-len 2048 --precision bf16 --optimizer-dtype bf16 "
        "--grad-checkpoint --flash-attn",
        "--train --batch 4 --seq 2048 --precision pure --grad-checkpoint"),
    Job("BERT base, masked tokens, 8 × 512, amp-bf16", "bert.jsonl",
        "bert-base-b8x512-amp_bf16-adamw_fused", "google-bert/bert-base-uncased",
        "--no-lora --batch-size 8 --seq-len 512 --precision bf16 --flash-attn",
        "--train --batch 8 --seq 512 --precision amp"),
]


def row_of(job):
    """The traced row of a job."""
    for line in (TRUTH / job.file).read_text().splitlines():
        row = json.loads(line)
        if row["id"] == job.row:
            return row
    raise SystemExit(f"{job.file} has no row {job.row}")


def config_of(row):
    """The row's model as a config.json; nanoGPT's fields by the names that transformers gives them."""
    model = row["job"]["model"]
    if "hf_config" in model:
        return model["hf_config"]
    nano = model["nanogpt"]
    return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": nano["n_layer"],
            "n_head": nano["n_head"], "n_embd": nano["n_embd"], "n_positions": nano["block_size"],
            "n_ctx": nano["block_size"], "vocab_size": nano["vocab_size"], "tie_word_embeddings": True}


def lay_down(config, name, work):
    """Writes config.json once as a plain directory, once as the Hub's local cache, where fitcheck looks offline."""
    text = json.dumps(config, indent=1)
    plain = work / "models" / name.replace("/", "--")
    plain.mkdir(parents=True, exist_ok=True)
    (plain / "config.json").write_text(text)
    cached = work / "hub" / ("models--" + name.replace("/", "--"))
    (cached / "snapshots" / "0").mkdir(parents=True, exist_ok=True)
    (cached / "refs").mkdir(exist_ok=True)
    (cached / "refs" / "main").write_text("0")
    (cached / "snapshots" / "0" / "config.json").write_text(text)
    return plain


def ask(command, work, stdin=None):
    """Runs a command and prints it; returns its exit code and both of its outputs."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(work / "hub"), "TRANSFORMERS_VERBOSITY": "error"}
    short = [Path(command[0]).name, *(a.replace(str(work) + "/", "") for a in command[1:])]
    print("$", shlex.join(short))
    done = subprocess.run(command, env=env, input=stdin, capture_output=True, text=True, check=False)
    for line in done.stderr.strip().splitlines()[-3:]:
        print("  stderr:", line)
    return done


def refusal(done):
    """The last line that a tool wrote when it did not answer."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "no answer: " + (lines[-1] if lines else f"exit {done.returncode}")


def show(mib, truth):
    return f"{mib:,.0f} ({100 * (mib - truth) / truth:+.1f} %)"


def ask_vramplan(args, row, truth):
    document = json.loads(json.dumps(row["job"]))
    document["training"]["versions"] = {k: row["versions"][k].split("+")[0] for k in ("torch", "transformers")
                                        if k in row["versions"]}
    done = ask([args.vramplan, "estimate", "-f", "-", "--output", "json"], args.work, json.dumps(document))
    if done.returncode:
        return refusal(done), ""
    peak = json.loads(done.stdout)["peak"]
    print(f"  {json.dumps(peak)}")
    return show(peak["allocated_bytes"] / MIB, truth[0]), show(peak["reserved_bytes"] / MIB, truth[1])


def ask_fitcheck(args, job, truth):
    done = ask([args.tools + "/fitcheck", job.name, *job.fitcheck.split(), "--gpu", "a100-80", "--json"], args.work)
    if done.returncode not in (0, 1) or not done.stdout.lstrip().startswith("{"):
        return refusal(done), ""
    memory = json.loads(done.stdout)["memory_mib"]
    print("  " + json.dumps(memory))
    return show(memory["total"] - memory["overhead"], truth[0]), show(memory["total"], truth[1])


def ask_vramcalc(args, job, plain, truth):
    done = ask([args.tools + "/vramcalc", str(plain), *job.vramcalc.split(), "--json"], args.work)
    if done.returncode:
        return refusal(done), ""
    answer = json.loads(done.stdout)["estimate"]
    print("  " + json.dumps({k: v for k, v in answer.items() if k != "params"}))
    return show(answer["total"] / MIB, truth[0]), show((answer["total"] + answer["overhead"]) / MIB, truth[1])


def ask_accelerate(args, job, plain, truth):
    offline = str(Path(__file__).with_name("accelerate_offline.py"))
    done = ask([args.torch, offline, str(plain), "--dtypes", "float32", "float16"], args.work)
    print(done.stdout)
    said = []
    for dtype in ("float16", "float32"):
        found = re.search(rf"│\s*{dtype}\s*│[^│]*│[^│]*│\s*([\d.]+) ([KMG])B\s*│", done.stdout)
        if not found:
            return refusal(done), ""
        said.append(dtype + " " + show(float(found[1]) * {"K": 1 / 1024, "M": 1, "G": 1024}[found[2]], truth[0]))
    return ", ".join(said), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="where the configurations are written")
    parser.add_argument("--tools", required=True, help="the bin directory with fitcheck and vramcalc")
    parser.add_argument("--torch", required=True, help="a Python with accelerate, torch and transformers")
    parser.add_argument("--vramplan", required=True, help="the vramplan binary")
    args = parser.parse_args()
    table = []
    for job in JOBS:
        print(f"\n== {job.title}\n{job.file}: {job.row}")
        row = row_of(job)
        truth = (row["truth"]["allocated_bytes"] / MIB, row["truth"]["reserved_bytes"] / MIB)
        plain = lay_down(config_of(row), job.name, args.work)
        table.append((job.title, "**PyTorch, traced**", f"**{truth[0]:,.0f}**", f"**{truth[1]:,.0f}**"))
        table.append(("", "fitcheck-llm", *ask_fitcheck(args, job, truth)))
        table.append(("", "vramcalc", *ask_vramcalc(args, job, plain, truth)))
        table.append(("", "accelerate", *ask_accelerate(args, job, plain, truth)))
        table.append(("", "vramplan", *ask_vramplan(args, row, truth)))
    print("\n== the command itself, without the Hub")
    ask([str(Path(args.torch).with_name("accelerate")), "estimate-memory", JOBS[1].name], args.work)
    print("\n| job | | allocated, MiB | reserved, MiB |\n|---|---|---|---|")
    for cells in table:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
