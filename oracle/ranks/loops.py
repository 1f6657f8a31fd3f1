"""The training loops of group.py: transformers' own Trainer (DDP, FSDP 1 and 2, DeepSpeed), DeepSpeed's engine by hand, plain PyTorch (DDP, FSDP 1 and 2,
HSDP, tensor parallelism as torchtitan does it, context parallelism), and torch.distributed.pipelining."""

import os, contextlib, tempfile
import torch, torch.nn as nn, torch.nn.functional as F
import jobs, models, sharding
from group import shadowed

LAYER = {
    "llama": "LlamaDecoderLayer",
    "mistral": "MistralDecoderLayer",
    "qwen2": "Qwen2DecoderLayer",
    "qwen3": "Qwen3DecoderLayer",
    "gpt2": "GPT2Block",
    "gpt_neox": "GPTNeoXLayer",
    "mixtral": "MixtralDecoderLayer",
    "gemma2": "Gemma2DecoderLayer",
    "phi3": "Phi3DecoderLayer",
    "opt": "OPTDecoderLayer",
    "qwen3_moe": "Qwen3MoeDecoderLayer",
    "bert": "BertLayer",
    "vit": "ViTLayer",
    "t5": "T5Block",
}
FLOAT = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def make_opt(name, ps):
    if name == "adamw_fused":
        return torch.optim.AdamW(ps, fused=True)
    if name == "adamw_foreach":
        return torch.optim.AdamW(ps, foreach=True)
    if name == "adamw_loop":
        return torch.optim.AdamW(ps, foreach=False)
    if name == "adam_fused":
        return torch.optim.Adam(ps, fused=True)
    if name == "sgd":
        return torch.optim.SGD(ps, lr=0.1)
    if name == "sgd_momentum":
        return torch.optim.SGD(ps, lr=0.1, momentum=0.9)
    if name == "sgd_momentum_fused":
        return torch.optim.SGD(ps, lr=0.1, momentum=0.9, fused=True)
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(ps, scale_parameter=False, relative_step=False, lr=1e-3)
    if name == "adafactor_torch":
        return torch.optim.Adafactor(ps)
    raise ValueError(name)


def stored(t):
    """type in which the model is made"""
    s = (t.get("states") or {}).get("weights")
    p = t.get("precision", "amp-bf16")
    if t.get("lora") and "base_precision" in t["lora"]:
        return FLOAT[t["lora"]["base_precision"]]
    return FLOAT[s or {"bf16": "bf16", "fp16": "fp16"}.get(p, "fp32")]


def build(job, cfg, under=None):
    t = job["training"]
    torch.set_default_dtype(stored(t))
    try:
        with under or contextlib.nullcontext():
            model, batch, V = models.build(cfg)
    finally:
        torch.set_default_dtype(torch.float32)
    v = (t.get("versions") or {}).get("transformers")
    if v and tuple(map(int, v.split(".")[:2])) < (4, 46) and hasattr(model, "loss_function"):
        model.loss_function = loss_before_446
    if t.get("lora"):
        import peft

        lo = t["lora"]
        if cfg.get("ckpt"):
            model.enable_input_require_grads()
        model = peft.get_peft_model(
            model,
            peft.LoraConfig(
                r=lo["rank"],
                lora_alpha=2 * lo["rank"],
                target_modules=lo["target_modules"],
                lora_dropout=lo.get("dropout", 0.0),
                bias="none",
            ),
            autocast_adapter_dtype=lo.get("adapter_dtype", "fp32") == "fp32",
        )
    return model, batch, V


def loss_before_446(logits, labels, vocab_size, **k):
    """transformers up to 4.45: float32 logits and a shifted copy of them"""
    logits = logits.float()
    shifted = logits[..., :-1, :].contiguous()
    labels = labels[..., 1:].contiguous()
    return F.cross_entropy(shifted.view(-1, vocab_size), labels.view(-1))


