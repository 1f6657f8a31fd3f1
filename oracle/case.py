"""A traced job as a reference case, as a list of events, or as a text."""

import os

import loop
import recording
import standin  # noqa: F401 (first of all: it is what makes models run)
import torch

MIB = 1 << 20


def versions():
    """The software that was traced."""
    import accelerate
    import peft
    import transformers

    found = dict(torch=torch.__version__.split("+")[0], cuda=torch.version.cuda, transformers=transformers.__version__)
    return dict(found, accelerate=accelerate.__version__, peft=peft.__version__)


def named(job):
    """The job with the releases that decide what it allocates, so that the estimator answers for them."""
    found, training = versions(), job["training"]
    deciding = ("torch", "transformers", *(["peft"] if training.get("lora") else []))
    return dict(job, training=dict(training, versions={k: found[k] for k in deciding}))


def _expandable(on):
    torch.cuda.memory._set_allocator_settings(f"expandable_segments:{on}")


def _run(job, loaded, watcher=None):
    loop.clean()
    counted = loop.run(job, loaded, watcher)
    loop.clean()
    return counted


def _smallest_limit(job, loaded, low, high):
    """The least that the allocator may reserve so that the steps finish, to half a percent; full, it gives cached blocks back."""
    total = torch.cuda.mem_get_info()[1]
    low -= 1
    for _ in range(4 if loaded else 7):
        if high - low <= max(2 * MIB, high * 0.005):
            break
        middle = (low + high) // 2
        loop.clean()
        torch.cuda.set_per_process_memory_fraction(middle / total)
        try:
            loop.run(job, loaded)
            high = middle
        except torch.OutOfMemoryError:
            low = middle
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
    loop.clean()
    return high


