"""What transformers' TrainingArguments are given for a job that several GPUs share (DeepSpeed's ZeRO, FSDP), and what has to be there before
a model is made. For the trainers that are built on transformers' Trainer."""

import contextlib
import copy
import os

SHARDED = {True: "full_shard", False: "shard_grad_op"}


def of(job):
    return job["training"].get("distributed") or {}


def stage(job):
    """The stage of ZeRO, 0 for none."""
    data = str(of(job).get("data", ""))
    return int(data[4]) if data.startswith("zero") else 0


def on_the_host(job):
    """Whether tensors in the CPU's memory are sent, too."""
    return of(job).get("data") == "fsdp" and bool(of(job).get("offload_parameters"))


def patch(job):
    """Lets DeepSpeed compare no notes: what rank 0 "sent" to another rank is zeros."""
    if not stage(job):
        return
    import deepspeed.runtime.zero.partition_parameters as pp
    import deepspeed.runtime.zero.partitioned_param_coordinator as pc
    import deepspeed.runtime.zero.utils as zu
    import loops

    loops.patch_deepspeed()
    compare = zu.assert_ints_same_as_other_ranks

    def compared(*args, **kwargs):
        with contextlib.suppress(RuntimeError):
            compare(*args, **kwargs)

    for module in (zu, pc, pp):
        if hasattr(module, "assert_ints_same_as_other_ranks"):
            module.assert_ints_same_as_other_ranks = compared


def unsaid():
    """The version of FSDP that the Trainer takes where its arguments name none (training_args.py, _process_fsdp_args)."""
    import transformers

    return 2 if tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 10) else 1


def settings(job):
    """The arguments of the Trainer."""
    if stage(job):
        import loops

        precision = job["training"].get("precision", "amp-bf16")
        given = copy.deepcopy(job)
        given["training"].setdefault("precision", precision)
        return dict(deepspeed=loops.deepspeed_config(given, True), bf16="bf16" in precision, fp16="fp16" in precision)
    if of(job).get("data") != "fsdp":
        return {}
    d = of(job)
    version = int(d.get("fsdp_version") or unsaid())
    reshard = d.get("reshard_after_forward", True)
    config = dict(version=version)
    if version == 2:
        config["reshard_after_forward"] = reshard
        os.environ.update(FSDP_VERSION="2", FSDP_RESHARD_AFTER_FORWARD=str(reshard).lower())
    else:
        config["limit_all_gathers"] = d.get("limit_all_gathers", True)
    kind = "hybrid_shard" if d.get("shard_group") else SHARDED[reshard]
    return dict(fsdp=f"{kind} auto_wrap" + (" offload" if d.get("offload_parameters") else ""), fsdp_config=config)


@contextlib.contextmanager
def zero_init(config):
    """What from_pretrained makes a model in under ZeRO-3: zero.Init with the Trainer's configuration, but for what it fills in later, and
    without initial values, which would be written into weights that are not there."""
    import deepspeed

    try:
        from transformers.initialization import no_init_weights  # from 5.0 on
    except ImportError:
        from transformers.modeling_utils import no_init_weights
    made = copy.deepcopy(config)
    for k in [k for k, v in made.items() if v == "auto"]:
        made.pop(k)
    made["zero_optimization"] = {k: v for k, v in made["zero_optimization"].items() if v != "auto"}
    with no_init_weights(), deepspeed.zero.Init(config_dict_or_path=made):
        yield


def variables(jobs):
    """Those of the environment that a process group and DeepSpeed want on a device that does nothing."""
    if not any(of(job) for job in jobs):
        return {}
    here = os.path.dirname(os.path.abspath(__file__))
    return dict(
        TORCH_NCCL_ENABLE_MONITORING="0",
        TORCH_NCCL_DUMP_ON_TIMEOUT="0",
        DS_ACCELERATOR="cuda",
        DS_SKIP_CUDA_CHECK="1",
        CUDA_HOME=os.path.join(here, "..", "driver"),
        STANDIN_ZERO_MAX=str(1 << 20),
    )


def prepare(jobs):
    """Imports DeepSpeed before processes are forked. Its file of Muon compiles while it is imported, for 20 s."""
    if not any(stage(job) for job in jobs):
        return
    import torch

    torch.cuda._is_in_bad_fork = lambda: False  # it asks for the number of devices
    real = torch.compile
    torch.compile = lambda f=None, **_: f or (lambda g: g)
    try:
        from deepspeed.runtime.zero.muon import muon_optimizer  # noqa: F401
    except ImportError:
        pass
    torch.compile = real
