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


# torch's own, with the learning rate that each has by itself.
_OTHERS = {
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
}


_SCHEDULE_FREE = {
    "schedule-free-adamw": "AdamWScheduleFree",
    "schedule-free-sgd": "SGDScheduleFree",
    "schedule-free-radam": "RAdamScheduleFree",
}


def _schedule_free(kind, parameters, foreach):
    import schedulefree

    optimizer = getattr(schedulefree, kind)(parameters, foreach=foreach, **({"lr": 1.0} if kind == "SGDScheduleFree" else {}))
    optimizer.train()
    return optimizer


def _stable_adamw(parameters, foreach):
    """torch-optimi's, whose Triton kernels are its default: foreach and the loop are asked for."""
    from optimi import StableAdamW

    return StableAdamW(parameters, lr=1e-3, foreach=foreach, triton=False)


def _apollo(named):
    """As transformers' Trainer makes it: the matrices of attention and MLP are projected, with the defaults of its release."""
    from apollo_torch import APOLLOAdamW

    inside = [p for name, p in named if p.dim() == 2 and any(part.isdigit() for part in name.split("."))]
    rest = [p for _, p in named if not any(p is q for q in inside)]
    projected = dict(rank=128, proj="random", scale_type="channel", scale=1.0, update_proj_gap=200, proj_type="std")
    return APOLLOAdamW([dict(params=rest), dict(params=inside, **projected)], lr=1e-3)


class AdEMAMix(torch.optim.Optimizer):
    """The state of bitsandbytes' AdEMAMix, whose kernels are not here: a float32 buffer of two moments and one of the third
    (bitsandbytes/optim/ademamix.py, init_state)."""

    def __init__(self, parameters):
        super().__init__(parameters, dict(lr=1e-3))

    @torch.no_grad()
    def step(self):
        for p in (p for g in self.param_groups for p in g["params"] if p.grad is not None):
            if not self.state[p]:
                self.state[p]["state1"] = torch.zeros((2, *p.size()), dtype=torch.float32, device=p.device)
                self.state[p]["state2"] = torch.zeros_like(p, dtype=torch.float32)


class Both(torch.optim.Optimizer):
    """Two optimizers that step one after the other."""

    def __init__(self, first, second):
        self.both = (first, second)
        super().__init__([p for o in self.both for g in o.param_groups for p in g["params"]], {})

    @torch.no_grad()
    def step(self):
        for o in self.both:
            o.step()
            self.state.update(o.state)


def _muon(named):
    """Muon for the matrices of the layers, AdamW for the rest, for which Muon is not made."""
    inside = [p for name, p in named if p.dim() == 2 and any(part.isdigit() for part in name.split("."))]
    rest = [p for _, p in named if not any(p is q for q in inside)]
    return Both(torch.optim.Muon(inside), torch.optim.AdamW(rest, foreach=True))


def make(optimizer, named):
    """The optimizer that the job document's training.optimizer means, for parameters with their names."""
    optimizer = {"name": optimizer} if isinstance(optimizer, str) else dict(optimizer or {"name": "adamw"})
    name, implementation = optimizer.get("name", "adamw"), optimizer.get("implementation")
    parameters = [p for _, p in named]
    if name in ("adamw", "adam"):
        return (torch.optim.AdamW if name == "adamw" else torch.optim.Adam)(parameters, **_ADAM[implementation])
    if name == "amsgrad":
        return torch.optim.AdamW(parameters, amsgrad=True, **_ADAM[implementation])
    if name in ("sgd", "sgd-momentum"):
        momentum = 0.9 if name == "sgd-momentum" else 0.0
        return torch.optim.SGD(parameters, lr=0.1, momentum=momentum, **_ADAM[implementation])
    if name == "adafactor":
        return torch.optim.Adafactor(parameters) if implementation == "torch" else _adafactor(parameters)
    if name == "adamw-8bit":
        return AdamW8bit(parameters)
    if name == "muon":
        return _muon(named)
    if name in _SCHEDULE_FREE:
        return _schedule_free(_SCHEDULE_FREE[name], parameters, implementation != "for-loop")
    if name == "stable-adamw":
        return _stable_adamw(parameters, implementation != "for-loop")
    if name == "apollo-adamw":
        return _apollo(named)
    if name == "ademamix":
        return AdEMAMix(parameters)
    if name in _OTHERS:
        return _OTHERS[name](parameters)
    raise ValueError(f"optimizer {optimizer} is not known here")
