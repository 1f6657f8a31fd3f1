"""Modules whose lifetimes are unusual, for recordings that are held against traces."""

import torch
import torch.nn.functional as F
from torch import nn


class Memory(nn.Module):
    """keeps activations from step to step: a queue of keys, a running average, and the last features"""

    def __init__(self, width=128, layers=4, queue=512):
        super().__init__()
        self.encoder = nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(width, width), nn.GELU())])
        self.project = nn.Linear(width, 64)
        self.register_buffer("queue", torch.zeros(queue, 64))
        self.register_buffer("average", torch.zeros(width))
        self.last = None

    def forward(self, x):
        h = self.encoder(x)
        z = F.normalize(self.project(h), dim=-1)
        self.average = 0.9 * self.average + 0.1 * h.mean((0, 1)).detach()
        self.last = h.detach() * 2
        similar = z @ self.queue.t()
        return (similar.logsumexp(-1) - similar.mean(-1)).mean()


class InPlace(nn.Module):
    """updates activations in place, and gates through several results of one operation"""

    def __init__(self, width=96, layers=3):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.blocks = nn.ModuleList(nn.ModuleDict(dict(norm=nn.LayerNorm(width), up=nn.Linear(width, 6 * width), down=nn.Linear(width, width)))
                                    for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for b in self.blocks:
            shift, scale, gate, a, c, d = b["up"](b["norm"](x)).chunk(6, dim=-1)
            h = a * scale
            h.add_(shift)
            h = torch.relu_(h)
            h = torch.cat([h, c, d, gate, h * 2, c, d], dim=-1).unflatten(-1, (7, -1)).sum(-2)
            x = x + b["down"](h * 0.5) * gate.sigmoid()
        x.clamp_(-10, 10)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Tied(nn.Module):
    """one matrix for embedding and head, one block run three times, three losses"""

    def __init__(self, width=128, vocabulary=2000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.norm = nn.LayerNorm(width)
        self.critic = nn.Linear(width, 1)

    def forward(self, ids, labels):
        x = self.embed(ids)
        states = []
        for _ in range(3):
            h = self.norm(x)
            x = x + self.attention(h, h, h, need_weights=False)[0]
            x = x + self.block(x)
            states.append(x)
        logits = x @ self.embed.weight.t()
        return {"logits": logits, "values": self.critic(x), "states": torch.stack(states), "labels": labels}


def tied_loss(out, batch):
    language = F.cross_entropy(out["logits"].flatten(0, 1), out["labels"].flatten())
    value = F.mse_loss(out["values"].squeeze(-1), torch.zeros_like(out["values"].squeeze(-1)))
    smooth = (out["states"][1:] - out["states"][:-1]).pow(2).mean()
    return language + 0.5 * value + 0.1 * smooth


class Mixture(nn.Module):
    """experts chosen by the data: tokens are gathered, computed, weighted and added up"""

    def __init__(self, width=128, experts=4, layers=2, vocabulary=1000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.routers = nn.ModuleList(nn.Linear(width, experts, bias=False) for _ in range(layers))
        self.experts = nn.ModuleList(
            nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts))
            for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        b, t, c = x.shape
        for router, experts in zip(self.routers, self.experts):
            flat = x.reshape(-1, c)
            weights, chosen = router(flat).softmax(-1).topk(2, dim=-1)
            out = torch.zeros_like(flat)
            for e, expert in enumerate(experts):
                token, slot = torch.where(chosen == e)
                out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
            x = x + out.view(b, t, c)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Generator(nn.Module):
    """a DCGAN's generator with its critic: transposed convolutions, batch norms"""

    def __init__(self, latent=64, width=32):
        super().__init__()
        def up(a, b, first=False):
            return [nn.ConvTranspose2d(a, b, 4, 1 if first else 2, 0 if first else 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]

        def down(a, b):
            return [nn.Conv2d(a, b, 4, 2, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, True)]

        self.make = nn.Sequential(*up(latent, 8 * width, True), *up(8 * width, 4 * width), *up(4 * width, 2 * width), *up(2 * width, width),
                                  nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
        self.judge = nn.Sequential(*down(3, width), *down(width, 2 * width), *down(2 * width, 4 * width), nn.Conv2d(4 * width, 1, 8))

    def forward(self, z):
        return F.softplus(-self.judge(self.make(z[:, :, None, None])).flatten()).mean()


class UNet(nn.Module):
    """a segmentation U-Net with skip connections"""

    def __init__(self, width=16, classes=4):
        super().__init__()
        def double(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                                 nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
        w = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList([double(3, w[0]), double(w[0], w[1]), double(w[1], w[2])])
        self.middle = double(w[2], w[3])
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, 2) for c in reversed(w[:3]))
        self.merge = nn.ModuleList(double(2 * c, c) for c in reversed(w[:3]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x, y):
        skips = []
        for d in self.down:
            x = d(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge, skip in zip(self.ups, self.merge, reversed(skips)):
            x = merge(torch.cat([skip, up(x)], 1))
        return F.cross_entropy(self.head(x), y)


class Transformer(nn.Module):
    """torch's own encoder layers"""

    def __init__(self, width=64, vocabulary=500):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 128, batch_first=True), 3)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        return F.cross_entropy(self.head(self.encoder(self.embed(ids))).flatten(0, 1), labels.flatten())


def _ids(b, t):
    return torch.zeros(b, t, dtype=torch.long)


def _tokens(b, t):
    return {"ids": _ids(b, t), "labels": _ids(b, t)}


def memory():
    return Memory()


def memory_batch(b, t):
    return (torch.zeros(b, t, 128),)


def inplace():
    return InPlace()


def tied():
    return Tied()


def mixture():
    return Mixture()


def transformer():
    return Transformer()


inplace_batch = tied_batch = mixture_batch = transformer_batch = _tokens


def generator():
    return Generator()


def generator_batch(b, t):
    return (torch.zeros(b, 64),)


def unet():
    return UNet()


def unet_batch(b, t):
    return {"x": torch.zeros(b, 3, 64, 64), "y": torch.zeros(b, 64, 64, dtype=torch.long)}
