#!/usr/bin/env python3
"""Trace one process of a job that runs on several GPUs, without a GPU (README.md).

    python rank.py job.json                      prints the truth object of one job
    python rank.py jobs.ndjson --out rows.jsonl  one line a job; skips ids that are there already
    --sites   beside it, what is alive at the peak, grouped by the line of the library that allocated it (truth.sites)
    --quick   without the run with expandable segments
    --events  every allocation and free in order into a file, which `go run ./estimator/crosses` reads

Each run is a process of its own (forked after the imports, before CUDA starts)."""

import argparse, json, os, sys, tempfile, time, traceback, signal

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.append(os.path.dirname(HERE))  # standin
DRIVER = os.environ.get("STANDIN", "")  # the folder that driver/build.sh made for this Python
LIB, NVML = os.path.join(DRIVER, "libcuda.so.1"), os.path.join(DRIVER, "libnvidia-ml.so.1")
PRELOAD = LIB + (":" + NVML if os.path.exists(NVML) else "")


def restart():
    """this program again, on the stand-in driver"""
    if LIB in os.environ.get("LD_PRELOAD", ""):
        return
    if not os.path.exists(LIB):
        sys.exit("STANDIN names no driver: run driver/build.sh first")
    e = dict(
        os.environ,
        LD_PRELOAD=PRELOAD,
        TRITON_LIBCUDA_PATH=DRIVER,
        HF_HUB_OFFLINE="1",
        OMP_NUM_THREADS="1",
        TORCH_NCCL_ENABLE_MONITORING="0",
        TORCH_NCCL_DUMP_ON_TIMEOUT="0",
        TORCH_CUDNN_V8_API_DISABLED="1",
        TRANSFORMERS_VERBOSITY="error",
        DS_ACCELERATOR="cuda",
        DS_SKIP_CUDA_CHECK="1",
        CUDA_HOME=os.path.join(HERE, "..", "driver"),
        TOKENIZERS_PARALLELISM="false",
        STANDIN_ZERO_MAX=str(1 << 20),
        PYTHONWARNINGS="ignore",
    )
    os.execve(sys.executable, [sys.executable, os.path.abspath(__file__)] + sys.argv[1:], e)


def one(case, expandable, history):
    """in the forked process: the figures of one run"""
    import jobs

    for k, v in jobs.gpu_env(case["job"]).items():
        os.environ[k] = v
    import torch

    torch.cuda._is_in_bad_fork = lambda: False
    torch.set_num_threads(1)
    torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{expandable}") if hasattr(
        torch._C, "_accelerator_setAllocatorSettings"
    ) else torch.cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
    import standin  # noqa: F401 (whoever asks whether a mask is all ones gets "yes")
    import group, loops

    job = case["job"]
    t = job["training"]
    d = t.get("distributed") or {}
    cfg = jobs.config_of(job, case["id"])
    cfg["steps"] = case.get("steps") or (3 if cfg["accum"] == 1 or d.get("pipeline_parallel", 1) > 1 else 2)
    group.join(d.get("rank", 0), d.get("world_size", 1), d.get("data") == "fsdp" and bool(d.get("offload_parameters")))
    meter = group.Meter(history)
    fw = t.get("framework", "nanogpt" if "nanogpt" in job["model"] else "hf-trainer")
    if fw == "torchtitan":
        import titan

        n, V = titan.by_titan(job, cfg, meter)
    elif fw == "deepspeed":
        n, V = loops.by_deepspeed(job, cfg, meter)
    elif fw == "hf-trainer":
        n, V = loops.by_trainer(job, cfg, meter)
    elif d.get("tensor_parallel", 1) > 1:
        import plan

        n, V = plan.by_plan(job, cfg, meter)
    else:
        n, V = loops.by_pytorch(job, cfg, meter)
    r = meter.result()
    r.update(parameters=n[0], trainable=n[1], V=V, batch=cfg["batch"], seq=cfg["seq"])
    if history == "sites":
        r.update(full=group.full_events(meter))
    if history:
        r.update(group.analyse(meter))
    r["versions"] = dict(torch=torch.__version__, cuda=torch.version.cuda)
    for m in ("transformers", "accelerate", "peft", "deepspeed"):
        if (
            m in sys.modules
            and (m != "peft" or t.get("lora"))
            and (m != "deepspeed" or str(d.get("data", "")).startswith("zero"))
            and (m != "accelerate" or fw == "hf-trainer")
        ):
            r["versions"][m] = sys.modules[m].__version__
    return r


def forked(case, expandable, history, timeout):
    path = tempfile.mktemp()
    log = tempfile.mktemp()
    pid = os.fork()
    if not pid:
        rc = 1
        try:
            fd = os.open(log, os.O_WRONLY | os.O_CREAT)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            r = one(case, expandable, history)
            rc = 0
        except BaseException:
            r = dict(error=traceback.format_exc()[-3000:])
        json.dump(r, open(path, "w"))
        os._exit(rc)
    t0 = time.time()
    while True:
        p, st = os.waitpid(pid, os.WNOHANG)
        if p:
            break
        if time.time() - t0 > timeout:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.1)
    try:
        r = json.load(open(path))
    except Exception:
        r = dict(error="no result: " + open(log).read()[-1500:])
    for f in (path, log):
        if os.path.exists(f):
            os.unlink(f)
    return r


COMPONENT = dict(
    weights="weights",
    gradients="gradients",
    master_weights="optimizer_state",
    optimizer_state="optimizer_state",
    communication="communication",
)


