"""Training steps of one process of many, on the stand-in driver and the stand-in NCCL (driver/): the unmodified ProcessGroupNCCL, DDP, FSDP, DTensor,
torch.distributed.pipelining, accelerate, transformers' Trainer and DeepSpeed run as rank r of a world of n; nothing is sent, nothing is received.
Imported by rank.py, which forks one process for each run (torch's and DeepSpeed's state does not survive a second one)."""

import os, gc, time, bisect, collections, contextlib, functools, warnings

warnings.filterwarnings("ignore")
import torch, torch.distributed as dist


class Store(dist.Store):
    """A key-value store with one member: whatever another rank would have written is 128 zero bytes (the length of an ncclUniqueId)."""

    def __init__(self):
        super().__init__()
        self.d = {}

    def set(self, k, v):
        self.d[k] = v if isinstance(v, bytes) else v.encode() if isinstance(v, str) else bytes(v)

    def get(self, k):
        return self.d.get(k, bytes(128))

    def add(self, k, n):
        self.d[k] = str(int(self.d.get(k, b"0")) + n).encode()
        return int(self.d[k])

    def check(self, ks):
        return all(k in self.d for k in ks)

    def wait(self, ks, *a):
        pass

    def set_timeout(self, t):
        pass

    def compare_set(self, k, expected, v):
        self.set(k, v)
        return self.d[k]

    def delete_key(self, k):
        return self.d.pop(k, None) is not None

    def num_keys(self):
        return len(self.d)


import ctypes


@contextlib.contextmanager
def shadow():
    """Small copies to the device can be read back inside: what this process tells the others through the device comes back as what they say."""
    f = ctypes.CDLL(None).standin_shadow
    f(1)
    try:
        yield
    finally:
        f(0)


def shadowed(fn):
    @functools.wraps(fn)
    def g(*a, **k):
        with shadow():
            return fn(*a, **k)

    return g


STORE = None


def split(rank):
    """New groups are parts of the communicator of all ranks (torch 2.15, where a device is bound): NCCL learns from the other ranks how many
    join one, the stand-in from this."""
    c10d = dist.distributed_c10d
    tell = ctypes.CDLL(None).standin_split

    def told(make, members):
        @functools.wraps(make)
        def made(*a, **k):
            ranks = sorted(members(*a, **k) or ())
            tell(len(ranks) if rank in ranks else 0, ranks.index(rank) if rank in ranks else 0)
            try:
                return make(*a, **k)
            finally:
                tell(0, 0)

        return made

    def of_new(ranks=None, *a, **k):
        return ranks

    def of_split(parent_pg=None, split_ranks=None, *a, **k):
        return next((list(r) for r in split_ranks or () if rank in r), None)

    import torch.distributed.device_mesh as mesh

    for name, made in (("new_group", told(c10d.new_group, of_new)), ("split_group", told(c10d.split_group, of_split))):
        for m in (dist, c10d, mesh):
            if hasattr(m, name):
                setattr(m, name, made)


def join(rank, world, host=False):
    """Makes this process rank `rank` of `world`. Waiting for the others and comparing notes with them is cut out; nothing that allocates is.
    host: tensors in the CPU's memory are sent, too, as FSDP with offloaded parameters asks for; PyTorch's fake group does that, over nothing."""
    global STORE
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    dist.distributed_c10d._store_based_barrier = lambda *a, **k: None
    STORE = Store()  # must outlive the group: C++ calls back into it
    if host:
        import torch.testing._internal.distributed.fake_pg  # noqa: F401 (it registers the backend)
    dist.init_process_group("cpu:fake,cuda:nccl" if host else "nccl", store=STORE, rank=rank, world_size=world)

    split(rank)

    # what other ranks say is what this one says
    def gather_object(out, obj, group=None):
        for i in range(len(out)):
            out[i] = obj

    for m in (dist, dist.distributed_c10d):
        m.all_gather_object = gather_object
        m.broadcast_object_list = lambda *a, **k: None
    import torch.nn.parallel.distributed as ddp

    DDP = ddp.DistributedDataParallel
    DDP._pre_forward = shadowed(DDP._pre_forward)  # the reducer broadcasts the indices of its buckets to itself
    ddp._verify_param_shape_across_processes = lambda *a, **k: True  # a few KiB, freed before the parameters are broadcast