def layers_of(model):
    ms = [m for n, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    return max(ms, key=len) if ms else []


# ---------------------------------------------------------------- DeepSpeed
def deepspeed_config(job, hf):
    """ds_config.json of a job: `deepspeed` is its zero_optimization section; the Trainer's 'auto' values are left to the Trainer."""
    t = job["training"]
    d = t["distributed"]
    z = dict(d.get("deepspeed") or {})
    z["stage"] = int(d["data"][4])
    if d.get("offload_optimizer") and "offload_optimizer" not in z:
        z["offload_optimizer"] = dict(device="cpu", pin_memory=True)
    if d.get("offload_parameters") and "offload_param" not in z:
        z["offload_param"] = dict(device="cpu", pin_memory=True)
    ga = t.get("gradient_accumulation", 1)
    c = dict(
        zero_optimization=z,
        train_micro_batch_size_per_gpu=t["micro_batch"],
        gradient_accumulation_steps=ga,
        gradient_clipping=1.0 if t.get("clip_grad_norm", True) else 0.0,
        zero_allow_untested_optimizer=True,
        steps_per_print=10**9,
    )
    if "fp16" in t["precision"]:
        c["fp16"] = dict(enabled=True, initial_scale_power=16, loss_scale=0)
    elif "bf16" in t["precision"]:
        c["bf16"] = dict(enabled=True)
    if (t.get("states") or {}).get("gradients") and d.get("grad_accum_dtype"):
        c["data_types"] = dict(grad_accum_dtype=d["grad_accum_dtype"])
    c.update(d.get("deepspeed_config") or {})
    if hf:
        c["train_batch_size"] = t["micro_batch"] * ga * d["world_size"]
    return c


def patch_deepspeed():
    """Ranks do not compare notes; kernels that need a compiler are empty (optimizers on the CPU, FusedAdam's multi-tensor kernel)."""
    import deepspeed.runtime.zero.utils as zu

    for f in ("get_lst_from_rank0", "assert_lst_len_same_as_other_ranks", "assert_ints_same_as_other_ranks"):
        if hasattr(zu, f):
            setattr(zu, f, shadowed(getattr(zu, f)))
    import deepspeed.runtime.zero.partitioned_param_coordinator as pc

    pc.assert_ints_same_as_other_ranks = zu.assert_ints_same_as_other_ranks
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    def init(self, ps, *a, **k):
        torch.optim.Optimizer.__init__(
            self, ps, dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, bias_correction=True, amsgrad=False)
        )
        self.opt_id = 0
        self.adam_w_mode = True

    DeepSpeedCPUAdam.__init__ = init
    DeepSpeedCPUAdam.step = lambda self, closure=None, **k: None
    DeepSpeedCPUAdam.__del__ = lambda self: None


def deepspeed_watch(meter, count):
    """marks inside accelerator.backward, which steps as well"""
    import deepspeed

    E = deepspeed.DeepSpeedEngine
    step, _backward = E.step, E.backward

    def s(self, *a, **k):
        if self.is_gradient_accumulation_boundary():
            meter.mark(f"s{count[0]}.optimizer")
        r = step(self, *a, **k)
        meter.mark(f"s{count[0]}.m{count[1]}.after")
        return r

    E.step = s


def tag_model(meter, model, opt):
    ps = list(model.parameters())
    local = lambda x: x._local_tensor if hasattr(x, "_local_tensor") else x
    meter.tag(
        "weights",
        [local(p.data) for p in ps] + [p.ds_tensor for p in ps if getattr(p, "ds_tensor", None) is not None] + list(model.buffers()),
    )
    meter.tag("gradients", [local(p.grad) for p in ps if p.grad is not None])
    o = opt
    for _ in range(3):
        if (
            o is not None
            and hasattr(o, "optimizer")
            and not hasattr(o, "fp32_partitioned_groups_flat")
            and not hasattr(o, "single_partition_of_fp32_groups")
        ):
            o = o.optimizer
    for name, attr in (
        ("master_weights", "single_partition_of_fp32_groups"),
        ("master_weights", "fp32_partitioned_groups_flat"),
        ("weights", "bit16_groups_flat"),
        ("weights", "fp16_partitioned_groups_flat"),
    ):
        v = getattr(o, attr, None)
        if v:
            meter.tag(name, [x for x in v if isinstance(x, torch.Tensor)])
    g = getattr(o, "grad_partitions_flat_buffer", None)
    if isinstance(g, torch.Tensor):
        meter.tag("gradients", [g])
    g = getattr(o, "averaged_gradients", None)
    if isinstance(g, dict):
        meter.tag("gradients", [x for l in g.values() if l for x in l])
    for attr in ("ipg_buffer", "_DeepSpeedZeroOptimizer_Stage3__ipg_bucket_flat_buffer", "bf16_buffer"):
        v = getattr(o, attr, None)
        if isinstance(v, torch.Tensor):
            meter.tag("communication", [v])
        elif isinstance(v, (list, tuple)):
            meter.tag("communication", [x for x in v if isinstance(x, torch.Tensor)])
    b = getattr(o, "ipg_buckets", None)
    if isinstance(b, dict):
        for k in b.values():
            x = getattr(k, "buffer", None)
            meter.tag("communication", [x] if isinstance(x, torch.Tensor) else list(x or []))
    inner = getattr(o, "optimizer", o)
    st = getattr(inner, "state", None)
    if st:
        meter.tag(
            "optimizer_state",
            [local(v) for s in list(st.values()) if isinstance(s, dict) for v in s.values() if isinstance(v, torch.Tensor)],
        )


