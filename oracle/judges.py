#!/usr/bin/env python3
"""Trace each job by whoever trains it: transformers' Trainer and trl's themselves, one rank of many, and a plain loop for the rest.

    STANDIN=… python judges.py jobs.ndjson --out rows.jsonl [--plain plain.ndjson]      goes on where it stopped
    python judges.py jobs.ndjson --list                                               says who judges which job, and traces nothing

`go run ./reliability/judged rows.jsonl` holds the answers against the rows. Jobs of a plain loop are trace.py's, whose rows
`go run ./estimator/accuracy` reads: --plain writes them down for it. Jobs whose trainer is not here are named and left out.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = "trace.py"
# whose batches huggingface.py makes none of: pictures, sound, and what is no model of transformers
OTHER_INPUTS = ("vit", "clip", "siglip", "whisper")
BY_KIND = {"contrastive": "embeddings.py", "diffusion": "scripts.py", "vision-language": "seeing.py"}
BY_FRAMEWORK = {"litgpt": "litgpt_trace.py", "torchtune": "torchtune_trace.py", "trl": "trainers.py"}
IN_RANKS = ("pytorch", "deepspeed", "torchtitan")
# They start transformers' Trainer from files of their own; none of their entry points is driven here.
ABSENT = ("axolotl", "llama-factory", "ms-swift", "megatron", "lightning", "llm-foundry", "nanotron")


def judge(job):
    """The file that traces the job, or None."""
    t = job["training"]
    framework = t.get("framework") or ("nanogpt" if "nanogpt" in job["model"] else "hf-trainer")
    if framework in ABSENT:
        return None
    objective = t.get("objective")
    kind = objective.get("kind") if isinstance(objective, dict) else objective
    if kind in BY_KIND:
        return BY_KIND[kind]
    if framework in BY_FRAMEWORK or kind:
        return BY_FRAMEWORK.get(framework, "trainers.py")
    d = t.get("distributed") or {}
    many = d.get("world_size", 1) > 1
    if many and (framework in IN_RANKS or any(d.get(k, 1) > 1 for k in ("tensor_parallel", "pipeline_parallel", "context_parallel"))):
        return "ranks/rank.py"
    config = job["model"].get("hf_config")
    if framework == "hf-trainer" and config and config["model_type"] not in OTHER_INPUTS:
        return "huggingface.py"
    return "ranks/rank.py" if many else PLAIN


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def trace(name, cases, out):
    """Traces cases by one judge, and adds its rows with the judge's name; of what the library itself refuses, the name alone."""
    with tempfile.TemporaryDirectory() as folder:
        jobs, rows = os.path.join(folder, "jobs.ndjson"), os.path.join(folder, "rows.jsonl")
        with open(jobs, "w") as f:
            f.writelines(json.dumps(case) + "\n" for case in cases)
        more = ["--quick"] if name == "ranks/rank.py" else []
        subprocess.run([sys.executable, os.path.join(HERE, name), jobs, "--out", rows, *more])
        traced = {row["id"]: row for row in lines(rows) if "truth" in row}
        with open(out, "a") as f:
            for case in cases:
                f.write(json.dumps(dict(traced.get(case["id"], dict(id=case["id"])), judge=name)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("--out")
    parser.add_argument("--plain")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--at-once", type=int, default=64, help="write rows down after so many jobs (64)")
    args = parser.parse_args()
    done = {row["id"] for row in lines(args.out)} if args.out else set()
    chosen = collections.defaultdict(list)
    for case in lines(args.jobs):
        if case["id"] not in done:
            chosen[judge(case["job"])].append(case)
    for case in chosen.pop(None, ()):
        print(f"{case['id']}: {case['job']['training']['framework']} is not here to judge it", file=sys.stderr)
    if not args.list:
        plain = chosen.pop(PLAIN, [])
        if args.plain:
            with open(args.plain, "w") as f:
                f.writelines(json.dumps(case) + "\n" for case in plain)
    for name, cases in sorted(chosen.items()):
        if args.list:
            print(f"{name}: {' '.join(case['id'] for case in cases)}")
            continue
        for first in range(0, len(cases), args.at_once):
            trace(name, cases[first : first + args.at_once], args.out)


if __name__ == "__main__":
    main()
