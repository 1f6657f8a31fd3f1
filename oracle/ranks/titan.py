"""torchtitan's own Trainer (0.2.0, Llama 3) on the stand-in driver: FSDP2, HSDP, tensor + sequence parallelism with loss parallelism, pipeline and context parallelism.
The model's shape is the job's hf_config; data is empty; everything between batch and optimizer is torchtitan's."""

import sys, types, importlib, importlib.machinery, tempfile
import torch, torch.nn as nn
import jobs
from loops import tag_model

SCHEDULE = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved-1f1b": "Interleaved1F1B",
    "zb-v": "ZBVZeroBubble",
    "interleaved-zero-bubble": "InterleavedZeroBubble",
    "dualpipe-v": "DualPipeV",
}


class Absent(types.ModuleType):
    """torchtitan imports data sets, loggers and tokenizers at its top; none is used here"""

    __path__ = []

    def __getattr__(self, n):
        if n.startswith("__"):
            raise AttributeError(n)
        return type(n, (), {"__init__": lambda self, *a, **k: None})


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("datasets", "torchdata", "tensorboard", "wandb") or name == "torch.utils.tensorboard":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, m):
        pass


class Data:
    def __init__(self, mb, seq):
        self.mb, self.seq = mb, seq

    def __iter__(self):
        while True:
            yield dict(input=torch.empty(self.mb, self.seq, dtype=torch.long)), torch.empty(self.mb, self.seq, dtype=torch.long)

    def state_dict(self):
        return {}

    def load_state_dict(self, s):
        pass


