"""Modules as a laboratory has them that tries things out, small: each is recorded and held against a trace. Each NAME has NAME() and
NAME_batch(b, t)."""

import torch
import torch.nn.functional as F
from torch import nn


class Router(nn.Module):
    """tokens sorted by the experts that they chose, each with its expert's matrices, and a loss that balances"""

    def __init__(self, width=64, experts=8, k=2):
        super().__init__()
        self.k, self.experts = k, experts
        self.embed = nn.Embedding(500, width)
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 4 * width) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, 4 * width, width) * 0.02)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 500)

    def forward(self, ids):
        x = self.embed(ids)
        flat = self.norm(x).reshape(-1, x.size(-1))
        p = self.gate(flat).float().softmax(-1)
        w, e = p.topk(self.k, dim=-1)
        w = w / w.sum(-1, keepdim=True)
        order = torch.sort(e.reshape(-1), stable=True).indices
        token = order // self.k
        chosen = e.reshape(-1)[order]
        h = torch.bmm(F.silu(torch.bmm(flat[token].unsqueeze(1), self.up[chosen])), self.down[chosen]).squeeze(1)
        out = torch.zeros_like(flat, dtype=h.dtype).index_add(0, token, h * w.reshape(-1)[order].unsqueeze(-1).to(h.dtype))
        load = torch.zeros(self.experts, device=x.device).scatter_add(0, e.reshape(-1), torch.ones(e.numel(), device=x.device))
        aux = (p.mean(0) * load / e.numel()).sum() * self.experts
        y = self.head(x + out.view_as(x))
        return F.cross_entropy(y.flatten(0, 1), ids.flatten()) + 0.01 * aux


def router():
    return Router()


def router_batch(b, t):
    return {"ids": torch.zeros(b, t, dtype=torch.long)}


class STN(nn.Module):
    """a spatial transformer"""

    def __init__(self):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(3, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(8, 10, 5), nn.MaxPool2d(2), nn.ReLU())
        self.theta = nn.Sequential(nn.Flatten(), nn.Linear(10 * 12 * 12, 32), nn.ReLU(), nn.Linear(32, 6))
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))

    def forward(self, x, y):
        theta = self.theta(self.locate(x)).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.cross_entropy(self.body(F.grid_sample(x, grid.to(x.dtype), align_corners=False)), y)


def locator():
    return STN()


def locator_batch(b, t):
    return {"x": torch.zeros(b, 3, 64, 64), "y": torch.zeros(b, dtype=torch.long)}


class Clipped(torch.autograd.Function):
    """tanh of a product, with gradients that are clipped"""

    @staticmethod
    @torch.amp.custom_fwd(device_type='cuda')
    def forward(ctx, x, w, s):
        y = torch.tanh(x @ w.t()) * s
        x, w = x.to(y.dtype), w.to(y.dtype)
        ctx.save_for_backward(x, w, y)
        ctx.s = s
        return y

    @staticmethod
    @torch.amp.custom_bwd(device_type='cuda')
    def backward(ctx, g):
        x, w, y = ctx.saved_tensors
        g = g * (ctx.s - y * y / ctx.s)
        g = g.clamp(-1, 1)
        return g @ w, g.flatten(0, -2).t() @ x.flatten(0, -2), None


class Custom(nn.Module):
    """layers with a backward of their own, and nn.Bilinear"""

    def __init__(self, width=96, layers=3):
        super().__init__()
        self.embed = nn.Embedding(300, width)
        self.w = nn.ParameterList(nn.Parameter(torch.randn(width, width) * 0.02) for _ in range(layers))
        self.mix = nn.Bilinear(width, 48, 40)
        self.small = nn.Linear(width, 48)
        self.head = nn.Linear(40, 300)

    def forward(self, ids):
        x = self.embed(ids)
        for w in self.w:
            x = x + Clipped.apply(x, w.to(x.dtype), 2.0)
        y = self.mix(x, self.small(x).to(x.dtype))
        return F.cross_entropy(self.head(y).flatten(0, 1), ids.flatten())


def bilinear():
    return Custom()


bilinear_batch = router_batch
