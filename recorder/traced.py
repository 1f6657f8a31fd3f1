"""Records the modules of traced jobs, and puts the recordings in the places of the modules: for estimator/crosses to hold against what was traced.

    python oracle/trace.py oracle/strangers.ndjson --out events.jsonl --events
    python recorder/traced.py events.jsonl --out recorded.jsonl --recordings folder
    go run ./estimator/crosses recorded.jsonl

Recordings that the folder has are taken as they are. A job's module may have "length": N, at which alone it is recorded.
"""

import argparse
import functools
import importlib.util
import json
import os
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import torch  # noqa: E402

from vramplan_record import record  # noqa: E402

PRECISIONS = {"amp-bf16": "amp", "amp-fp16": "amp", "bf16": "half", "fp16": "half", "fp32": "fp32", "tf32": "fp32"}


@functools.cache
def functions(path):
    spec = importlib.util.spec_from_file_location("own_" + os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def precisions(training):
    kind = PRECISIONS[training.get("precision", "amp-bf16")]
    return (kind, "mixed") if kind == "amp" and training.get("lora") else (kind,)


def recorded(job, folder):
    """the recording of a job's module in the precision that the job needs, made where the folder has none"""
    named, training = job["model"]["module"], job["training"]
    kinds, one = precisions(training), training["micro_batch"] == 1
    half = torch.float16 if training.get("precision", "").endswith("fp16") else torch.bfloat16
    length = named.get("length", "sequence_length" in training)
    what = [os.path.basename(named["file"])[:-3], named["build"], *kinds, *([str(length)] if length is not True else []), *(["one"] if one else []),
            *(["float16"] if half == torch.float16 else [])]
    path = os.path.join(folder, "-".join(what) + ".json")
    if not os.path.exists(path):
        module = functions(named["file"])
        loss = getattr(module, named["loss"]) if named.get("loss") else None
        made = record(getattr(module, named["build"]), getattr(module, named["inputs"]), loss, name=named["build"], precisions=kinds, length=length,
                      half=half, one_sample=one, evaluate=False)
        with open(path + ".part", "w") as f:
            json.dump(made, f)
        os.replace(path + ".part", path)
    with open(path) as f:
        return json.load(f)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events")
    parser.add_argument("--out", required=True)
    parser.add_argument("--recordings", required=True, metavar="FOLDER")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    os.makedirs(args.recordings, exist_ok=True)
    refused = 0
    with open(args.events) as traced, open(args.out, "w") as out:
        for line in traced:
            row = json.loads(line)
            job = row["job"]
            try:
                made = recorded(job, args.recordings)
            except Exception as e:  # whatever a module does that cannot be written down
                refused += 1
                print(f"{row['id']}: refused: {type(e).__name__}: {' '.join(str(e).split())[:300]}", flush=True)
                continue
            job["model"] = {"recorded": made}
            if made["sequence"]:
                job["training"].pop("sequence_length", None)
            job["training"]["versions"] = {"torch": made["versions"]["torch"]}
            out.write(json.dumps(row) + "\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
