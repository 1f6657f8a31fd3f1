"""Reports the peak memory of a training run to a vramplan service.

With the Hugging Face Trainer:

    from vramplan_callback import VramplanCallback
    trainer.add_callback(VramplanCallback(job, url="http://vramplan:8080", key=os.environ["VRAMPLAN_API_KEY"]))

With any other loop:

    from vramplan_callback import report
    try:
        train()
    finally:
        report(job, url=..., key=...)

job is the job document that `vramplan estimate -f` takes, with the one card in "gpus". The file needs
nothing but Python's standard library; without torch, pass measured={"allocated_bytes": ...} yourself.
A report never raises and never delays the run by more than its timeout: it returns the service's answer, or
None after a line on standard error.
"""

import json
import os
import sys
import urllib.error
import urllib.request
import uuid

try:
    from transformers import TrainerCallback
except ImportError:  # only for the Trainer
    TrainerCallback = object


def measure(out_of_memory=False):
    """The peaks of this process on its current GPU since the start, or since reset_peak_memory_stats."""
    import torch

    measured = {
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
    }
    if out_of_memory:
        measured["out_of_memory"] = True
    return {name: value for name, value in measured.items() if value}


def versions():
    """The versions of the software that decide how much memory a run takes, as far as they are loaded."""
    found = {}
    for name in ("torch", "transformers", "accelerate", "peft", "bitsandbytes"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version:
            found[name] = str(version).split("+")[0]
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda:
        found["cuda"] = cuda
    return found


def report(job, measured=None, url=None, key=None, timeout=5.0, source="python", run=None, out_of_memory=False):
    """Send one observation. run names the run, so that a report that is sent twice is stored once."""
    url = url or os.environ.get("VRAMPLAN_SERVER", "http://127.0.0.1:8080")
    key = key or os.environ.get("VRAMPLAN_API_KEY", "")
    try:
        observation = {
            "job": job,
            "measured": measure(out_of_memory) if measured is None else measured,
            "versions": versions(),
            "source": source,
        }
        body = json.dumps(observation, sort_keys=True).encode()
        request = urllib.request.Request(
            url.rstrip("/") + "/v1/observations",
            data=body,
            method="POST",
            headers={
                "Content-Type": "application/json",
                "Authorization": "Bearer " + key,
                "Idempotency-Key": str(run) if run else uuid.uuid4().hex,
            },
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        _say("%s: %s" % (refused, refused.read(2000).decode("utf-8", "replace").strip()))
    except Exception as failed:  # whatever it is, the training run goes on
        _say(repr(failed))
    return None


def _say(what):
    sys.stderr.write("vramplan: the run was not reported: %s\n" % what)


class VramplanCallback(TrainerCallback):
    """Reports the peak of a Trainer's run when it ends, from the first process only."""

    def __init__(self, job, url=None, key=None, timeout=5.0, run=None):
        self.job, self.url, self.key, self.timeout, self.run = job, url, key, timeout, run

    def on_train_end(self, args, state, control, **kwargs):
        if getattr(state, "is_world_process_zero", True):
            report(self.job, url=self.url, key=self.key, timeout=self.timeout, source="hf-callback", run=self.run)