def sizes(model):
    n = lambda p: getattr(p, "ds_numel", None) or p.numel()
    return sum(n(p) for p in model.parameters()), sum(n(p) for p in model.parameters() if p.requires_grad)


def adam(job, ps):
    return make_opt(jobs.optimizer_key(job["training"].get("optimizer"), job["training"].get("framework")), ps)


def by_deepspeed(job, cfg, meter):
    """DeepSpeed's own loop: engine(batch), engine.backward(loss), engine.step()."""
    import deepspeed

    patch_deepspeed()
    t = job["training"]
    d = t["distributed"]
    ga = t.get("gradient_accumulation", 1)
    c = deepspeed_config(job, False)
    h = (job["model"].get("hf_config") or {}).get("hidden_size") or (job["model"].get("hf_config") or {}).get("n_embd") or 0
    for k, v in (
        ("reduce_bucket_size", h * h),
        ("stage3_prefetch_bucket_size", int(0.9 * h * h)),
        ("stage3_param_persistence_threshold", 10 * h),
    ):
        if c["zero_optimization"].get(k) == "auto":
            c["zero_optimization"][k] = v
    model, batch, V = build(
        job, cfg, deepspeed.zero.Init(config_dict_or_path=c) if d["data"] == "zero3" and d.get("zero_init", True) else None
    )
    if cfg.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=True))
    model.train()
    n = sizes(model)
    tr = [p for p in model.parameters() if p.requires_grad]
    if (c["zero_optimization"].get("offload_optimizer") or {}).get("device", "none") != "none":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        opt = DeepSpeedCPUAdam(tr)
    else:
        opt = adam(job, tr)
    count = [0, 0]
    deepspeed_watch(meter, count)
    engine, opt2, _, _ = deepspeed.initialize(model=model, optimizer=opt, config=c)
    meter.loaded()
    tag_model(meter, model, opt2)
    for step in range(cfg["steps"]):
        for mi in range(ga):
            count[:] = [step, mi]
            meter.mark(f"s{step}.m{mi}.forward")
            a, k = batch()
            loss = engine(*a, **k).loss
            del a, k
            meter.mark(f"s{step}.m{mi}.backward")
            engine.backward(loss)
            meter.mark(f"s{step}.m{mi}.endbwd")
            tag_model(meter, model, opt2)
            engine.step()
        tag_model(meter, model, opt2)
        meter.end_step()
    return n, V


# ---------------------------------------------------------------- transformers' Trainer
class Endless(torch.utils.data.Dataset):
    """n examples for a model: a picture or tokens, and a label for each of tgt tokens, or one for all"""

    def __init__(self, n, model, T, tgt):
        self.n = n
        self.T = T
        self.pixels = None
        kind, c = type(model).__name__, model.config
        if kind.endswith("ForImageClassification"):
            self.pixels = (c.num_channels, c.image_size, c.image_size)
        self.labels = () if kind.endswith("Classification") else (tgt,)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        labels = torch.zeros(self.labels, dtype=torch.long)
        if self.pixels:
            return dict(pixel_values=torch.zeros(self.pixels), labels=labels)
        return dict(
            input_ids=torch.zeros(self.T, dtype=torch.long),
            attention_mask=torch.ones(self.T, dtype=torch.long),
            labels=labels,
        )


