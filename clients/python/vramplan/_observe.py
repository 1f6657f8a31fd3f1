"""What a run took, measured in its own process, and the report of it to a service.

Nothing but Python's standard library is needed; torch is asked where it is loaded. With nvidia-ml-py (the module pynvml) the
figures have device_bytes, what nvidia-smi shows for this process, which is what a calibration's context and bounds are
fitted to. Where that cannot be told, it is left out, and a line on standard error says why.
"""

import json
import os
import sys
import urllib.error
import urllib.request
import uuid


def measure(out_of_memory=False):
    """The peaks of this process on its current GPU since the start, or since reset_peak_memory_stats."""
    import torch

    measured = {
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
    }
    try:
        measured["device_bytes"] = device_bytes(torch)
    except Unknown as why:
        say("device_bytes is not reported: %s" % why)
    except Exception as failed:  # pynvml's errors, and whatever torch has renamed
        say("device_bytes is not reported: %r" % failed)
    if out_of_memory:
        measured["out_of_memory"] = True
    return {name: value for name, value in measured.items() if value}


class Unknown(Exception):
    """Nobody can tell what this process takes on the card."""


def device_bytes(torch):
    """The most that this process took on its current GPU, as nvidia-smi counts.

    The driver says what the process holds now. What PyTorch's allocator reserves now is a part of that; in its place comes the
    most that it ever reserved. What is left, the context, loaded kernels and the buffers of NCCL, hardly shrinks while a
    process runs, so what it is now stands for what it was at the peak. torch.cuda.mem_get_info() would not do: it counts
    everybody who is on the card.
    """
    if getattr(getattr(torch, "version", None), "hip", None):
        raise Unknown("the card is AMD's, and NVML knows NVIDIA's")
    try:
        import pynvml
    except ImportError:
        raise Unknown("pynvml is not there (pip install nvidia-ml-py)")
    reserved = torch.cuda.memory_reserved()
    pynvml.nvmlInit()
    try:
        used = _held(pynvml, _card(pynvml, torch))
    finally:
        pynvml.nvmlShutdown()
    if used < reserved:
        raise Unknown("the driver says that the process has %d bytes, and PyTorch has reserved %d" % (used, reserved))
    return used - reserved + torch.cuda.max_memory_reserved()


def _card(pynvml, torch):
    """NVML's handle of PyTorch's current GPU. Their numbers differ (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER), so it goes by UUID."""
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    if uuid is None:
        if pynvml.nvmlDeviceGetCount() != 1:
            raise Unknown("this PyTorch does not say which of several cards it uses")
        return pynvml.nvmlDeviceGetHandleByIndex(0)
    try:
        return pynvml.nvmlDeviceGetHandleByUUID("GPU-%s" % uuid)
    except pynvml.NVMLError:  # a slice of a card has another prefix
        return pynvml.nvmlDeviceGetHandleByUUID("MIG-%s" % uuid)


def _held(pynvml, card):
    """The bytes that this process holds on a card now."""
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(card)
    own = [p for p in processes if p.pid == os.getpid()]
    if not own and len(processes) == 1:
        own = processes  # in a container: the driver counts processes as the host does, and who is alone there is this one
    if not own:
        raise Unknown("the driver names %d processes on the card and this one, %d, is not among them, as in some containers" % (len(processes), os.getpid()))
    if not own[0].usedGpuMemory:  # None is NVML's "not available"
        raise Unknown("the driver does not say what a process takes")
    return own[0].usedGpuMemory


def versions():
    """The versions of the software that decide how much memory a run takes, as far as they are loaded."""
    found = {}
    for name in ("torch", "transformers", "accelerate", "peft", "trl", "bitsandbytes"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version:
            found[name] = str(version).split("+")[0]
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda:
        found["cuda"] = cuda
    return found


def report(job, measured=None, url=None, key=None, timeout=5.0, source="python", run=None, out_of_memory=False):
    """Send one observation to a service; run names the run, so that a report that is sent twice is stored once.

    job is the job document with the one card in "gpus"; without torch, measured={"allocated_bytes": ...} says what was
    taken. Never raises and never delays the run by more than its timeout: returns the service's answer, or None after a
    line on standard error.
    """
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
        say("the run was not reported: %s: %s" % (refused, refused.read(2000).decode("utf-8", "replace").strip()))
    except Exception as failed:  # whatever it is, the training run goes on
        say("the run was not reported: %r" % failed)
    return None


def say(what):
    """A line on standard error."""
    sys.stderr.write("vramplan: %s\n" % what)
