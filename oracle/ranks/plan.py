"""transformers' own tensor parallelism (from_pretrained(tp_plan="auto")): the model's plan, sharded by transformers' code, trained by a plain loop."""

import importlib.util, json, os, tempfile
import torch
from torch.distributed.device_mesh import init_device_mesh
import jobs
from loops import build, adam, steps_plain, sizes, stored


def by_former_plan(job, cfg):
    """As 4.57 has it: each parameter is dealt out by itself."""
    from transformers.integrations import tensor_parallel as tp

    d = job["training"]["distributed"]
    mesh = init_device_mesh("cuda", (d["tensor_parallel"],))
    model, batch, V = build(job, cfg)
    n = sizes(model)
    model = tp.distribute_model(model, None, mesh, d["tensor_parallel"])
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    for name, p in list(model.named_parameters()):
        if p.is_meta:
            continue
        tp.shard_and_distribute_module(model, p.data, p, name, p.dtype, True, mesh.get_local_rank(), mesh)
    if tied:
        model.tie_weights()
    return model, batch, V, n


def zeros(model, folder):
    """A checkpoint of the model as from_pretrained reads it, whose weights are a hole in a file."""
    at, header = 0, {"__metadata__": {"format": "pt"}}
    tied = set(model._tied_weights_keys or ()) if model.config.tie_word_embeddings else ()
    for name, x in model.state_dict().items():
        if name in tied:
            continue
        size = x.numel() * x.element_size()
        kind = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}[x.dtype]
        header[name] = dict(dtype=kind, shape=list(x.shape), data_offsets=[at, at + size])
        at += size
    model.config.save_pretrained(folder)
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + at)


def by_loading(job, cfg):
    """Later releases shard while they load, with DTensor."""
    t = job["training"]
    hc, dtype = job["model"]["hf_config"], stored(t)
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            empty = jobs.model_class(hc)(jobs.hf_config_object(hc, cfg.get("attn", "sdpa")))
    finally:
        torch.set_default_dtype(torch.float32)
    n, empty.config.dtype = sizes(empty), dtype
    with tempfile.TemporaryDirectory() as folder:
        zeros(empty, folder)
        model = type(empty).from_pretrained(folder, tp_plan="auto", dtype=dtype)

    def batch():
        return (), {k: torch.empty(cfg["batch"], cfg["seq"], dtype=torch.long).to("cuda") for k in ("input_ids", "attention_mask", "labels")}

    return model, batch, empty.config.vocab_size, n


def by_plan(job, cfg, meter):
    from torch.distributed.tensor.experimental import implicit_replication

    d = job["training"]["distributed"]
    if d["tensor_parallel"] != d["world_size"]:
        raise jobs.Unsupported("transformers' plan here with world_size = tensor_parallel")
    loads = importlib.util.find_spec("transformers.distributed.tensor_parallel") is not None
    model, batch, V, n = (by_loading if loads else by_former_plan)(job, cfg)
    if cfg.get("ckpt"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=True))
    model.train()
    model.to("cuda")
    opt = adam(job, [p for p in model.parameters() if p.requires_grad])

    def forward(a, k):
        o = model(*a, **k)
        return o.loss, o

    with implicit_replication():
        steps_plain(job, cfg, meter, model, opt, batch, forward)
    return n, V