def by_trainer(job, cfg, meter):
    import transformers
    import accelerate.data_loader as dl

    dl.synchronize_rng_states = lambda *a, **k: None  # would set generators to what rank 0 "sent"
    t = job["training"]
    d = t.get("distributed") or dict(data="ddp", world_size=1)
    ga = t.get("gradient_accumulation", 1)
    mb = t["micro_batch"]
    W = d["world_size"]
    out = tempfile.mkdtemp()
    kw = dict(
        output_dir=out,
        per_device_train_batch_size=mb,
        gradient_accumulation_steps=ga,
        max_steps=cfg["steps"],
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        max_grad_norm=1.0 if t.get("clip_grad_norm", True) else 0.0,
        remove_unused_columns=False,
        dataloader_pin_memory=True,
        dataloader_num_workers=0,
        bf16="bf16" in t["precision"] and t["precision"].startswith("amp") or ("bf16" in t["precision"] and d["data"].startswith("zero")),
        fp16="fp16" in t["precision"] and (t["precision"].startswith("amp") or d["data"].startswith("zero")),
        gradient_checkpointing=bool(cfg.get("ckpt")),
        gradient_checkpointing_kwargs=dict(use_reentrant=cfg.get("ckpt_reentrant", True)) if cfg.get("ckpt") else None,
        optim={"adamw_fused": "adamw_torch_fused", "adamw_foreach": "adamw_torch", "sgd": "sgd", "adafactor": "adafactor"}[
            jobs.optimizer_key(t.get("optimizer"), "hf-trainer")
        ],
        tf32=False,
        skip_memory_metrics=True,
        average_tokens_across_devices=d.get("average_tokens", True),
    )
    under = None
    hf = job["model"].get("hf_config") or {}
    layer = LAYER.get(hf.get("model_type")) or (hf and (jobs.model_class(hf)._no_split_modules or [None])[0])
    if d["data"].startswith("zero"):
        import deepspeed

        patch_deepspeed()

        kw["deepspeed"] = deepspeed_config(job, True)
    elif d["data"] == "fsdp":
        v = int(d.get("fsdp_version") or sharding.unsaid())
        fc = (
            dict(transformer_layer_cls_to_wrap=[layer], fsdp_version=v)
            if v == 2
            else dict(
                transformer_layer_cls_to_wrap=[layer],
                limit_all_gathers=d.get("limit_all_gathers", True),
                use_orig_params=d.get("use_orig_params", bool(t.get("lora"))),
                backward_prefetch=d.get("backward_prefetch", "no_prefetch"),
            )
        )
        ras = d.get("reshard_after_forward", True)
        if v == 2:
            fc["reshard_after_forward"] = ras
        if d.get("activation_checkpointing"):
            fc["activation_checkpointing"] = True
            kw["gradient_checkpointing"] = False
            kw["gradient_checkpointing_kwargs"] = None
        if v == 2:
            os.environ["FSDP_VERSION"] = "2"
        shard = {True: "full_shard", False: "shard_grad_op"}[ras] if not d.get("shard_group") else "hybrid_shard"
        if v == 1 and d.get("shard_group"):  # FSDP1 shards within a host, which has as many GPUs as the driver says: one
            import torch.distributed.fsdp._init_utils as init

            groups = init._init_intra_and_inter_node_groups
            init._init_intra_and_inter_node_groups = lambda group, _: groups(group, d["shard_group"])
        if v == 2 and d.get("shard_group"):  # FSDP2 does not read the word
            from accelerate.parallelism_config import ParallelismConfig

            kw["parallelism_config"] = ParallelismConfig(
                dp_replicate_size=d["world_size"] // d["shard_group"], dp_shard_size=d["shard_group"]
            )
            shard = "full_shard"
        kw.update(fsdp=f"{shard} auto_wrap" + (" offload" if d.get("offload_parameters") else ""), fsdp_config=fc)
    elif d["data"] == "ddp":
        if d.get("find_unused_parameters") is not None:
            kw["ddp_find_unused_parameters"] = d["find_unused_parameters"]
        if d.get("bucket_cap_mb"):
            kw["ddp_bucket_cap_mb"] = d["bucket_cap_mb"]
    args = transformers.TrainingArguments(**kw)  # before the model: zero.Init has to know its configuration
    if d["data"] == "zero3" and d.get("zero_init", True):  # made while the configuration is known: transformers enters zero.Init then
        import copy

        c = copy.deepcopy(args.hf_deepspeed_config.config)
        hc = job["model"]["hf_config"]
        h = hc.get("hidden_size") or hc.get("n_embd") or hc.get("d_model") or hc["text_config"]["hidden_size"]
        for k, v in (
            ("reduce_bucket_size", h * h),
            ("stage3_prefetch_bucket_size", int(0.9 * h * h)),
            ("stage3_param_persistence_threshold", 10 * h),
        ):
            if c["zero_optimization"].get(k) == "auto":
                c["zero_optimization"][k] = v
        for k in ("train_batch_size", "gradient_clipping"):
            if c.get(k) == "auto":
                c.pop(k)
        under = deepspeed.zero.Init(config_dict_or_path=c)
    model, batch, V = build(job, cfg, under)
    n = sizes(model)
    T = cfg["seq"]
    data = Endless(W * mb * ga * (cfg["steps"] + 2), model, T, cfg.get("tgt", T))
    count = [0, 0]
    seen = dict(loaded=False)

    class T_(transformers.Trainer):
        def compute_loss(self, m, inputs, *a, **k):
            if not seen["loaded"]:
                seen["loaded"] = True
                meter.loaded()
                tag_model(meter, self.model, self.optimizer)
            meter.mark(f"s{count[0]}.m{count[1]}.forward")
            r = super().compute_loss(m, inputs, *a, **k)
            meter.mark(f"s{count[0]}.m{count[1]}.backward")
            return r

        def training_step(self, *a, **k):
            r = super().training_step(*a, **k)
            meter.mark(f"s{count[0]}.m{count[1]}.endbwd")
            tag_model(meter, self.model, self.optimizer)
            count[1] += 1
            return r

    class C(transformers.TrainerCallback):
        def on_optimizer_step(self, *a, **k):
            tag_model(meter, tr.model, tr.optimizer)

        def on_step_end(self, *a, **k):
            meter.mark(f"s{count[0]}.end")
            meter.end_step()
            count[0] += 1
            count[1] = 0

    tr = T_(model=model, args=args, train_dataset=data, callbacks=[C()], data_collator=transformers.default_data_collator)
    if d["data"].startswith("zero"):
        deepspeed_watch(meter, count)
    clip = tr.accelerator.clip_grad_norm_

    def watched(*a, **k):
        meter.mark(f"s{count[0]}.optimizer")
        return clip(*a, **k)

    tr.accelerator.clip_grad_norm_ = watched
    tr.train()
    return n, V


