"""The optimizers that a job document can name and that PyTorch or transformers bring."""

import torch


class AdamW8bit(torch.optim.Optimizer):
    """The state of bitsandbytes' AdamW8bit, whose kernels are not here: one byte a value and moment, a float32 scale for every
    256 values; tensors of fewer than 4,096 values keep float32 moments (bitsandbytes/optim/optimizer.py, min_8bit_size)."""

    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=1e-3))
        self.tables = None

    @torch.no_grad()
    def step(self):
        for p in (p for g in self.param_groups for p in g["params"] if p.grad is not None):
            state = self.state[p]
            if state:
                continue
            if p.numel() < 4096:
                state["m"], state["v"] = (torch.zeros_like(p, dtype=torch.float32) for _ in range(2))
                continue
            state["m"], state["v"] = (torch.zeros_like(p, dtype=torch.uint8) for _ in range(2))
            state["scale_m"], state["scale_v"] = (torch.zeros(-(-p.numel() // 256), device=p.device) for _ in range(2))
            if self.tables is None:
                self.tables = [torch.zeros(256, device=p.device) for _ in range(2)]


def _adafactor(parameters):
    from transformers.optimization import Adafactor

    return Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-3)


_ADAM = {None: dict(foreach=True), "foreach": dict(foreach=True), "fused": dict(fused=True), "for-loop": dict(foreach=False)}


def make(optimizer, parameters):
    """The optimizer that the job document's training.optimizer means."""
    optimizer = {"name": optimizer} if isinstance(optimizer, str) else dict(optimizer or {"name": "adamw"})
    name, implementation = optimizer.get("name", "adamw"), optimizer.get("implementation")
    if name in ("adamw", "adam"):
        return (torch.optim.AdamW if name == "adamw" else torch.optim.Adam)(parameters, **_ADAM[implementation])
    if name in ("sgd", "sgd-momentum"):
        fused = dict(fused=True) if implementation == "fused" else {}
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if name == "sgd-momentum" else 0.0, **fused)
    if name == "adafactor":
        return torch.optim.Adafactor(parameters) if implementation == "torch" else _adafactor(parameters)
    if name == "adamw-8bit":
        return AdamW8bit(parameters)
    raise ValueError(f"optimizer {optimizer} is not known here")
