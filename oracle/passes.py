"""Jobs in the training loops of other libraries: one process for each, its passes, and what its values are.

A loop's file gives run() the names of the modules that its jobs need and a function that runs one to its end. What is counted is PyTorch's
own: the most that was allocated and reserved, and in which pass.
"""

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import traceback

STEPS = 2
TOKEN = 3  # what is sampled: never the end, so that completions are written to their limit
# Settings of peft's LoraConfig that a job has by peft's own names.
OF_PEFT = ("bias", "layers_to_transform", "rank_pattern", "alpha_pattern", "exclude_modules", "use_rslora", "trainable_token_indices")
LIBRARIES = ("torch", "transformers", "trl", "accelerate", "peft", "sentence-transformers", "diffusers")


class Enough(BaseException):
    """So many optimizer steps are through: ends loops that would go on to save or to sample."""


class Passes:
    """Asks the allocator for its peak wherever a trainer goes from one part of a step to the next."""

    whole = ("generation", "backward")  # that have no passes within

    def __init__(self, torch, values, until=0):
        self.torch, self.values, self.until = torch, values, until
        self.peaks, self.now, self.depth = {}, "load", 0
        self.steps = 0
        self.reserved = 0  # the most; trainers empty the cache between passes
        self.reserved_later = 0  # the same without loading

    def turn(self, name):
        peak = self.torch.cuda.max_memory_allocated()
        self.peaks[self.now] = max(self.peaks.get(self.now, 0), peak)
        reserved = self.torch.cuda.max_memory_reserved()
        self.reserved = max(self.reserved, reserved)
        if self.now != "load":
            self.reserved_later = max(self.reserved_later, reserved)
        self.torch.cuda.reset_peak_memory_stats()
        self.now = name

    def within(self, name, call):
        def run(*args, **kwargs):
            before = self.now
            self.turn(name)
            if name == "backward":
                self.values.backward()
            try:
                return call(*args, **kwargs)
            finally:
                if name == "backward":
                    self.values.backward_ended()
                self.turn("optimizer" if name == "backward" else before)

        run.__name__ = call.__name__
        return run

    @contextlib.contextmanager
    def watch(self):
        import accelerate
        from accelerate.optimizer import AcceleratedOptimizer
        from torch.nn.modules import module
        from torch.optim.optimizer import register_optimizer_step_post_hook
        from transformers.generation.utils import GenerationMixin

        def enter(m, _):
            self.depth += 1
            if self.depth > 1 or self.now in self.whole:
                return
            self.outer = self.now
            self.turn("forward" if self.torch.is_grad_enabled() else "reference")

        def leave(m, *_):
            self.depth -= 1
            if self.depth == 0 and self.now == "reference":
                self.turn("forward" if self.outer == "forward" else "between")

        def stepped(*_):
            self.steps += 1

        def cleared(clear):
            def run(optimizer, *args, **kwargs):
                clear(optimizer, *args, **kwargs)
                if self.until and self.steps >= self.until:
                    raise Enough

            return run

        hooks = [
            module.register_module_forward_pre_hook(enter),
            module.register_module_forward_hook(leave, always_call=True),
            register_optimizer_step_post_hook(stepped),
        ]
        kept = accelerate.Accelerator.backward, GenerationMixin.generate
        clear = AcceleratedOptimizer.zero_grad
        AcceleratedOptimizer.zero_grad = cleared(clear)
        accelerate.Accelerator.backward = self.within("backward", kept[0])
        GenerationMixin.generate = self.within("generation", kept[1])
        try:
            yield
        finally:
            accelerate.Accelerator.backward, GenerationMixin.generate = kept
            AcceleratedOptimizer.zero_grad = clear
            for hook in hooks:
                hook.remove()
            self.turn("end")


def sampled():
    """The values of a loop."""
    import torch
    import values

    class Sampled(values.Values):
        """Knows, besides, which token was sampled, and what is copied to the host. Where a loss puts values in the places of a
        mask, backward counts these; rows of logits that were chosen by a mask are then for the log, and have no backward."""

        def __init__(self):
            super().__init__()
            self.put = []

        def backward(self):
            if self.put:
                self.again[:], self.put = self.put, []
            super().backward()

        def _tell(self, func, args, device):
            if func is torch.Tensor.__setitem__ and isinstance(args[2], torch.Tensor) and args[2].requires_grad:
                self.put.append(self._count(args[1]))
            return super()._tell(func, args, device)

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.cpu and args[0] in self.of:
                return self.of[args[0]].clone()
            out = super().__torch_function__(func, types, args, kwargs)
            drawn = getattr(func, "__name__", "") in ("multinomial", "argmax") and isinstance(out, torch.Tensor) and out.is_cuda
            if drawn and args[0].is_floating_point() and args[0].shape[-1] >= 1000:
                self.of[out] = torch.full(out.shape, TOKEN, dtype=out.dtype)
            return out

    return Sampled()