# ---------------------------------------------------------------- plain PyTorch
def steps_plain(job, cfg, meter, model, opt, batch, forward, sync=None, clip=None, scaler=None, final=None):
    t = job["training"]
    ga = t.get("gradient_accumulation", 1)
    hold = t.get("hold_logits", cfg["loop"] != "trainer")
    loss = None
    meter.loaded()
    tag_model(meter, model, opt)
    a, k = batch()
    for step in range(cfg["steps"]):
        for mi in range(ga):
            last = mi == ga - 1
            with sync(last) if sync else contextlib.nullcontext():
                meter.mark(f"s{step}.m{mi}.forward")
                out = forward(a, k)
                loss = out[0]
                held = out[1] if hold else None  # noqa: F841 (a variable of the loop, which keeps the logits)
                del out
                if ga > 1:
                    loss = loss / ga
                del a, k
                a, k = batch()
                meter.mark(f"s{step}.m{mi}.backward")
                (scaler.scale(loss) if scaler else loss).backward()
                meter.mark(f"s{step}.m{mi}.endbwd")
                tag_model(meter, model, opt)
                if not hold:
                    loss = None
        meter.mark(f"s{step}.optimizer")
        if t.get("clip_grad_norm", True) is not False:
            if scaler:
                scaler.unscale_(opt)
            (clip or (lambda: torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)))()
        if scaler:
            scaler.step(opt)
            scaler.update()
        else:
            opt.step()
        tag_model(meter, model, opt)
        opt.zero_grad(set_to_none=True)
        meter.mark(f"s{step}.end")
        meter.end_step()


def autocast_of(t):
    p = t.get("precision", "amp-bf16")
    if p == "amp-bf16":
        return lambda: torch.autocast("cuda", dtype=torch.bfloat16)
    if p == "amp-fp16":
        return lambda: torch.autocast("cuda", dtype=torch.float16)
    return contextlib.nullcontext