# ---------------------------------------------------------------- measuring
_stats = torch._C._cuda_memoryStats
_reset = torch._C._cuda_resetPeakMemoryStats


class Meter:
    """Marks in the order of allocations, peaks of loading and of the steps apart, and with history the list of what is alive at the peak."""

    def __init__(self, history):
        torch.cuda.init()
        torch.empty(1, device="cuda")
        gc.collect()
        torch.cuda.empty_cache()
        for m in (torch.cuda, torch.cuda.memory):  # DeepSpeed's see_memory_usage resets the counters
            for n in ("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"):
                setattr(m, n, lambda *a, **k: None)
        _reset(0)
        self.marks = []
        self.n0 = self.n()
        self.load = None
        self.tags = []
        self.steady = []
        self.history = history
        if history:
            torch.cuda.memory._record_memory_history(
                enabled="all", context="alloc" if history == "sites" else None, stacks="python", max_entries=20_000_000
            )

    def n(self):
        return _stats(0)["allocation"]["all"]["allocated"]

    def peaks(self):
        s = _stats(0)
        return {k: s[k + "_bytes"]["all"]["peak"] for k in ("allocated", "active", "requested", "reserved")}

    def now(self):
        return _stats(0)["allocated_bytes"]["all"]["current"]

    def mark(self, name):
        self.marks.append((name, self.n() - self.n0, self.now()))

    def tag(self, name, tensors):
        if self.history:
            self.tags.append(
                (
                    self.n() - self.n0,
                    name,
                    [
                        t.untyped_storage().data_ptr()
                        for t in tensors
                        if isinstance(t, torch.Tensor) and t.is_cuda and t.untyped_storage().size()
                    ],
                )
            )

    def loaded(self):
        """Everything before the first forward is loading."""
        self.load = self.peaks()
        self.load["current"] = self.now()
        _reset(0)
        self.mark("s0.m0.forward")

    def end_step(self):
        self.steady.append(self.now())
        time.sleep(0.3)  # NCCL's watchdog looks every 0.1 s which collectives are over; a real step takes longer than that

    def result(self):
        p = self.peaks()
        return dict(load=self.load, steps=p, steady=self.steady, marks=self.marks)


