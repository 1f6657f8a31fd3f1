#!/usr/bin/env python3
"""The same jobs on a real card: what trace.py says without one, held against one.

    python card.py jobs.ndjson --out rows.jsonl                 the allocator's counters a line, as trace.py has them
    python card.py jobs.ndjson --out rows.jsonl --events        every allocation and free in order
    python card.py jobs.ndjson --out rows.jsonl --process       what the card has less of while the job runs, one job after another

No driver is preloaded and no question is answered for the device: kernels run, with weights, ids and masks that they can compute with.
Each job has a process of its own, forked from one that has imported the libraries and has not touched the card. A job that ends in an
error is a line with its message. Jobs are taken to be for the card that is there, whatever they name.
"""

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time
import types

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch  # noqa: E402

# standin is what answers for a device that computes nothing; here there is one that does.
sys.modules["standin"] = types.SimpleNamespace(padding=False)

import case  # noqa: E402
import loop  # noqa: E402
import models  # noqa: E402
import transformers  # noqa: E402, F401 (imported once, before the jobs are forked)

# How the table of GPUs names what the driver names.
NAMES = {"NVIDIA H100 80GB HBM3": "h100-sxm5", "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA H200": "h200-sxm"}
MIB = 1 << 20


def _untouched(tensor, *args, **kwargs):
    return tensor


def _prepare():
    """Weights are of the size that random ones have, and cost no more than a copy: initialising a billion on the host takes a minute."""
    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(torch.nn.init, name, _untouched)
    some = torch.randn(1 << 20) * 0.02
    build = models.build

    def filled(job):
        model, *rest = build(job)
        with torch.no_grad():
            for p in model.parameters():
                flat = p.data.view(-1)
                for at in range(0, flat.numel(), some.numel()):
                    part = flat[at : at + some.numel()]
                    part.copy_(some[: part.numel()])
        return model, *rest

    models.build = filled
    models.whole = lambda shape, below: torch.randint(min(1, below - 1), below, shape)
    models.attended = lambda shape: torch.ones(*shape, dtype=torch.long)


def _free():
    """What the driver has left on the card, by NVML, which needs no context."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).free)


def _name():
    """The card as the table of GPUs names it."""
    import pynvml

    pynvml.nvmlInit()
    name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
    pynvml.nvmlShutdown()
    return NAMES[name]


def process(given):
    """What the process takes of the card: its context alone, with cuBLAS, and with the kernels of the steps, less what the allocator
    reserves then; and the counters. Nothing else may run on the card."""
    job, before = given["job"], _free()
    torch.cuda.init()
    torch.empty(1, device="cuda")
    context = before - _free() - torch.cuda.memory_reserved()
    half = torch.ones(64, 64, device="cuda", dtype=torch.bfloat16)
    (half @ half).sum().item()
    del half
    product = before - _free() - torch.cuda.memory_reserved()
    loop.clean()
    counted = loop.run(job)
    torch.cuda.synchronize()
    outside = before - _free() - torch.cuda.memory_reserved()
    loop.clean()
    cleaned = before - _free() - torch.cuda.memory_reserved()
    truth = dict(counted, context_bytes=context, context_with_matmul_bytes=product, outside_allocator_bytes=outside)
    truth["outside_after_clean_bytes"] = cleaned
    return dict(id=given["id"], job=case.named(job), truth=truth, versions=case.versions())


def _one(given, args, out):
    started = time.time()
    try:
        torch.manual_seed(0)
        if args.process:
            row = process(given)
        else:
            torch.cuda.init()
            torch.empty(1, device="cuda")
            row = case.events(given) if args.events else case.row(given, args.limits)
        row["device"] = torch.cuda.get_device_name(0)
    except Exception as e:  # the message is the result: what a card says of a job that does not fit is read, too
        row = dict(id=given["id"], job=given["job"], error=f"{type(e).__name__}: {e}")
    row["seconds"] = round(time.time() - started, 1)
    text = json.dumps(row, separators=(",", ":")) + "\n"
    with open(out, "a") as f:
        f.write(text)
    sys.stdout.flush()
    os._exit(0)


def _all(jobs, args):
    """A process for each, args.workers at a time; what came of those that wrote no line."""
    left, running, told, fork = list(jobs), [], [], multiprocessing.get_context("fork")
    end = time.time() + args.until
    while left or running:
        while left and len(running) < (1 if args.process else args.workers) and time.time() < end:
            given = left.pop(0)
            child = fork.Process(target=_one, args=(given, args, args.out))
            child.start()
            running.append((given["id"], child, time.time() + args.seconds))
        if left and time.time() >= end:
            told += [f"{given['id']}: no time left" for given in left]
            left = []
        time.sleep(0.02)
        for entry in list(running):
            name, child, last = entry
            if child.is_alive() and time.time() < last:
                continue
            if child.is_alive():
                child.kill()
            child.join()
            running.remove(entry)
            if child.exitcode:
                told.append(f"{name}: ended with {child.exitcode}")
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--process", action="store_true")
    parser.add_argument("--workers", type=int, default=1, help="jobs at a time; one where the process is measured")
    parser.add_argument("--seconds", type=int, default=120, help="the longest that a job may take")
    parser.add_argument("--until", type=int, default=500, help="no job begins later than so many seconds from now")
    args = parser.parse_args()
    torch.set_num_threads(1)
    _prepare()
    gc.freeze()
    with open(args.jobs) as f:
        jobs = [json.loads(line) for line in f if line.strip()]
    card = _name()
    told = _all([dict(given, job=dict(given["job"], gpus=[card])) for given in jobs], args)
    print("\n".join(told), file=sys.stderr)
    print(len(jobs), "jobs,", len(told), "without a line")


if __name__ == "__main__":
    main()
