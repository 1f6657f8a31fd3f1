"""transformers' own tensor parallelism (from_pretrained(tp_plan="auto")): the model's plan, sharded by transformers' code, trained by a plain loop."""

from torch.distributed.device_mesh import init_device_mesh
import jobs
from loops import build, adam, steps_plain, sizes


def by_plan(job, cfg, meter):
    from transformers.integrations import tensor_parallel as tp
    from torch.distributed.tensor.experimental import implicit_replication

    t = job["training"]
    d = t["distributed"]
    if d["tensor_parallel"] != d["world_size"]:
        raise jobs.Unsupported("transformers' plan here with world_size = tensor_parallel")
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