def analyse(meter, skip_load=True):
    """(phase of the peak, groups of what is alive then): allocated = allocated and not yet freed by the program."""
    ev = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    first = next(o for n, o, _ in meter.marks if n == "s0.m0.forward")
    size, addr, frames, stream = [], [], [], []
    live = {}
    cur = 0
    peak = -1
    at = None
    for e in ev:
        a = e["action"]
        if a == "alloc":
            live[e["addr"]] = len(size)
            size.append(e["size"])
            addr.append(e["addr"])
            frames.append(e.get("frames"))
            stream.append(e.get("stream"))
            cur += -(-e["size"] // 512) * 512
            if len(size) > first and cur > peak:
                peak, at, alive = cur, len(size) - 1, None
        elif a == "free_requested":
            k = live.pop(e["addr"], None)
            if k is not None:
                cur -= -(-size[k] // 512) * 512
    if os.environ.get("TRACE_EVENTS"):
        write_events(ev, meter, os.environ["TRACE_EVENTS"])
    # second pass: who is alive at the peak
    live = {}
    k = -1
    for e in ev:
        a = e["action"]
        if a == "alloc":
            k += 1
            live[e["addr"]] = k
            if k == at:
                break
        elif a == "free_requested":
            live.pop(e["addr"], None)
    alive = sorted(live.values())
    byaddr = collections.defaultdict(list)
    for i, p in enumerate(addr):
        byaddr[p].append(i)
    tagof = {}
    for upto, name, ptrs in meter.tags:
        for p in ptrs:
            ks = byaddr.get(p)
            if ks:
                j = bisect.bisect_left(ks, upto) - 1
                if j >= 0:
                    tagof.setdefault(ks[j], name)
    names = [m[0] for m in meter.marks]
    ords = [m[1] for m in meter.marks]

    def phase(i):
        j = bisect.bisect_right(ords, i) - 1
        return names[j] if j >= 0 else "load"

    return dict(
        peak_phase=phase(at),
        peak_replayed=peak,
        alive=[(size[i], stream[i], phase(i), tagof.get(i), site(frames[i])) for i in alive],
        at=(size[at], site(frames[at])),
    )


SKIP = (
    "torch/_ops.py",
    "torch/utils/_contextlib.py",
    "torch/nn/modules/module.py",
    "torch/_tensor.py",
    "torch/autograd/",
    "torch/_compile.py",
    "_dynamo/eval_frame.py",
    "deepspeed/utils/nvtx.py",
    "utils/_python_dispatch.py",
    "deepspeed/comm/",
    "torch/distributed/c10d_logger.py",
    "torch/nn/functional.py",
    "torch/utils/_device.py",
)


def short(f):
    n = f["filename"]
    for cut, keep in (("site-packages/", ""), ("/oracle/", "oracle/")):
        if cut in n:
            n = keep + n.split(cut)[-1]
    return f"{n}:{f['line']} {f['name']}"


def site(frames):
    """innermost library line and the next two callers, without wrappers"""
    if not frames:
        return None
    keep = [f for f in frames if not any(s in f["filename"] for s in SKIP)]
    return [short(f) for f in (keep or frames)[:3]]


def write_events(ev, meter, path, least=int(os.environ.get("TRACE_EVENTS_LEAST", 1 << 18))):
    """the larger allocations (+) and frees (-) in order: KiB, live KiB, stream, phase, site"""
    names = [m[0] for m in meter.marks]
    ords = [m[1] for m in meter.marks]
    live = {}
    cur = 0
    k = -1
    with open(path, "w") as f:
        for e in ev:
            if e["action"] == "alloc":
                k += 1
                cur += e["size"]
                j = bisect.bisect_right(ords, k) - 1
                ph = names[j] if j >= 0 else "load"
                s = site(e.get("frames")) or []
                live[e["addr"]] = (e["size"], k, s)
                if e["size"] >= least:
                    print(f"+{e['size'] >> 10:9d} live {cur >> 10:9d} s{e.get('stream', 0) & 0xFFFF:05x} {ph:16s} {' < '.join(s)}", file=f)
            elif e["action"] == "free_requested" and e["addr"] in live:
                n, q, s = live.pop(e["addr"])
                cur -= n
                j = bisect.bisect_right(ords, k) - 1
                if n >= least:
                    print(
                        f"-{n >> 10:9d} live {cur >> 10:9d}        {names[j] if j >= 0 else 'load':16s} (born {q}) {s[0] if s else ''}",
                        file=f,
                    )


def full_events(meter):
    """Every allocation and free from the beginning in order, with what made them, as oracle/trace.py --events has them; frees where the program lets go."""
    ev = torch.cuda.memory._snapshot()["device_traces"][0]
    names = [m[0] for m in meter.marks]
    ords = [m[1] for m in meter.marks]
    sizes, what, _table, index, live, aside, streams = [], [], [], {}, {}, {}, {}
    k = -1
    for e in ev:
        if e["action"] == "alloc":
            k += 1
            j = bisect.bisect_right(ords, k) - 1
            text = (names[j] if j >= 0 else "load") + " " + " < ".join(site(e.get("frames")) or ["?"])
            n = index.setdefault(text, len(index))
            live[e["addr"]] = (e["size"], n)
            sizes.append(e["size"])
            what.append(n)
            s = e.get("stream", 0)
            if s:
                aside.setdefault(str(streams.setdefault(s, len(streams) + 1)), []).append(k)
        elif e["action"] == "free_requested" and e["addr"] in live:
            size, n = live.pop(e["addr"])
            sizes.append(-size)
            what.append(n)
    return dict(events=sizes, names=list(index), what=what, aside=aside)
