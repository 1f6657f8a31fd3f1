#!/usr/bin/env python3
"""Trace job documents on the stand-in driver.

    python trace.py jobs.ndjson --out rows.jsonl                a reference case a line: id, job, truth, versions
    python trace.py jobs.ndjson --out rows.jsonl --limits       with min_limit_bytes, three times as slow
    python trace.py jobs.ndjson --out rows.jsonl --events       id, job and every allocation and free in order
    python trace.py jobs.ndjson --out rows.jsonl --segments     id, job, what is taken from the driver, on a full card too
    python trace.py jobs.ndjson --out folder --operations       a text a job: every allocation with its operation and module

A line of jobs.ndjson is {"id": ..., "job": {...}}, the job being a document as `vramplan estimate` takes it, with
model.hf_config or model.nanogpt. Ids that the output has are left out, so that an interrupted run goes on where it stopped. $STANDIN is the folder
that driver/build.sh made for the Python that runs this.
"""

import argparse
import gc
import json
import os
import subprocess
import sys

# What of a card decides allocations: compute capability times ten, multiprocessors.
CARDS = {
    "v100-sxm2-16gb": (70, 80),
    "v100-sxm2-32gb": (70, 80),
    "t4": (75, 40),
    "a100-sxm4-40gb": (80, 108),
    "a100-sxm4-80gb": (80, 108),
    "a100-pcie-80gb": (80, 108),
    "a10g": (86, 80),
    "rtx-3060": (86, 28),
    "rtx-3090": (86, 82),
    "rtx-a6000": (86, 84),
    "rtx-4060-ti": (89, 34),
    "rtx-4070": (89, 46),
    "rtx-4090": (89, 128),
    "l4": (89, 58),
    "l40s": (89, 142),
    "h100-pcie": (90, 114),
    "h100-sxm5": (90, 132),
    "h200-sxm": (90, 132),
    "b200": (100, 148),
    "b300": (103, 148),
    "rtx-5090": (120, 170),
}


def environment(job, driver):
    """The environment of the process that traces the job."""
    capability, multiprocessors = CARDS[(job.get("gpus") or ["a100-sxm4-80gb"])[0]]
    libraries = [os.path.join(driver, name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    return dict(
        os.environ,
        LD_PRELOAD=":".join(p for p in libraries if os.path.exists(p)),
        TRITON_LIBCUDA_PATH=driver,
        STANDIN_CC=str(capability),
        STANDIN_SMS=str(multiprocessors),
        OMP_NUM_THREADS="1",
        PYTHONWARNINGS="ignore",
        **allocator(job["training"].get("allocator") or {}),
    )


def allocator(settings):
    """PYTORCH_ALLOC_CONF as a job sets it; earlier releases read the other name."""
    words = ",".join(f"{name}:{value}" for name, value in settings.items())
    return dict(PYTORCH_ALLOC_CONF=words, PYTORCH_CUDA_ALLOC_CONF=words) if words else {}


def lines(path):
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def done(args):
    if args.operations:
        return {name.removesuffix(".txt") for name in os.listdir(args.out)} if os.path.isdir(args.out) else set()
    return {row["id"] for row in lines(args.out)} if os.path.exists(args.out) else set()


def supervise(args):
    """Gives neighbours on the same card to one process each. One that dies costs one job, which is written down as such."""
    driver = os.environ.get("STANDIN", "")
    if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
        sys.exit(f"no driver in $STANDIN ({driver!r}): run driver/build.sh")
    failed = 0
    left = [c for c in lines(args.jobs) if c["id"] not in done(args)]
    while left:
        env = environment(left[0]["job"], driver)
        same = next((i for i, c in enumerate(left) if environment(c["job"], driver) != env), len(left))
        worker = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--worker"]
        given = "".join(json.dumps(c) + "\n" for c in left[:same])
        ended = subprocess.run(worker, input=given, env=env, text=True).returncode
        now = done(args)
        after = [c for c in left if c["id"] not in now]
        if ended and len(after) == len(left):
            print(f"{left[0]['id']}: the process ended with {ended}", file=sys.stderr)
            after, failed = left[1:], failed + 1
        left = after
    return 1 if failed else 0


def work(args):
    """Traces what standard input lists. Stops after a failure, since the device may not be clean."""
    import case
    import torch

    torch.set_num_threads(1)
    gc.set_threshold(700, 10, 1 << 30)  # the oldest objects are looked at where loop.clean asks for it alone
    for line in sys.stdin:
        gc.collect()
        gc.freeze()  # the libraries' own objects, which would take most of a run's time to look at
        given = json.loads(line)
        if args.operations:
            case.write_operations(given, args.out)
            continue
        if args.segments:
            row = case.segments(given)
        else:
            row = case.events(given) if args.events else case.row(given, args.limits)
        with open(args.out, "a") as out:
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
        truth = row if args.segments else row.get("truth") or {"events": len(row["events"])}
        print(
            given["id"], *(f"{k}={truth[k]}" for k in ("allocated_bytes", "reserved_bytes", "events") if k in truth), flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--segments", action="store_true")
    parser.add_argument("--operations", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    sys.exit(work(args) if args.worker else supervise(args))


if __name__ == "__main__":
    main()