def shape(hc, l3):
    kind = hc["model_type"]
    common = dict(dim=hc["hidden_size"], n_layers=hc["num_hidden_layers"], n_heads=hc["num_attention_heads"], vocab_size=hc["vocab_size"])
    if kind == "llama":
        A = l3.TransformerModelArgs
        args = A(n_kv_heads=hc.get("num_key_value_heads"), rope_theta=hc.get("rope_theta", 500000), **common)
        import torchtitan.models.llama3.model.model as mm

        ffn = hc["intermediate_size"]
        real = mm.FeedForward.__init__

        def init(self, dim, hidden_dim, multiple_of, ffn_dim_multiplier):
            real(self, dim, ffn * 3 // 2 if (ffn * 3) % 2 == 0 else -(-ffn * 3 // 2), 1, None)

        mm.FeedForward.__init__ = init  # torchtitan rounds the width of its feed-forward layer by a rule; the job says it
        return l3.Transformer, args, l3.parallelize_llama
    from torchtitan.models.moe import MoEArgs

    if kind in ("qwen3", "qwen3_moe"):
        import torchtitan.models.qwen3 as q

        moe = kind == "qwen3_moe"
        if moe:
            common.update(
                moe_enabled=True,
                moe_inter_dim=hc["moe_intermediate_size"],
                moe_args=MoEArgs(
                    num_experts=hc["num_experts"],
                    num_shared_experts=0,
                    top_k=hc["num_experts_per_tok"],
                    score_func="softmax",
                    route_norm=hc.get("norm_topk_prob", True),
                    route_scale=1.0,
                    score_before_experts=False,
                ),
            )
        return (
            q.Qwen3Model,
            q.Qwen3ModelArgs(
                n_kv_heads=hc["num_key_value_heads"],
                head_dim=hc.get("head_dim", 128),
                hidden_dim=hc["intermediate_size"],
                qk_norm=True,
                **common,
            ),
            q.parallelize_qwen3,
        )
    if kind in ("deepseek_v3", "deepseek_v2"):
        import torchtitan.models.deepseek_v3 as q

        v3 = kind == "deepseek_v3"
        return (
            q.DeepSeekV3Model,
            q.DeepSeekV3ModelArgs(
                inter_dim=hc["intermediate_size"],
                moe_inter_dim=hc["moe_intermediate_size"],
                n_dense_layers=hc.get("first_k_dense_replace", 0),
                q_lora_rank=hc.get("q_lora_rank") or 0,
                kv_lora_rank=hc["kv_lora_rank"],
                qk_nope_head_dim=hc["qk_nope_head_dim"],
                qk_rope_head_dim=hc["qk_rope_head_dim"],
                v_head_dim=hc["v_head_dim"],
                moe_args=MoEArgs(
                    num_experts=hc["n_routed_experts"],
                    num_shared_experts=hc.get("n_shared_experts") or 0,
                    top_k=hc["num_experts_per_tok"],
                    score_func="sigmoid" if v3 else "softmax",
                    route_norm=hc.get("norm_topk_prob", v3),
                    route_scale=hc.get("routed_scaling_factor", 1.0),
                    score_before_experts=False,
                ),
                **common,
            ),
            q.parallelize_deepseekv3,
        )
    raise jobs.Unsupported(kind)


def balanced(tokens, ep):
    """Every expert gets as many tokens as the others: what is read back of the device are zeros"""
    import torchtitan.distributed.expert_parallel as e

    real = e.ExpertParallel._token_dispatch

    def dispatch(self, mod, inputs, mesh):
        rows, n = inputs[0].shape[0], mesh.shape[0]
        tolist = torch.Tensor.tolist
        torch.Tensor.tolist = lambda t: [rows // n] * n
        try:
            return real(self, mod, inputs, mesh)
        finally:
            torch.Tensor.tolist = tolist

    e.ExpertParallel._token_dispatch = dispatch


def by_titan(job, cfg, meter):
    sys.meta_path.insert(0, Finder())
    import torchtitan.distributed.utils as du, torchtitan.train as tt, torchtitan.protocols.train_spec as ts, torchtitan.models.llama3 as l3
    from torchtitan.config import JobConfig

    t = job["training"]
    d = t.get("distributed") or {}
    hc = job["model"]["hf_config"]
    W = d.get("world_size", 1)
    tp, pp, cp = d.get("tensor_parallel", 1), d.get("pipeline_parallel", 1), d.get("context_parallel", 1)
    ga = t.get("gradient_accumulation", 1)
    j = JobConfig()
    p = j.parallelism
    tr = j.training
    j.job.dump_folder = tempfile.mkdtemp()
    j.model.name, j.model.flavor = "llama3", "job"
    dp = W // (tp * pp * cp)
    shard = d.get("shard_group") or (1 if d.get("data") == "ddp" else dp)
    p.data_parallel_shard_degree, p.data_parallel_replicate_degree = shard, dp // shard
    p.tensor_parallel_degree, p.pipeline_parallel_degree, p.context_parallel_degree = tp, pp, cp
    p.fsdp_reshard_after_forward = {None: "default", True: "always", False: "never", "default": "default"}[d.get("reshard_after_forward")]
    loss = t.get("loss", "standard")
    vp = loss.get("vocab_parallel", True) if isinstance(loss, dict) else True
    p.disable_loss_parallel = not vp
    if d.get("context_parallel_kind") in ("allgather", "alltoall"):
        p.context_parallel_rotate_method = d["context_parallel_kind"]
    micro = t["micro_batch"]
    if pp > 1:
        p.pipeline_parallel_schedule = SCHEDULE[d.get("pipeline_schedule", "1f1b")]
        p.pipeline_parallel_microbatch_size = micro
        v = d.get("virtual_pipeline", 1)
        if v > 1:
            p.pipeline_parallel_layers_per_stage = -(-(hc["num_hidden_layers"] + 2) // (pp * v))
        tr.local_batch_size = micro * ga
        ga = 1
    else:
        tr.local_batch_size = micro
    tr.global_batch_size = tr.local_batch_size * dp * ga
    tr.seq_len = cfg["seq"]
    tr.steps = cfg["steps"]
    tr.enable_cpu_offload = bool(d.get("offload_parameters"))
    half = t["precision"] in ("bf16", "amp-bf16")
    tr.dtype = {"fp32": "float32", "bf16": "bfloat16"}[
        (t.get("states") or {}).get("weights", "bf16" if t["precision"] == "bf16" else "fp32")
    ]
    tr.mixed_precision_param = "bfloat16" if half else "float32"
    tr.mixed_precision_reduce = {"fp32": "float32", "bf16": "bfloat16"}[(t.get("states") or {}).get("gradients", "fp32")]
    g = t.get("gradient_checkpointing", "none")
    ac = j.activation_checkpoint
    if g == "none":
        ac.mode = "none"
    elif g == "full":
        ac.mode = "full"
    elif g == "selective-op":
        ac.mode = "selective"
        ac.selective_ac_option = "op"
    elif isinstance(g, dict) and "every" in g:
        ac.mode = "selective"
        ac.selective_ac_option = str(g["every"])
    else:
        raise jobs.Unsupported(f"gradient_checkpointing {g}")
    o = t.get("optimizer") or {}
    o = dict(name=o) if isinstance(o, str) else o
    j.optimizer.name = {"adamw": "AdamW", "adam": "Adam"}[o.get("name", "adamw")]
    j.optimizer.implementation = o.get("implementation", "fused")
    if t.get("compile"):
        j.compile.enable = True
        j.compile.components = [k for k in ("model", "loss") if t["compile"] is True or t["compile"].get(k)]
    j.metrics.log_freq = 10**9
    j.comm.trace_buf_size = 0
    # the model's shape
    ep = d.get("expert_parallel", 1)
    p.expert_parallel_degree = ep
    tr.debug_moe_force_load_balance = False
    cls, args, parallelize = shape(hc, l3)
    ts._extra_train_specs = getattr(ts, "_extra_train_specs", {})
    from torchtitan.components.loss import build_cross_entropy_loss
    from torchtitan.components.optimizer import build_optimizers
    from torchtitan.components.lr_scheduler import build_lr_schedulers
    from torchtitan.distributed.pipeline_parallel import pipeline_llm

    optimizers = build_optimizers
    if "n_routed_experts" in hc:
        from torchtitan.components.optimizer import build_optimizers_with_moe_load_balancing as optimizers
    if hc["model_type"] != "llama":
        balanced(micro * cfg["seq"], ep)
    spec = ts.TrainSpec(
        model_cls=cls,
        model_args={"job": args},
        parallelize_fn=parallelize,
        pipelining_fn=pipeline_llm,
        build_optimizers_fn=optimizers,
        build_lr_schedulers_fn=build_lr_schedulers,
        build_dataloader_fn=lambda **k: Data(tr.local_batch_size, cfg["seq"]),
        build_tokenizer_fn=None,
        build_loss_fn=build_cross_entropy_loss,
    )
    tt.train_spec_module.get_train_spec = lambda name: spec
    du.init_distributed = lambda *a, **k: None
    if pp > 1:
        import torch.distributed.pipelining.stage as st

        local = cfg["seq"] // cp // (tp if d.get("sequence_parallel", True) else 1)
        dt = torch.bfloat16 if (half and shard * cp > 1) or tr.dtype == "bfloat16" else torch.float32

        def recv(objs, *a, **k):
            objs[0] = (torch.empty(micro, local, hc["hidden_size"], dtype=dt, device="meta"),)

        st.dist.recv_object_list = recv  # the shape that the stage before would have sent
        if hasattr(st, "_StageForwardMeta"):  # in torch 2.15 what a stage sends has a name, and gradients are told of, too
            from torch.distributed.pipelining._utils import _TensorMeta

            def told(self, source):
                like = torch.empty(micro, local, hc["hidden_size"], dtype=dt, device="meta")
                meta = _TensorMeta(shape=like.shape, stride=like.stride(), dtype=dt, requires_grad=source < self.stage_index)
                return st._StageForwardMeta((meta,)) if source < self.stage_index else st._StageBackwardMeta((meta,))

            st.PipelineStage._recv_meta = told
            st.PipelineStage._send_meta = lambda *a: None
    import torchtitan.models.attention as ta  # cuDNN's attention does not run here; flash is torchtitan's second choice

    ta.ScaledDotProductAttentionWrapper.sdpa_backends = [ta.SDPBackend.FLASH_ATTENTION, ta.SDPBackend.EFFICIENT_ATTENTION]
    count = [0, 0]
    trainer = tt.Trainer(j)
    parts = trainer.model_parts
    n = sum(x.numel() for m in parts for x in m.parameters())
    model = nn.ModuleList(parts)

    class Opts:  # tag_model wants .state
        @property
        def state(self):
            return {k: v for o in trainer.optimizers.optimizers for k, v in o.state.items()}

    opts = Opts()
    if pp > 1:
        import torch.distributed.pipelining.stage as st

        S = st._PipelineStageBase if hasattr(st, "_PipelineStageBase") else st.PipelineStage
        f, b = S.forward_one_chunk, S.backward_one_chunk

        def fwd(self, i, *a, **k):
            meter.mark(f"s{count[0]}.m{i}.forward")
            return f(self, i, *a, **k)

        def bwd(self, i, *a, **k):
            meter.mark(f"s{count[0]}.m{i}.backward")
            r = b(self, i, *a, **k)
            meter.mark(f"s{count[0]}.m{i}.endbwd")
            return r

        S.forward_one_chunk, S.backward_one_chunk = fwd, bwd
    lf = trainer.loss_fn
    if pp == 1:

        def lossfn(*a, **k):
            r = lf(*a, **k)
            meter.mark(f"s{count[0]}.m{count[1]}.backward")
            return r

        trainer.loss_fn = lossfn
    fb = trainer.forward_backward_step

    def step(*a, **k):
        if pp == 1:
            meter.mark(f"s{count[0]}.m{count[1]}.forward")
        r = fb(*a, **k)
        meter.mark(f"s{count[0]}.m{count[1]}.endbwd")
        tag_model(meter, model, opts)
        count[1] += 1
        return r

    trainer.forward_backward_step = step
    clip = du.clip_grad_norm_

    def clipped(*a, **k):
        meter.mark(f"s{count[0]}.optimizer")
        return clip(*a, **k)

    du.clip_grad_norm_ = clipped
    it = trainer.batch_generator(trainer.dataloader)
    meter.loaded()
    tag_model(meter, model, opts)
    for s in range(cfg["steps"]):
        trainer.step = s + 1
        trainer.train_step(it)
        tag_model(meter, model, opts)
        meter.mark(f"s{s}.end")
        meter.end_step()
        count[0] += 1
        count[1] = 0
    return (n, n), hc["vocab_size"]
