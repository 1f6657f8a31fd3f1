"""The list of every allocation and free of a run, and what each of them is."""

import bisect
import collections
import contextlib

import torch
import torch.utils._pytree as pytree
from loop import Watcher, statistics
from torch.utils._python_dispatch import TorchDispatchMode

# What of PyTorch's memory history says that the driver is asked for memory, or given it back.
SEGMENTS = dict(segment_alloc=1, segment_map=1, segment_free=-1, segment_unmap=-1)


def _allocations():
    return statistics()["allocation"]["all"]["allocated"]


class _Operations(TorchDispatchMode):
    """Notes which operation of which module made which allocations. Under it autograd adds gradients out of place."""

    def __init__(self, log, modules):
        super().__init__()
        self.log, self.modules = log, modules

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = _allocations()
        out = function(*args, **(kwargs or {}))
        after = _allocations()
        if after > before:
            made = {}
            for o in pytree.tree_leaves(out):
                if isinstance(o, torch.Tensor) and o.is_cuda and o.numel():
                    made[o.untyped_storage().data_ptr()] = (list(o.shape), str(o.dtype).removeprefix("torch."))
            module = self.modules[-1] if self.modules else ""
            self.log.append((before, after, str(function).removeprefix("aten."), made, module))
        return out


class Recorder(Watcher):
    """Watches one run. operations=False disturbs nothing and leaves out the names of operations."""

    def __init__(self, operations):
        self.operations, self.first = operations, _allocations()
        self.phases, self.kinds, self.log, self.modules = [], [], [], []
        self.made, self.events, self.trace = [], [], []
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10_000_000)

    def phase(self, name):
        self.phases.append((_allocations() - self.first, name))

    def found(self, kind, tensors):
        places = [t.untyped_storage().data_ptr() for t in tensors if t.is_cuda and t.numel()]
        self.kinds.append((_allocations() - self.first, kind, places))

    def ended(self):
        self.trace = torch.cuda.memory._snapshot()["device_traces"][0]
        torch.cuda.memory._record_memory_history(enabled=None)

    @contextlib.contextmanager
    def watching(self, model):
        if not self.operations:
            yield
            return
        names = {m: n for n, m in model.named_modules()}
        hooks = torch.nn.modules.module
        enter = hooks.register_module_forward_pre_hook(lambda m, a: self.modules.append(names.get(m, "?")))

        def left(module, args, out):
            if self.modules:
                self.modules.pop()

        leave = hooks.register_module_forward_hook(left, always_call=True)
        try:
            with _Operations(self.log, self.modules):
                yield
        finally:
            enter.remove()
            leave.remove()

    def finish(self):
        """Reads the recording. made has an entry an allocation: bytes, phase, kind, op, shape, dtype, module; events are pairs in
        their order: the index of an allocation, and whether it is made or freed."""
        live, places = {}, collections.defaultdict(list)
        for e in self.trace:
            if e["action"] == "alloc":
                i = len(self.made)
                self.made.append(dict(bytes=e["size"], stream=e.get("stream", 0)))
                self.events.append((i, True))
                live[e["addr"]] = i
                places[e["addr"]].append(i)
            elif e["action"] == "free_completed" and e["addr"] in live:
                self.events.append((live.pop(e["addr"]), False))
        addresses = {i: at for at, list_ in places.items() for i in list_}
        starts = [s for s, _ in self.phases]
        for i, m in enumerate(self.made):
            j = bisect.bisect_right(starts, i) - 1
            m["phase"] = self.phases[j][1] if j >= 0 else "load"
        for before, kind, at in self.kinds:
            for address in at:
                candidates = places.get(address, [])
                j = bisect.bisect_left(candidates, before) - 1
                if j >= 0:
                    self.made[candidates[j]].setdefault("kind", kind)
        for before, after, name, made, module in self.log:
            for i in range(before - self.first, min(after - self.first, len(self.made))):
                shape, dtype = made.get(addresses[i], (None, None))
                self.made[i].update(op=name, module=module, shape=shape, dtype=dtype)
        return self

    def signed(self):
        """The events as bytes, negative where they are freed."""
        return [self.made[i]["bytes"] * (1 if allocated else -1) for i, allocated in self.events]

    def names(self):
        """What each event is about: phase, operation, module."""
        return [
            " ".join((m["phase"].rsplit(".", 1)[-1], m.get("op", m.get("kind", "?")), m.get("module") or "-"))
            for m in (self.made[i] for i, _ in self.events)
        ]

    def taken(self):
        """What is taken from the driver and, negative, given back, in pairs: how many allocations came before, bytes."""
        changes, made = {}, 0
        for e in self.trace:
            if e["action"] == "alloc":
                made += 1
            elif e["action"] in SEGMENTS:
                changes[made] = changes.get(made, 0) + SEGMENTS[e["action"]] * e["size"]
        return [list(c) for c in changes.items() if c[1] and c[0] < made]

    def peak(self):
        """The allocation at which most is alive, the bytes alive then, and the indices of what is."""
        alive, most, total, at, held = {}, -1, 0, None, []
        for i, allocated in self.events:
            blocks = (self.made[i]["bytes"] + 511) // 512 * 512
            total += blocks if allocated else -blocks
            if allocated:
                alive[i] = True
                if total > most:
                    most, at, held = total, i, None
                continue
            if held is None:
                held = list(alive)
            alive.pop(i)
        return at, most, held if held is not None else list(alive)