def segments(given):
    """What PyTorch takes from the driver and gives back, default and expandable, on a card with room and on the smallest on which the
    steps finish: pairs of how many allocations came before, and bytes. least_mib is that card, to 2 MiB: the driver has no more."""
    job, out = given["job"], {}
    for mode in ("default", "expandable"):
        _expandable(mode == "expandable")
        loop.clean()  # what was there before the run is given back before it is watched
        plain = recording.Recorder(operations=False)
        truth = _run(job, None, plain)
        low, high = truth["requested_bytes"] // MIB - 1, truth["reserved_bytes"] // MIB
        middle = high - 2  # most jobs need all that they take
        while high - low > 2:
            if took := _fitting(job, middle):
                high = min(middle, took // MIB)
            else:
                low = middle
            middle = (low + high) // 2
        full = recording.Recorder(operations=False)
        _fitting(job, high, full)
        out[mode] = dict(
            **{k: truth[k] for k in ("allocated_bytes", "reserved_bytes")},
            least_mib=high,
            taken=plain.finish().taken(),
            taken_at_least=full.finish().taken(),
        )
    _expandable(False)
    return dict(id=given["id"], job=named(job), card=_card(), **out)


def _fitting(job, mib, watcher=None):
    """What the steps reserve where the driver has so much memory; None where they do not finish."""
    loop.clean()
    os.environ["STANDIN_TOTAL_MIB"] = str(mib)
    try:
        return loop.run(job, None, watcher)["reserved_bytes"]
    except torch.OutOfMemoryError:
        return None
    finally:
        del os.environ["STANDIN_TOTAL_MIB"]
        loop.clean()


def _card():
    properties = torch.cuda.get_device_properties(0)
    return [10 * properties.major + properties.minor, properties.multi_processor_count]


def row(given, limits):
    """A reference case: what the allocator said of undisturbed runs, and where the peak falls."""
    job = given["job"]
    compiled = bool(job["training"].get("compile"))
    loaded = loop.load(job) if compiled else None  # compiled once
    _expandable(False)
    first = _run(job, loaded) if compiled else None
    watcher = recording.Recorder(operations=False)
    truth = _run(job, loaded, watcher)
    peak = watcher.finish().made[watcher.peak()[0]]
    _expandable(True)
    truth["reserved_expandable_bytes"] = _run(job, loaded)["reserved_bytes"]
    _expandable(False)
    if limits:
        truth["min_limit_bytes"] = _smallest_limit(job, loaded, truth["requested_bytes"], truth["reserved_bytes"])
    if compiled:  # reserved is what the process sees that compiles
        truth["reserved_compiled_bytes"], truth["reserved_bytes"] = truth["reserved_bytes"], first["reserved_bytes"]
        truth["allocated_first_run_bytes"] = first["allocated_bytes"]
    truth["phase"] = peak["phase"].rsplit(".", 1)[-1]
    if not compiled:
        watcher = recording.Recorder(operations=True)
        _run(job, loaded, watcher)
        truth["op"] = watcher.finish().made[watcher.peak()[0]].get("op")
    return dict(id=given["id"], job=named(job), truth=truth, tags=given.get("tags") or tags(job), versions=versions())


def tags(job):
    """What a row is grouped by."""
    training, nano = job["training"], "nanogpt" in job["model"]
    optimizer = training.get("optimizer") or "adamw"
    named = (
        optimizer
        if isinstance(optimizer, str)
        else "-".join(optimizer[k] for k in ("name", "implementation") if k in optimizer)
    )
    lora = training.get("lora")
    return [
        "family:" + ("nanogpt" if nano else "module" if "module" in job["model"] else job["model"]["hf_config"]["model_type"]),
        "precision:" + training.get("precision", "amp-bf16"),
        "optimizer:" + named,
        "checkpointing:" + str(training.get("gradient_checkpointing", "none")),
        "attention:" + training.get("attention", "sdpa"),
        "lora:" + (lora.get("base_precision", "bf16") + "-base" if lora else "no"),
        "compile:" + ("yes" if training.get("compile") else "no"),
        "accumulation:" + ("yes" if training.get("gradient_accumulation", 1) > 1 else "no"),
        "framework:" + loop.framework(job),
        "gpu:" + (job.get("gpus") or ["a100-sxm4-80gb"])[0],
    ]


def events(given):
    """Every allocation and, negative, every free of an undisturbed run in order; and what each of them is about, as far as a second
    run says, which names operations and so adds some gradients out of place. names are said once; what counts them."""
    plain = recording.Recorder(operations=False)
    _run(given["job"], None, plain)
    signed = plain.finish().signed()
    watched = recording.Recorder(operations=True)
    _run(given["job"], None, watched)
    of = aligned(signed, plain.names(), watched.finish().signed(), watched.names())
    names = {}
    what = [names.setdefault(n, len(names)) for n in of]
    return dict(id=given["id"], job=named(given["job"]), card=_card(), events=signed, names=list(names), what=what)


def aligned(signed, names, others, other_names, reach=256, run=4):
    """The names of the second list for the events that both have, and the first's own for the rest. Where the lists part, they meet
    again at the nearest place, up to reach events on, where run events are the same."""
    out, i, j = list(names), 0, 0
    while i < len(signed) and j < len(others):
        if signed[i] == others[j]:
            out[i] = other_names[j]
            i, j = i + 1, j + 1
            continue
        for ahead in range(1, reach):
            if signed[i : i + run] == others[j + ahead : j + ahead + run]:
                j += ahead
                break
            if signed[i + ahead : i + ahead + run] == others[j : j + run]:
                i += ahead
                break
        else:
            i, j = i + 1, j + 1
    return out


def write_operations(given, folder):
    """A text of the run, for reading and for diff: what is allocated (+) and freed (-), bytes, operation, module, shape."""
    watcher = recording.Recorder(operations=True)
    _run(given["job"], None, watcher)
    watcher.finish()
    os.makedirs(folder, exist_ok=True)
    phase = None
    with open(os.path.join(folder, given["id"] + ".txt"), "w") as out:
        for i, allocated in watcher.events:
            m = watcher.made[i]
            if allocated and m["phase"] != phase:
                phase = m["phase"]
                print("---", phase, file=out)
            what = [m.get("op", m.get("kind", "?")), "@" + m.get("module", ""), m.get("shape") or "", m.get("dtype") or ""]
            print(("+" if allocated else "-") + str(m["bytes"]), *what, "" if allocated else m["phase"], file=out)
