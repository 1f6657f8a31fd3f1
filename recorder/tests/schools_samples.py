"""Modules of pictures, graphs and vectors in the manners of different schools, small: each is recorded and held against a trace. Each NAME has NAME()
and NAME_batch(b, t). Those of sequences are in schools.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.h = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj, self.fc1, self.fc2 = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1)) * (c // self.h) ** -0.5
        x = x + self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class Masked(nn.Module):
    """a masked autoencoder: noise sorted twice, kept patches gathered, mask tokens put back, the loss on hidden patches alone"""

    def __init__(self, side=32, patch=4, width=96, narrow=64):
        super().__init__()
        self.p, self.n = patch, (side // patch) ** 2
        self.patch, self.cls = nn.Conv2d(3, width, patch, patch), nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.zeros(1, self.n + 1, width), requires_grad=False)
        self.encoder, self.decoder = nn.ModuleList(ViTBlock(width, 4) for _ in range(3)), nn.ModuleList(ViTBlock(narrow, 4) for _ in range(2))
        self.norm, self.less = nn.LayerNorm(width), nn.Linear(width, narrow)
        self.token, self.where = nn.Parameter(torch.zeros(1, 1, narrow)), nn.Parameter(torch.zeros(1, self.n + 1, narrow), requires_grad=False)
        self.end, self.pixels = nn.LayerNorm(narrow), nn.Linear(narrow, patch * patch * 3)

    def forward(self, pictures):
        x = self.patch(pictures).flatten(2).transpose(1, 2) + self.place[:, 1:]
        b, n, c = x.shape
        keep = n // 4
        noise = torch.rand(b, n, device=x.device)
        order = torch.argsort(noise, dim=1)
        back = torch.argsort(order, dim=1)
        x = torch.gather(x, 1, order[:, :keep].unsqueeze(-1).repeat(1, 1, c))
        mask = torch.ones([b, n], device=x.device)
        mask[:, :keep] = 0
        mask = torch.gather(mask, 1, back)
        x = torch.cat(((self.cls + self.place[:, :1]).expand(b, -1, -1), x), 1)
        for block in self.encoder:
            x = block(x)
        x = self.less(self.norm(x))
        tokens = self.token.repeat(b, n - keep, 1)
        y = torch.cat([x[:, 1:], tokens], 1)
        y = torch.gather(y, 1, back.unsqueeze(-1).repeat(1, 1, y.shape[2]))
        y = torch.cat([x[:, :1], y], 1) + self.where
        for block in self.decoder:
            y = block(y)
        guess = self.pixels(self.end(y))[:, 1:]
        side = int(math.sqrt(n))
        target = torch.einsum("nchpwq->nhwpqc", pictures.reshape(b, 3, side, self.p, side, self.p)).reshape(b, n, -1)
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        loss = ((guess - (target - mean) / (var + 1e-6) ** 0.5) ** 2).mean(-1)
        return (loss * mask).sum() / mask.sum()


def masked():
    return Masked()


def masked_batch(b, t):
    return (torch.zeros(b, 3, 32, 32),)


class GraphBias(nn.Module):
    """a Graphormer: degrees as embeddings, distances and edges on paths as biases of attention, a virtual node"""

    def __init__(self, width=64, heads=4, layers=3):
        super().__init__()
        self.atom, self.degree = nn.Embedding(32, width, padding_idx=0), nn.Embedding(16, width, padding_idx=0)
        self.far, self.edge = nn.Embedding(24, heads, padding_idx=0), nn.Embedding(12, heads, padding_idx=0)
        self.along, self.virtual, self.node = nn.Embedding(5 * heads * heads, 1), nn.Embedding(1, heads), nn.Embedding(1, width)
        self.layers = nn.ModuleList(nn.ModuleDict({"n1": nn.LayerNorm(width), "q": nn.Linear(width, width), "k": nn.Linear(width, width),
                                                   "v": nn.Linear(width, width), "o": nn.Linear(width, width), "n2": nn.LayerNorm(width),
                                                   "up": nn.Linear(width, width), "down": nn.Linear(width, width)}) for _ in range(layers))
        self.h, self.norm, self.head = heads, nn.LayerNorm(width), nn.Linear(width, 1, bias=False)

    def forward(self, atoms, degrees, far, paths, y):
        b, n = atoms.shape
        bias = torch.zeros(b, self.h, n + 1, n + 1, device=atoms.device)
        bias[:, :, 1:, 1:] = bias[:, :, 1:, 1:] + self.far(far).permute(0, 3, 1, 2)
        t = self.virtual.weight.view(1, self.h, 1)
        bias[:, :, 1:, 0] = bias[:, :, 1:, 0] + t
        bias[:, :, 0, :] = bias[:, :, 0, :] + t
        steps = far.clamp(1, 5).unsqueeze(-1)
        e = self.edge(paths)
        flat = e.permute(3, 0, 1, 2, 4).reshape(5, -1, self.h)
        flat = torch.bmm(flat, self.along.weight.reshape(5, self.h, self.h).to(flat.dtype))
        e = flat.reshape(5, b, n, n, self.h).permute(1, 2, 3, 0, 4)
        bias[:, :, 1:, 1:] += (e.sum(-2) / steps.float()).permute(0, 3, 1, 2)
        x = self.atom(atoms) + self.degree(degrees)
        x = torch.cat([self.node.weight.unsqueeze(0).repeat(b, 1, 1), x], 1)
        pad = torch.cat([torch.zeros(b, 1, dtype=torch.bool, device=x.device), atoms.eq(31)], 1)
        for m in self.layers:
            z = m["n1"](x)
            q, k, v = (m[c](z).view(b, n + 1, self.h, -1).transpose(1, 2) for c in "qkv")
            a = torch.matmul(q * (q.size(-1) ** -0.5), k.transpose(2, 3)) + bias
            a = a.masked_fill(pad[:, None, None], float("-inf"))
            z = (torch.softmax(a, 3).to(v.dtype) @ v).transpose(1, 2).contiguous().view(b, n + 1, -1)
            x = x + F.dropout(m["o"](z), 0.1, self.training)
            x = x + F.dropout(m["down"](F.gelu(m["up"](m["n2"](x)))), 0.1, self.training)
        return F.l1_loss(self.head(self.norm(x))[:, 0, 0], y)


def graphbias():
    return GraphBias()


def graphbias_batch(b, t):
    n = 20
    return {"atoms": torch.ones(b, n, dtype=torch.long), "degrees": torch.ones(b, n, dtype=torch.long), "far": torch.ones(b, n, n, dtype=torch.long),
            "paths": torch.ones(b, n, n, 5, 1, dtype=torch.long).squeeze(-1), "y": torch.zeros(b)}


class Block1d(nn.Module):
    def __init__(self, a, b, time):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(a, b, 5, padding=2), nn.Conv1d(b, b, 5, padding=2)
        self.g1, self.g2, self.time = nn.GroupNorm(8, b), nn.GroupNorm(8, b), nn.Sequential(nn.Mish(), nn.Linear(time, 2 * b))
        self.skip = nn.Conv1d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.time(t).unsqueeze(-1).chunk(2, 1)
        h = F.mish(self.g1(self.c1(x))) * (scale + 1) + shift
        return F.mish(self.g2(self.c2(h))) + self.skip(x)


class Diffuser1d(nn.Module):
    """a 1-D U-Net of trajectories: noise by gathered coefficients, linear attention, skips, transposed convolutions, weights per sample"""

    def __init__(self, channels=6, width=32, steps=100):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, 4 * width), nn.Mish(), nn.Linear(4 * width, width))
        self.d1, self.d2, self.mid = Block1d(channels, width, width), Block1d(width, 2 * width, width), Block1d(2 * width, 2 * width, width)
        self.down, self.up = nn.Conv1d(width, width, 3, 2, 1), nn.ConvTranspose1d(2 * width, 2 * width, 4, 2, 1)
        self.u1, self.last = Block1d(3 * width, width, width), nn.Sequential(nn.Conv1d(width, width, 5, padding=2), nn.Conv1d(width, channels, 1))
        self.qkv, self.out = nn.Conv1d(2 * width, 3 * 64, 1, bias=False), nn.Conv1d(64, 2 * width, 1)
        betas = torch.linspace(1e-4, 0.02, steps)
        keep = torch.cumprod(1 - betas, 0)
        self.register_buffer("signal", keep.sqrt())
        self.register_buffer("noise", (1 - keep).sqrt())
        self.register_buffer("weight", (keep / (1 - keep)).clamp(max=5))
        self.steps, self.width = steps, width

    def attend(self, x):
        q, k, v = self.qkv(x).unflatten(1, (3, 2, 32)).unbind(1)
        q, k = q.softmax(-2) * 32 ** -0.5, k.softmax(-1)
        o = torch.einsum("bhde,bhdn->bhen", torch.einsum("bhdn,bhen->bhde", k, v), q)
        return x + self.out(o.flatten(1, 2))

    def forward(self, x):
        t = torch.randint(0, self.steps, (x.size(0),), device=x.device)
        eps = torch.randn_like(x)
        noisy = self.signal.gather(0, t).view(-1, 1, 1).to(x.dtype) * x + self.noise.gather(0, t).view(-1, 1, 1).to(x.dtype) * eps
        f = torch.exp(torch.arange(self.width // 2, device=x.device) * -(math.log(10000) / (self.width // 2 - 1)))
        e = t[:, None] * f[None]
        e = self.time(torch.cat((e.sin(), e.cos()), -1).to(x.dtype))
        a = self.d1(noisy, e)
        b = self.d2(self.down(a), e)
        m = self.attend(self.mid(b, e))
        y = self.last(self.u1(torch.cat([self.up(m), a], 1), e))
        return (F.mse_loss(y, eps, reduction="none").flatten(1).mean(1) * self.weight[t]).mean()


def diffuser():
    return Diffuser1d()


def diffuser_batch(b, t):
    return (torch.zeros(b, 6, 64),)


class CosineWindow(nn.Module):
    """Swin V2: attention of normalised queries with learned scales, biases by a small network of continuous positions, norms after"""

    def __init__(self, width, heads, window=4, shift=0):
        super().__init__()
        self.h, self.w, self.s = heads, window, shift
        self.scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.bias = nn.Sequential(nn.Linear(2, 64), nn.ReLU(inplace=True), nn.Linear(64, heads, bias=False))
        self.qkv, self.q_bias, self.v_bias = nn.Linear(width, 3 * width, bias=False), nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.proj, self.n1, self.n2 = nn.Linear(width, width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        r = torch.arange(-(window - 1), window).float()
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1)[None] / (window - 1) * 8
        self.register_buffer("table", torch.sign(table) * torch.log2(table.abs() + 1) / 3, persistent=False)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        d = (c[:, :, None] - c[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", d[..., 0] * (2 * window - 1) + d[..., 1], persistent=False)

    def forward(self, x):
        b, s, _, c = x.shape
        w, n = self.w, self.w * self.w
        y = torch.roll(x, (-self.s, -self.s), (1, 2)) if self.s else x
        y = y.view(b, s // w, w, s // w, w, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, n, c)
        qkv = F.linear(y, self.qkv.weight, torch.cat((self.q_bias, torch.zeros_like(self.v_bias, requires_grad=False), self.v_bias)))
        q, k, v = qkv.reshape(-1, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        a = a * torch.clamp(self.scale, max=math.log(1.0 / 0.01)).exp()
        bias = self.bias(self.table).view(-1, self.h)[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        a = (a + 16 * torch.sigmoid(bias).unsqueeze(0)).softmax(-1)
        y = self.proj((a.to(v.dtype) @ v).transpose(1, 2).reshape(-1, n, c))
        y = y.view(b, s // w, s // w, w, w, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(b, s, s, c)
        y = torch.roll(y, (self.s, self.s), (1, 2)) if self.s else y
        x = x + self.n1(y)
        return x + self.n2(self.mlp(x))


class SwinV2(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.one = nn.ModuleList(CosineWindow(width, 3, shift=2 * (i % 2)) for i in range(2))
        self.less, self.after = nn.Linear(4 * width, 2 * width, bias=False), nn.LayerNorm(2 * width)
        self.two = nn.ModuleList(CosineWindow(2 * width, 6, shift=2 * (i % 2)) for i in range(2))
        self.end, self.head = nn.LayerNorm(2 * width), nn.Linear(2 * width, 10)

    def forward(self, x, y):
        x = self.norm(self.patch(x).permute(0, 2, 3, 1))
        for block in self.one:
            x = block(x)
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        x = self.after(self.less(x))
        for block in self.two:
            x = block(x)
        return F.cross_entropy(self.head(self.end(x).mean((1, 2))), y)


def swinv2():
    return SwinV2()


def swinv2_batch(b, t):
    return {"x": torch.zeros(b, 3, 64, 64), "y": torch.zeros(b, dtype=torch.long)}


class Triplets(nn.Module):
    """one tower for three pictures, distances to all in the batch, a triplet loss and a center loss whose centers move"""

    def __init__(self, out=64, kinds=10):
        super().__init__()
        def block(a, b):
            return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.PReLU(b), nn.MaxPool2d(2)]
        self.tower = nn.Sequential(*block(3, 32), *block(32, 64), *block(64, 96), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, out))
        self.register_buffer("centers", torch.zeros(kinds, out))
        self.temperature = nn.Parameter(torch.zeros(()))

    def forward(self, anchor, near, far, kinds):
        a, p, n = (F.normalize(self.tower(x), p=2, dim=1) for x in (anchor, near, far))
        triplet = nn.functional.triplet_margin_with_distance_loss(a, p, n, distance_function=lambda u, v: 1 - F.cosine_similarity(u, v), margin=0.3)
        apart = torch.cdist(a.float(), torch.cat([p, n]).float())
        soft = F.cross_entropy(-apart * self.temperature.exp(), torch.arange(len(a), device=a.device))
        with torch.no_grad():
            self.centers.index_add_(0, kinds, (a - self.centers[kinds]).to(self.centers.dtype), alpha=0.05)
        center = (a - self.centers[kinds]).pow(2).sum(1).mean()
        margin = F.triplet_margin_loss(a, p, n, margin=0.5, swap=True)
        return triplet + 0.1 * soft + 0.01 * center + margin


def triplets():
    return Triplets()


def triplets_batch(b, t):
    x = torch.zeros(b, 3, 32, 32)
    return {"anchor": x, "near": x.clone(), "far": x.clone(), "kinds": torch.zeros(b, dtype=torch.long)}


class Field(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two, self.calls = nn.Linear(width + 1, 128), nn.Linear(128, width), 0

    def forward(self, t, x):
        self.calls += 1
        t = torch.ones_like(x[:, :1]) * t
        return self.two(torch.tanh(self.one(torch.cat([x, t], 1))))


class Neural(nn.Module):
    """a neural differential equation by Runge and Kutta's fourth order in fixed steps, with its trajectory in the loss"""

    def __init__(self, width=24, steps=5):
        super().__init__()
        self.enc, self.dec, self.field, self.steps = nn.Linear(12, width), nn.Linear(width, 12), Field(width), steps

    def forward(self, x, path):
        z, h = self.enc(x), 1.0 / self.steps
        seen = [z]
        for i in range(self.steps):
            t = i * h
            k1 = self.field(t, z)
            k2 = self.field(t + h / 2, z + h * k1 / 2)
            k3 = self.field(t + h / 2, z + h * k2 / 2)
            k4 = self.field(t + h, z + h * k3)
            z = z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            seen.append(z)
        out = self.dec(torch.stack(seen, 1))
        energy = sum(s.pow(2).sum(-1).mean() for s in seen)
        return F.huber_loss(out, path, delta=0.5) + 1e-3 * energy


