"""Records the models of the reference cases, for estimator/accuracy to hold against the families that were described by hand.

    go run ./estimator/accuracy -to-record > wanted.ndjson
    python recorder/families.py wanted.ndjson --out folder
    go run ./estimator/accuracy -recordings folder

What the folder has is left as it is, so that an interrupted run goes on where it stopped.
"""

import argparse
import json
import os
import sys
import warnings

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from vramplan_record import huggingface, record  # noqa: E402
from vramplan_record.recording import BEYOND, below  # noqa: E402


def nanogpt(wanted):
    """the module that oracle/ traces for nanoGPT's jobs, and its batch"""
    sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
    import models

    given = {"bias": False, "dropout": 0.0, **wanted["nanogpt"]}

    def batch(b, t):
        return torch.zeros(b, t, dtype=torch.long), torch.zeros(b, t, dtype=torch.long)

    batch.longest, batch.window = given["block_size"], None
    return lambda: models.NanoGPT(given, wanted.get("attention", "sdpa"), None), batch, "nanogpt"


def traced_experts(config):
    """Mixtral's mixture before transformers 5 asks the card which experts have tokens: traces have what oracle/ puts in its place"""
    if config["model_type"] == "mixtral":
        sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
        import models

        models._balanced_mixtral()


def make(wanted, length=None, beyond=False, half=torch.bfloat16, one=False):
    if wanted.get("nanogpt"):
        model, batch, name = nanogpt(wanted)
        source = "oracle.models.NanoGPT"
    else:
        config = {k: v for k, v in wanted["config"].items() if k not in ("dtype", "torch_dtype", "quantization_config", "auto_map")}
        traced_experts(config)
        model, batch, name = huggingface.from_config(config, attention=wanted.get("attention") or None, no_cache=not wanted["cache"],
                                                     target=wanted.get("target_tokens"), padded=wanted["padded"], beyond=beyond)
        source = "transformers." + name
    length = False if getattr(batch, "fixed", False) else length or below(batch.longest, batch.window)
    return record(model, batch, name=name, source=source, precisions=wanted["precisions"], length=length, evaluate=False, half=half, one_sample=one)


def write(path, made):
    with open(path + ".part", "w") as f:
        json.dump(made, f)
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted")
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", help="model types, with commas between them")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    os.makedirs(args.out, exist_ok=True)
    with open(args.wanted) as f:
        for line in f:
            wanted = json.loads(line)
            kind = wanted["config"]["model_type"] if wanted.get("config") else "nanogpt"
            if args.only and kind not in args.only.split(","):
                continue
            path = os.path.join(args.out, wanted["id"])
            if os.path.exists(path + ".json") or os.path.exists(path + ".refused"):
                continue
            refused, window = None, (wanted.get("config") or {}).get("sliding_window") or 0
            longer = [n for n in wanted["tokens"] if n > window >= BEYOND[0]]
            try:
                for n in longer:
                    write(f"{path}-{n}.json", make(wanted, beyond=True))
                if len(longer) < len(wanted["tokens"]):
                    write(path + ".json", make(wanted))
                    if wanted.get("one_sample"):
                        write(path + "-one.json", make(wanted, one=True))
                    if wanted.get("float16"):  # where some modules do otherwise
                        write(path + "-float16.json", make(wanted, half=torch.float16))
            except Exception as e:  # whatever transformers' own code does there
                refused = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
            if refused and not wanted.get("nanogpt"):
                try:
                    for n in wanted["tokens"]:
                        write(f"{path}-{n}.json", make(wanted, n))
                    print(kind, wanted["id"], "one length at a time, as", refused, flush=True)
                except Exception:
                    print(kind, wanted["id"], "refused:", refused, flush=True)
            else:
                print(kind, wanted["id"], "refused: " + refused if refused else "", flush=True)
            if refused:
                with open(path + ".refused", "w") as out:
                    out.write(refused + "\n")


if __name__ == "__main__":
    main()
