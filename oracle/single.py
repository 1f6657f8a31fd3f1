"""The command line of a tracer that needs no Trainer: cases, or texts of every allocation and free."""

import argparse
import json
import os
import sys
import traceback

import case
import loop
import passes
import recording
import torch


def write_events(run, given, folder, names):
    """The events of an undisturbed run, named by a second one, which a compiled model would not survive."""
    plain = recording.Recorder(operations=False)
    run(given["job"], plain)
    signed = plain.finish().signed()
    of = [""] * len(signed)
    if names:
        loop.clean()
        named = recording.Recorder(operations=True)
        run(given["job"], named)
        of = case.aligned(signed, plain.names(), named.finish().signed(), named.names())
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, given["id"] + ".txt"), "w") as out:
        for size, name in zip(signed, of):
            print(f"{size:+d} {name}", file=out)


def compiles(training):
    """Whether anything runs in compiled code, as attention to packed sequences does in torchtune."""
    packed = training.get("framework") == "torchtune" and training.get("attention_mask") == "explicit"
    return packed or bool(training.get("compile"))


def main(run, about):
    """Runs every job of a file; run(job, watcher) is what is traced, and returns its peaks."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--events", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with open(args.jobs) as jobs:
        given = [json.loads(line) for line in jobs]
    failed = [job["id"] for job in given if not apart(run, job, args)]
    if failed:
        sys.exit("these were not traced: " + ", ".join(failed))


def apart(run, given, args):
    """Traces a job in a process of its own: hooks and compiled code keep what a run made. Says whether it came to its end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    try:
        passes.begun()
        loop.clean()
        if args.events:
            write_events(run, given, args.out, names=not compiles(given["job"]["training"]))
        else:
            truth = run(given["job"], loop.Watcher())
            with open(args.out, "a") as out:
                out.write(json.dumps(dict(id=given["id"], job=given["job"], truth=truth), separators=(",", ":")) + "\n")
            print(given["id"], truth, flush=True)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
