"""Modules that checkpoint their layers themselves, small: each is recorded and held against a trace."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    """attention with a mask that it may get, and a feed-forward network, checkpointed from within where inside says so"""

    def __init__(self, width, heads, inside):
        super().__init__()
        self.heads, self.inside = heads, inside
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask=None):
        return checkpoint(self.run, x, use_reentrant=False) if self.inside and self.training else self.run(x, mask)

    def run(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.first(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, inside=False, reentrant=False, masked=False, width=128, heads=4, layers=4, vocabulary=600):
        super().__init__()
        self.reentrant, self.masked, self.inside = reentrant, masked, inside
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, inside) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, labels):
        x = self.embed(ids)
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril() if self.masked else None
        for block in self.blocks:
            given = (x, mask) if self.masked else (x,)
            x = block(x) if self.inside or not self.training else checkpoint(block, *given, use_reentrant=self.reentrant)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def inside():
    return Model(inside=True)


def plain():
    return Model()


def plain_masked():
    return Model(masked=True)


def reentrant():
    return Model(reentrant=True)


def reentrant_masked():
    return Model(reentrant=True, masked=True)


def batch(b, t):
    return {"ids": torch.zeros(b, t, dtype=torch.long), "labels": torch.zeros(b, t, dtype=torch.long)}
