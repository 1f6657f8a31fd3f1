"""Holds published formulas and vramplan against a hundred traced steps.

    python3 oracle/compare/hundred.py --vramplan bin/vramplan FILE.jsonl

FILE has a row a line: {"job": the job document, "versions": the releases, "truth": {"allocated_bytes", "reserved_bytes",
"parameters"}}, as traces of oracle/ do. Of its rows those are taken that every formula is meant for: one GPU, a decoder,
AdamW, mixed precision, all weights trained; of these every n-th by id, a hundred together. The formulas get the exact
number of parameters, which they would guess otherwise.
"""
import argparse
import json
import statistics
import subprocess


def dimensions(model):
    """Layers, width and heads, of a nanoGPT or Hugging Face configuration; None for models of another shape."""
    c = model.get("nanogpt") or model.get("hf_config") or {}
    if c.get("is_encoder_decoder") or c.get("model_type") in ("bert", "roberta", "electra", "distilbert", "albert", "deberta-v2"):
        return None
    found = [next((c[k] for k in keys if isinstance(c.get(k), int)), None) for keys in (
        ("n_layer", "num_hidden_layers", "num_layers"), ("n_embd", "hidden_size"), ("n_head", "num_attention_heads"))]
    return None if None in found else found


def covered(row):
    """Whether every formula is meant for the job of a row."""
    t = row["job"]["training"]
    optimizer = t.get("optimizer", "adamw")
    name = optimizer.get("name") if isinstance(optimizer, dict) else optimizer
    return (t.get("precision", "amp-bf16").startswith("amp-") and name == "adamw" and not t.get("lora")
            and not t.get("objective") and not t.get("states") and (t.get("distributed") or {}).get("world_size", 1) == 1
            and dimensions(row["job"]["model"]) is not None)


def eleuther(row):
    """EleutherAI/cookbook, calc/calc_transformer_mem.py (calc_mem), mixed precision on one GPU: 2 + 4 + 12 bytes a
    parameter, and the activations."""
    t, (layers, width, heads) = row["job"]["training"], dimensions(row["job"]["model"])
    tokens = t["micro_batch"] * t["sequence_length"]
    mode = t.get("gradient_checkpointing", "none")
    mode = mode.get("mode") if isinstance(mode, dict) else mode
    each = 34 if mode != "none" else 34 + 5 * heads * t["sequence_length"] / width
    return 18 * row["truth"]["parameters"] + tokens * width * layers * each


def deepspeed(row):
    """DeepSpeed, runtime/zero/stage_1_and_2.py (estimate_zero2_model_states_mem_needs), on one GPU: 2 + 18 bytes a
    parameter, model states alone."""
    return 20 * row["truth"]["parameters"]


def accelerate(row):
    """accelerate, commands/estimate.py: four times the weights in float32, "Training using Adam"."""
    return 16 * row["truth"]["parameters"]


def ask(binary, rows):
    """What vramplan allocates for each row, with the releases that were traced."""
    lines = []
    for row in rows:
        job = json.loads(json.dumps(row["job"]))
        job["training"]["versions"] = {k: v.split("+")[0] for k, v in row["versions"].items() if k in ("torch", "transformers")}
        lines.append(json.dumps(job))
    done = subprocess.run([binary, "estimate", "-f", "-", "--output", "json"], input="\n".join(lines), text=True,
                          capture_output=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(rows):
        raise SystemExit(f"{len(answers)} answers to {len(rows)} jobs: {done.stderr}")
    return [a["peak"]["allocated_bytes"] if "peak" in a else None for a in answers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramplan", required=True, help="the vramplan binary")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("file")
    args = parser.parse_args()
    with open(args.file) as lines:
        rows = sorted(filter(covered, map(json.loads, lines)), key=lambda r: r["id"])
    rows = [rows[i * len(rows) // args.steps] for i in range(args.steps)] if len(rows) > args.steps else rows
    print(f"{len(rows)} steps\n")
    print("| | answered | median off | nine in ten within | worst | more than a tenth too low |\n|---|---|---|---|---|---|")
    for name, figures in (
            ("vramplan", ask(args.vramplan, rows)), ("EleutherAI's calc_transformer_mem", map(eleuther, rows)),
            ("DeepSpeed's estimate_zero2_model_states_mem_needs", map(deepspeed, rows)),
            ("accelerate estimate-memory, float32", map(accelerate, rows))):
        off = [100 * (f / r["truth"]["allocated_bytes"] - 1) for f, r in zip(figures, rows) if f is not None]
        size = sorted(map(abs, off))
        print(f"| {name} | {len(off)} | {statistics.median(size):.1f} % | {size[len(size) * 9 // 10]:.1f} % | "
              f"{max(off, key=abs):+.1f} % | {sum(o < -10 for o in off)} |")


if __name__ == "__main__":
    main()