def neural():
    return Neural()


def neural_batch(b, t):
    return (torch.zeros(b, 12), torch.zeros(b, 6, 12))


class MixerBlock(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * n, n))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class Mixer(nn.Module):
    """an MLP-Mixer with mixed pictures, stochastic depth and soft labels"""

    def __init__(self, width=96, layers=4, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.blocks = nn.Sequential(*(MixerBlock(64, width) for _ in range(layers)))
        self.norm, self.head, self.classes = nn.LayerNorm(width), nn.Linear(width, classes), classes

    def forward(self, x, y):
        lam = torch.rand(x.size(0), device=x.device).view(-1, 1)
        other = torch.randperm(x.size(0), device=x.device)
        mixed = lam.view(-1, 1, 1, 1).to(x.dtype) * x + (1 - lam).view(-1, 1, 1, 1).to(x.dtype) * x[other]
        hot = F.one_hot(y, self.classes).float()
        hot = lam * hot + (1 - lam) * hot[other]
        z = self.blocks(self.stem(mixed).flatten(2).mT)
        logits = self.head(self.norm(z).mean(1))
        return torch.sum(-hot * F.log_softmax(logits.float(), -1), -1).mean()


def mixer():
    return Mixer()


def mixer_batch(b, t):
    return {"x": torch.zeros(b, 3, 32, 32), "y": torch.zeros(b, dtype=torch.long)}


class Triangle(nn.Module):
    """triangle multiplication and attention, outer products of means, and rows with a bias of pairs, as for proteins"""

    def __init__(self, single=48, pair=32, heads=4):
        super().__init__()
        self.ns, self.np, self.h = nn.LayerNorm(single), nn.LayerNorm(pair), heads
        self.qkv, self.pb, self.g, self.o = nn.Linear(single, 3 * single, bias=False), nn.Linear(pair, heads, bias=False), nn.Linear(single, single), nn.Linear(single, single)
        self.oa, self.ob, self.oo = nn.Linear(single, 8), nn.Linear(single, 8), nn.Linear(64, pair)
        self.tn, self.te = nn.LayerNorm(pair), nn.LayerNorm(pair)
        self.ta, self.tb, self.tga, self.tgb, self.tg, self.tout = (nn.Linear(pair, pair) for _ in range(6))
        self.an, self.aqkv, self.ab, self.ag, self.ao = nn.LayerNorm(pair), nn.Linear(pair, 3 * pair, bias=False), nn.Linear(pair, heads, bias=False), nn.Linear(pair, pair), nn.Linear(pair, pair)
        self.move = nn.Sequential(nn.LayerNorm(pair), nn.Linear(pair, 4 * pair), nn.ReLU(), nn.Linear(4 * pair, pair))

    def attend(self, x, qkv, bias, mask):
        q, k, v = qkv(x).unflatten(-1, (3, self.h, -1)).unbind(-3)
        a = torch.einsum("...qhd,...khd->...hqk", q / math.sqrt(q.size(-1)), k)
        a = a + bias
        a += (mask - 1.0)[..., None, None, :] * 1e4
        return torch.einsum("...hqk,...khd->...qhd", F.softmax(a, -1), v).flatten(-2)

    def forward(self, m, z, mask):
        x = self.ns(m)
        o = self.attend(x, self.qkv, self.pb(self.np(z)).permute(0, 3, 1, 2)[:, None], mask[:, None].expand(-1, m.size(1), -1))
        m = m + self.o(torch.sigmoid(self.g(x)) * o)
        x = self.ns(m) * mask[:, None, :, None]
        outer = torch.einsum("bsic,bsjd->bijcd", self.oa(x), self.ob(x)).flatten(-2) / m.size(1)
        z = z + self.oo(outer)
        x = self.tn(z)
        a, b = torch.sigmoid(self.tga(x)) * self.ta(x), torch.sigmoid(self.tgb(x)) * self.tb(x)
        x = torch.sigmoid(self.tg(x)) * self.tout(self.te(torch.matmul(a.permute(0, 3, 1, 2), b.permute(0, 3, 2, 1)).permute(0, 2, 3, 1)))
        z = z + F.dropout2d(x, 0.25, self.training)
        x = self.an(z.transpose(1, 2))
        o = self.attend(x, self.aqkv, self.ab(x).permute(0, 3, 1, 2)[:, None], mask[:, None].expand(-1, z.size(1), -1))
        z = z + self.ao(torch.sigmoid(self.ag(x)) * o).transpose(1, 2)
        return m, z + self.move(z)


class Folding(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.kind, self.left, self.right, self.far = nn.Embedding(23, 48), nn.Linear(48, 32), nn.Linear(48, 32), nn.Embedding(65, 32)
        self.blocks = nn.ModuleList(Triangle() for _ in range(layers))
        self.bins, self.out = nn.Linear(32, 64), nn.Linear(48, 23)

    def forward(self, rows, target, distances):
        m = self.kind(rows)
        t = m.size(2)
        mask = (rows[:, 0] != 22).to(m.dtype)
        i = torch.arange(t, device=m.device)
        z = self.left(m[:, 0])[:, :, None] + self.right(m[:, 0])[:, None] + self.far((i[:, None] - i[None]).clamp(-32, 32) + 32)
        for block in self.blocks:
            m, z = block(m, z, mask)
        logits = self.bins(z + z.transpose(1, 2)).float()
        hot = F.one_hot(torch.bucketize(distances, torch.linspace(2, 22, 63, device=z.device)), 64).to(logits.dtype)
        disto = -(hot * F.log_softmax(logits, -1)).sum(-1)
        pair = mask[:, None] * mask[:, :, None]
        disto = (disto * pair).sum((-1, -2)) / (1e-6 + pair.sum((-1, -2)))
        return disto.mean() + 2.0 * F.cross_entropy(self.out(m).flatten(0, 2), target.flatten())


def folding():
    return Folding()


def folding_batch(b, t):
    n = 24
    return {"rows": torch.ones(b, 5, n, dtype=torch.long), "target": torch.ones(b, 5, n, dtype=torch.long), "distances": torch.ones(b, n, n)}


class Capsules(nn.Module):
    """routing by agreement in three rounds of which the last has gradients, a margin loss and a reconstruction"""

    def __init__(self, kinds=10):
        super().__init__()
        self.first, self.primary = nn.Conv2d(1, 64, 9), nn.Conv2d(64, 64, 9, stride=2)
        self.w = nn.Parameter(torch.zeros(1, 8 * 36, kinds, 16, 8))
        self.dec = nn.Sequential(nn.Linear(16 * kinds, 128), nn.ReLU(True), nn.Linear(128, 784), nn.Sigmoid())
        self.kinds = kinds

    @staticmethod
    def squash(x):
        n = (x ** 2).sum(-1, keepdim=True)
        return n / (1 + n) * x / (n.sqrt() + 1e-8)

    def forward(self, x, y):
        u = self.squash(self.primary(F.relu(self.first(x), inplace=True)).view(len(x), 8, -1, 36).permute(0, 1, 3, 2).flatten(1, 2))
        hat = torch.matmul(self.w, u[:, :, None, :, None]).squeeze(-1)
        still, b = hat.detach(), torch.zeros(*hat.shape[:3], 1, device=x.device)
        for i in range(3):
            c = F.softmax(b, dim=2)
            if i == 2:
                v = self.squash((c * hat).sum(1, keepdim=True))
            else:
                v = self.squash((c * still).sum(1, keepdim=True))
                b = b + (still * v).sum(-1, keepdim=True)
        v = v.squeeze(1)
        length = v.norm(dim=-1)
        hot = torch.eye(self.kinds, device=x.device).index_select(0, y)
        margin = hot * F.relu(0.9 - length) ** 2 + 0.5 * (1 - hot) * F.relu(length - 0.1) ** 2
        again = self.dec((v * hot[:, :, None].to(v.dtype)).flatten(1))
        return margin.sum(1).mean() + 0.0005 * F.mse_loss(again, x.flatten(1), reduction="sum")


def capsules():
    return Capsules()


def capsules_batch(b, t):
    return {"x": torch.zeros(b, 1, 28, 28), "y": torch.zeros(b, dtype=torch.long)}


class Wide(nn.Module):
    """clicks: embeddings of fields, crossed products, a deep part, uncertainty-weighted losses and a frozen tower"""

    def __init__(self, fields=8, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100 + i, width) for i in range(fields))
        self.linear = nn.ModuleList(nn.Embedding(100 + i, 1) for i in range(fields))
        n = fields * width + 13
        self.cross = nn.ParameterList([nn.Parameter(torch.zeros(n)) for _ in range(3)])
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(n)) for _ in range(3)])
        self.deep = nn.Sequential(nn.BatchNorm1d(n), nn.Linear(n, 128), nn.ELU(), nn.Dropout(0.5), nn.Linear(128, 64), nn.SELU())
        self.out, self.log_var = nn.Linear(n + 64 + 1, 2), nn.Parameter(torch.zeros(2))

    def forward(self, kinds, numbers, click, buy):
        e = torch.stack([t(kinds[:, i]) for i, t in enumerate(self.tables)], 1)
        first = torch.cat([t(kinds[:, i]) for i, t in enumerate(self.linear)], 1).sum(1, keepdim=True)
        second = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
        x0 = torch.cat([e.flatten(1), torch.log1p(numbers.clamp(min=0))], 1)
        x = x0
        for w, b in zip(self.cross, self.bias):
            x = x0 * (x @ w).unsqueeze(1) + b + x
        z = self.out(torch.cat([x, self.deep(x0), first + second], 1))
        one = F.binary_cross_entropy_with_logits(z[:, 0], click, pos_weight=torch.tensor(3.0, device=z.device))
        two = F.poisson_nll_loss(z[:, 1], buy)
        weights = torch.exp(-self.log_var)
        return (weights * torch.stack([one, two]) + self.log_var).sum()


def wide():
    return Wide()


def wide_batch(b, t):
    return {"kinds": torch.zeros(b, 8, dtype=torch.long), "numbers": torch.zeros(b, 13), "click": torch.zeros(b), "buy": torch.zeros(b)}