def sites(torch, most=24):
    """What is alive at the peak, by the three innermost lines outside torch that asked for it."""
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    events = [e for e in events if e["action"] in ("alloc", "free_requested")]
    alive, total, top, at = {}, 0, -1, 0
    for i, e in enumerate(events):
        total += (1 if e["action"] == "alloc" else -1) * -(-e["size"] // 512) * 512
        if total > top:
            top, at = total, i
    for e in events[: at + 1]:
        if e["action"] == "alloc":
            alive[e["addr"]] = e
        else:
            alive.pop(e["addr"], None)
    groups = {}
    for e in alive.values():
        lines = [f for f in e["frames"] if not any(p in f["filename"] for p in ("/torch/", "oracle/values", "oracle/passes", "??"))]
        where = tuple(f"{f['filename'].split('site-packages/')[-1]}:{f['line']} {f['name']}" for f in lines[:3]) or ("backward",)
        group = groups.setdefault((e["size"], where), [0, 0])
        group[0] += e["size"]
        group[1] += 1
    ordered = sorted(groups.items(), key=lambda g: -g[1][0])[:most]
    return [dict(bytes=v[0], count=v[1], each=k[0], at=list(k[1])) for k, v in ordered]


def trace(job, train, until):
    """The case of one job: two optimizer steps of its loop."""
    import standin
    import torch

    standin.padding = job["training"].get("attention_mask") == "explicit"
    torch.set_num_threads(1)
    known = sampled()
    passes = Passes(torch, known, until)
    owner = None
    if os.environ.get("SITES"):
        torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=20_000_000)
    with known, passes.watch():
        try:
            owner = train(job)
        except Enough:
            pass
    named, models = set(), [m for m in vars(owner).values() if isinstance(m, torch.nn.Module)] if owner else []
    parameters = [p for m in models for p in m.parameters() if id(p) not in named and not named.add(id(p))]
    counted = {}
    if yields(job):
        counted["load_bytes"] = passes.peaks.pop("load")
        passes.reserved = passes.reserved_later
    phase = max((k for k in passes.peaks), key=lambda k: passes.peaks[k])
    if owner:
        counted["parameters"] = sum(p.numel() for p in parameters)
        counted["trainable_parameters"] = sum(p.numel() for p in parameters if p.requires_grad)
    if os.environ.get("SITES"):
        counted["sites"] = sites(torch)
    return dict(
        counted,
        allocated_bytes=passes.peaks[phase],
        reserved_bytes=passes.reserved,
        phase=phase,
        phases=passes.peaks,
    )


def yields(job):
    """Whether loading takes less memory where less is free, so that its peak is none of the run (DeepSpeed's ZeRO)."""
    return str((job["training"].get("distributed") or {}).get("data", "")).startswith("zero")


def work(given, train, out, until):
    """Traces one job and writes its row, with the releases that ran it."""
    truth = trace(given["job"], train, until)
    found = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name).split("+")[0]
    job = dict(given["job"])
    named = job["training"].get("versions") or ("torch", "transformers", "trl")
    versions = {name: found[name] for name in named if name in found}
    job["training"] = dict(job["training"], versions=versions)
    with open(out, "a") as f:
        f.write(json.dumps(dict(id=given["id"], job=job, truth=truth, versions=found)) + "\n")
    print(given["id"], f"allocated_bytes={truth['allocated_bytes']} reserved_bytes={truth['reserved_bytes']}", flush=True)


def begun():
    """A library that asks for the device while it is imported (bitsandbytes) has begun it for all processes: unlike a card, the
    stand-in has no context that a fork would break."""
    import torch

    torch.cuda._is_in_bad_fork = lambda: False


def serve(needs, train, out, until, prepare):
    """Imports what jobs need, which takes longer than most of them, and gives each job of standard input a process of its own: loops
    leave variables of the environment and patches of their libraries behind. The device is first asked for in these. prepare is told all
    jobs before."""
    for name in needs:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    failed = 0
    cases = [json.loads(line) for line in sys.stdin]
    prepare([given["job"] for given in cases])
    for given in cases:
        child = os.fork()
        if not child:
            try:
                begun()
                work(given, train, out, until)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended:
            print(f"{given['id']}: the process ended with {ended}", file=sys.stderr, flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


def nothing(_):
    """What most files do with their jobs before they import anything, and before they trace them."""
    return {}


def run(needs, train, description, until=0, prepare=nothing, variables=nothing):
    """The command of a loop's file. variables are those of the environment in which so many jobs are traced."""
    import trace as whole

    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--sites", action="store_true", help="beside it, what is alive at the peak by the library's line")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        serve(needs, train, args.out, until, prepare)
    driver = os.environ.get("STANDIN", "")
    if not os.path.exists(os.path.join(driver, "libcuda.so.1")):
        sys.exit(f"no driver in $STANDIN ({driver!r}): run driver/build.sh")
    if args.sites:
        os.environ["SITES"] = "1"
    cards = {}
    for case in whole.lines(args.jobs):
        if case["id"] not in whole.done(argparse.Namespace(operations=False, out=args.out)):
            settings = whole.allocator(case["job"]["training"].get("allocator") or {})
            cards.setdefault(((case["job"].get("gpus") or [None])[0], *settings.values()), []).append(case)
    failed = 0
    for cases in cards.values():
        env = whole.environment(cases[0]["job"], driver) | dict(HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
        env |= variables([case["job"] for case in cases])
        worker = [sys.executable, os.path.abspath(sys.argv[0]), args.jobs, "--out", args.out, "--worker"]
        given = "".join(json.dumps(case) + "\n" for case in cases)
        failed |= subprocess.run(worker, input=given, env=env, text=True).returncode
    sys.exit(failed)