def by_pytorch(job, cfg, meter):
    t = job["training"]
    d = t.get("distributed") or {}
    W = d.get("world_size", 1)
    nano = "nanogpt" in job["model"]
    model, batch, V = build(job, cfg)
    if cfg.get("ckpt") and not nano:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=cfg.get("ckpt_reentrant", True)))
    model.train()
    n = sizes(model)
    ctx = autocast_of(t)
    sync = None
    wrapped = model
    clip = None
    states = t.get("states") or {}
    if d.get("data") == "ddp":
        model.to("cuda")
        wrapped = nn.parallel.DistributedDataParallel(
            model,
            device_ids=[0],
            find_unused_parameters=d.get("find_unused_parameters", False),
            static_graph=d.get("static_graph", False),
            gradient_as_bucket_view=d.get("gradient_as_bucket_view", False),
            bucket_cap_mb=d.get("bucket_cap_mb", None),
        )
        sync = lambda last: contextlib.nullcontext() if last or d.get("no_sync", True) is False else wrapped.no_sync()
    elif d.get("data") == "fsdp":
        mesh = None
        from torch.distributed.device_mesh import init_device_mesh

        if d.get("shard_group"):
            mesh = init_device_mesh("cuda", (W // d["shard_group"], d["shard_group"]), mesh_dim_names=("replicate", "shard"))
        if int(d.get("fsdp_version", 2)) == 2:
            from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy, CPUOffloadPolicy

            mesh = mesh or init_device_mesh("cuda", (W,), mesh_dim_names=("shard",))
            kw = dict(mesh=mesh, reshard_after_forward=d.get("reshard_after_forward", True))
            if states.get("weights", None) and t["precision"] in ("bf16", "fp16") and FLOAT[states["weights"]] != FLOAT[t["precision"]]:
                kw["mp_policy"] = MixedPrecisionPolicy(
                    param_dtype=FLOAT[t["precision"]], reduce_dtype=FLOAT[states.get("gradients", "fp32")]
                )
            if d.get("offload_parameters"):
                kw["offload_policy"] = CPUOffloadPolicy()
            for m in layers_of(model):
                fully_shard(m, **kw)
            fully_shard(model, **kw)
            if not d.get("offload_parameters"):
                model.to("cuda")
            sync_now = d.get("no_sync")
            if sync_now:

                def sync(last):
                    model.set_requires_gradient_sync(last)
                    return contextlib.nullcontext()
        else:
            from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy, CPUOffload
            from torch.distributed.fsdp.wrap import ModuleWrapPolicy

            mp = None
            if states.get("weights", None) and t["precision"] in ("bf16", "fp16") and FLOAT[states["weights"]] != FLOAT[t["precision"]]:
                mp = MixedPrecision(
                    param_dtype=FLOAT[t["precision"]],
                    reduce_dtype=FLOAT[states.get("gradients", "fp32")],
                    buffer_dtype=FLOAT[t["precision"]],
                )
            ras = d.get("reshard_after_forward", True)
            strat = (
                ShardingStrategy.HYBRID_SHARD
                if mesh is not None
                else ShardingStrategy.FULL_SHARD
                if ras
                else ShardingStrategy.SHARD_GRAD_OP
            )
            wrapped = FSDP(
                model,
                auto_wrap_policy=ModuleWrapPolicy({type(layers_of(model)[0])}),
                mixed_precision=mp,
                device_id=0,
                limit_all_gathers=d.get("limit_all_gathers", True),
                use_orig_params=d.get("use_orig_params", True),
                sharding_strategy=strat,
                device_mesh=mesh,
                cpu_offload=CPUOffload(offload_params=True) if d.get("offload_parameters") else None,
            )
            clip = lambda: wrapped.clip_grad_norm_(1.0)
            if d.get("no_sync"):
                sync = lambda last: contextlib.nullcontext() if last else wrapped.no_sync()
    else:
        model.to("cuda")
    opt = adam(job, [p for p in wrapped.parameters() if p.requires_grad])
    scaler = torch.amp.GradScaler("cuda") if t.get("precision") == "amp-fp16" else None

    def forward(a, k):
        with ctx():
            o = wrapped(*a, **k)
        return (o[1], o[0]) if isinstance(o, tuple) else (o.loss, o)

    steps_plain(job, cfg, meter, model, opt, batch, forward, sync, clip, scaler)
    return n, V