def component(size, phase, tag, site, V, tokens):
    if tag:
        return COMPONENT[tag]
    s = " ".join(site or [])
    if any(
        x in s
        for x in (
            "partition_parameters.py",
            "stage3.py",
            "stage_1_and_2.py",
            "_fsdp_collectives",
            "_fsdp_param",
            "_flat_param",
            "_runtime_utils",
            "_functional_collectives",
            "distributed_c10d",
            "torch/nn/parallel",
            "tensor/_redistribute",
            "pipelining",
        )
    ):
        return "communication"
    if V and any(size == tokens * V * b for b in (2, 4)) or (V and size >= tokens * V * 2 * 0.99 and "loss" in s):
        return "logits_and_loss"
    if "forward" in phase or phase == "load":
        return "activations"
    return "temporaries"


def truth_of(a, b, c, case):
    import jobs

    d = case["job"]["training"].get("distributed") or {}
    phase, step, micro = jobs.phase_of(a["peak_phase"].replace("after", "optimizer"))
    s, l = a["steps"], a["load"]
    t = dict(
        rank=d.get("rank", 0),
        parameters=a["parameters"],
        trainable_parameters=a["trainable"],
        allocated_bytes=s["allocated"],
        requested_bytes=s["requested"],
        active_bytes=s["active"],
        reserved_bytes=s["reserved"],
        reserved_expandable_bytes=b and b["steps"]["reserved"],
        min_limit_bytes=None,
        load_bytes=l["allocated"],
        load_reserved_bytes=l["reserved"],
        loaded_bytes=l["current"],
        steady_bytes=a["steady"][-1] if a["steady"] else None,
        phase=phase,
        step=step,
        micro_step=micro,
    )
    if c:
        groups = {}
        comp = {}
        tokens = a["batch"] * a["seq"]
        for size, stream, ph, tag, site in c["alive"]:
            k = component(size, ph, tag, site, a["V"], tokens)
            comp[k] = comp.get(k, 0) + -(-size // 512) * 512
            g = groups.setdefault((tag or k, tuple(site or ())), [0, 0])
            g[0] += size
            g[1] += 1
        t["by_component"] = comp
        t["components_exact"] = abs(sum(comp.values()) / s["allocated"] - 1) < 0.01
        t["sites"] = [
            dict(bytes=v[0], count=v[1], component=k[0], at=list(k[1])) for k, v in sorted(groups.items(), key=lambda x: -x[1][0])[:12]
        ]
        t["peak_at"] = dict(bytes=c["at"][0], site=c["at"][1], phase=c["peak_phase"])
    return t


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("jobs")
    ap.add_argument("--out")
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--sites", action="store_true")
    ap.add_argument("--events")
    ap.add_argument("--timeout", type=float, default=400)
    ap.add_argument("--errors", action="store_true", help="try rows with errors again")
    a = ap.parse_args()
    restart()
    import jobs

    text = sys.stdin.read() if a.jobs == "-" else open(a.jobs).read()
    try:
        docs = [json.loads(text)]
    except json.JSONDecodeError:
        docs = [json.loads(x) for x in text.splitlines() if x.strip()]
    cases = [x if "job" in x else dict(id=f"job-{i}", job=x) for i, x in enumerate(docs)]
    have = set()
    if a.out and os.path.exists(a.out):
        have = {r["id"] for r in map(json.loads, open(a.out)) if not (a.errors and "error" in r)}
    import torch  # once, before the forks

    if any(str((c["job"]["training"].get("distributed") or {}).get("data", "")).startswith("zero") for c in cases):
        real = torch.compile
        torch.compile = lambda f=None, **k: f or (lambda g: g)  # Muon's file compiles while it is imported: 20 s
        try:
            from deepspeed.runtime.zero.muon import muon_optimizer
        except ImportError:
            pass
        torch.compile = real
    if any(c["job"]["training"].get("lora") for c in cases):
        pass
    for c in cases:
        if c["id"] in have:
            continue
        t0 = time.time()
        x = forked(c, False, "plain", a.timeout)
        y = z = None
        if "error" not in x and not a.quick:
            y = forked(c, True, None, a.timeout)
        if "error" not in x and (a.sites or a.events):
            z = forked(c, False, "sites", a.timeout)
        bad = next((r["error"] for r in (x, y, z) if r and "error" in r), None)
        if bad:
            row = dict(id=c["id"], job=c["job"], error=bad)
            print(c["id"], "ERROR", bad.strip().splitlines()[-1][:300], file=sys.stderr, flush=True)
        else:
            if a.events:
                releases = {m: v.split("+")[0] for m, v in x["versions"].items() if m in ("torch", "transformers", "accelerate", "deepspeed")}
                training = dict(c["job"]["training"], versions=releases)
                with open(a.events, "a") as f:
                    row = dict(id=c["id"], job=dict(c["job"], training=training), card=jobs.card(c["job"]))
                    f.write(json.dumps(dict(row, **z["full"])) + "\n")
            t = truth_of(x, y, z, c)
            row = dict(id=c["id"], job=c["job"], truth=t, tags=jobs.tags_of(c["job"]) + c.get("tags", []), versions=x["versions"])
            print(
                f"{c['id']:44s} N={t['parameters'] / 1e6:8.1f}M load={t['load_bytes'] / 2**20:8.0f} loaded={t['loaded_bytes'] / 2**20:8.0f} allocated={t['allocated_bytes'] / 2**20:8.0f} active={t['active_bytes'] / 2**20:8.0f} reserved={t['reserved_bytes'] / 2**20:8.0f} {str(t['phase']):9s} s{t['step']} {time.time() - t0:.0f}s",
                file=sys.stderr,
                flush=True,
            )
        if a.out:
            with open(a.out, "a") as f:
                f.write(json.dumps(row) + "\n")
        else:
            print(json.dumps(row.get("truth") or row, indent=2))


if __name__ == "__main__":
    main()
