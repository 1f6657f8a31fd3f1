"""Modules of pictures, graphs and vectors as other groups have them, small: each is recorded and held against a trace. Each NAME has NAME() and
NAME_batch(b, t). Those of sequences are in unseen.py."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations


class DiTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, c):
        a, b, g, d, e, h = self.ada(c).chunk(6, dim=1)
        y = self.n1(x) * (1 + b.unsqueeze(1)) + a.unsqueeze(1)
        q, k, v = self.qkv(y).reshape(*y.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + g.unsqueeze(1) * self.proj(y)
        return x + h.unsqueeze(1) * self.mlp(self.n2(x) * (1 + e.unsqueeze(1)) + d.unsqueeze(1))


class DiT(nn.Module):
    """a diffusion transformer on pictures: adaptive norms from time and class, classes dropped by a mask, and a learned variance"""

    def __init__(self, side=16, patch=2, width=96, heads=3, layers=4, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(4, width, patch, patch)
        self.register_buffer("where", torch.zeros(1, (side // patch) ** 2, width))
        self.time = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
        self.kind = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(DiTBlock(width, heads) for _ in range(layers))
        self.norm, self.last = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, patch * patch * 8)
        self.ada, self.p, self.n = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width)), patch, classes

    def forward(self, x, t, y, noise):
        f = torch.exp(-math.log(10000) * torch.arange(32, device=x.device, dtype=torch.float32) / 32)
        a = t[:, None].float() * f[None]
        emb = torch.cat([torch.cos(a), torch.sin(a)], -1).to(x.dtype)
        drop = torch.rand(y.shape[0], device=y.device) < 0.1
        c = self.time(emb) + self.kind(torch.where(drop, self.n, y))
        h = self.patch(x).flatten(2).transpose(1, 2) + self.where
        for block in self.blocks:
            h = block(h, c)
        s, g = self.ada(c).chunk(2, dim=1)
        h = self.last(self.norm(h) * (1 + g.unsqueeze(1)) + s.unsqueeze(1))
        side = x.shape[-1] // self.p
        out = torch.einsum("nhwpqc->nchpwq", h.reshape(len(x), side, side, self.p, self.p, 8)).reshape(len(x), 8, x.shape[2], x.shape[3])
        eps, var = out.chunk(2, dim=1)
        per = (eps.float() - noise.float()).pow(2).flatten(1).mean(1)
        weight = 1 / (1 + t.float())
        return (weight * per).mean() + 1e-3 * (var.float().exp() - var.float() - 1).mean()


def dit():
    return DiT()


def dit_batch(b, t):
    return {"x": torch.zeros(b, 4, 16, 16), "t": torch.zeros(b, dtype=torch.long), "y": torch.zeros(b, dtype=torch.long), "noise": torch.zeros(b, 4, 16, 16)}


class Hyper(nn.Module):
    """a network that makes another's weights for each sample: convolutions in as many groups as samples, and baddbmm"""

    def __init__(self, width=16, inner=24, classes=10):
        super().__init__()
        self.inner = inner
        self.look = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.kernel, self.bias = nn.Linear(width, inner * 3 * 9), nn.Linear(width, inner)
        self.matrix, self.offset = nn.Linear(width, classes * inner), nn.Linear(width, classes)

    def forward(self, x, y):
        z = self.look(x)
        b, c, h, w = x.shape
        k, o = self.kernel(z).view(b * self.inner, c, 3, 3), self.bias(z).view(-1)
        f = F.conv2d(x.to(k.dtype).reshape(1, b * c, h, w), k, o, padding=1, groups=b).view(b, self.inner, h, w)
        f = F.leaky_relu(f, 0.1).mean((2, 3), keepdim=True).flatten(2)
        m = self.matrix(z).view(b, -1, self.inner)
        out = torch.baddbmm(self.offset(z).unsqueeze(-1), m, f).squeeze(-1)
        return F.cross_entropy(out, y) + 1e-4 * self.kernel.weight.pow(2).sum()


def hyper():
    return Hyper()


def hyper_batch(b, t):
    return {"x": torch.zeros(b, 3, 32, 32), "y": torch.zeros(b, dtype=torch.long)}


class Siamese(nn.Module):
    """two views, a predictor, and a slow copy that the forward moves on without gradients"""

    def __init__(self, width=32, out=64):
        super().__init__()
        self.online = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
                                    nn.BatchNorm2d(2 * width), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 256), nn.BatchNorm1d(256),
                                    nn.ReLU(inplace=True), nn.Linear(256, out))
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False
        self.predict = nn.Sequential(nn.Linear(out, 128), nn.BatchNorm1d(128), nn.ReLU(inplace=True), nn.Linear(128, out))
        self.register_buffer("bank", torch.zeros(256, out))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.data.mul_(0.99).add_(p.data, alpha=0.01)

    def forward(self, one, two):
        if self.training:
            self.follow()
        p1, p2 = self.predict(self.online(one)), self.predict(self.online(two))
        with torch.no_grad():
            z1, z2 = F.normalize(self.target(one).float(), dim=-1), F.normalize(self.target(two).float(), dim=-1)
            near = z1 @ self.bank.float().t()
            z1 = self.bank[near.argmax(1)].float()
            n = int(self.at)
            self.bank[n:n + len(one)] = z2.to(self.bank.dtype)
            self.at[0] = (n + len(one)) % 1
        return 2 - F.cosine_similarity(p1.float(), z2).mean() - F.cosine_similarity(p2.float(), z1).mean()


def siamese():
    return Siamese()


def siamese_batch(b, t):
    return {"one": torch.zeros(b, 3, 32, 32), "two": torch.zeros(b, 3, 32, 32)}


class EdgeLayer(nn.Module):
    """attention along edges: scores by a scattered softmax, messages added up by index_add"""

    def __init__(self, width, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.e, self.o = (nn.Linear(width, width) for _ in range(5))
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.edge = nn.Linear(width, width)

    def forward(self, x, e, source, target):
        n = x.shape[0]
        q, k, v, w = (f(y).view(len(y), self.h, -1) for f, y in ((self.q, x), (self.k, x), (self.v, x), (self.e, e)))
        score = (q[target] * (k[source] + w)).sum(-1) / math.sqrt(q.shape[-1])
        top = torch.full((n, self.h), float("-inf"), dtype=score.dtype, device=x.device).scatter_reduce(0, target[:, None].expand_as(score), score.detach(), "amax")
        p = torch.exp(score - top[target])
        total = torch.zeros(n, self.h, dtype=p.dtype, device=x.device).index_add(0, target, p)
        a = p / (total[target] + 1e-9)
        m = (v[source] + w) * a.unsqueeze(-1)
        y = torch.zeros(n, self.h, m.shape[-1], dtype=m.dtype, device=x.device).index_add_(0, target, m).flatten(1)
        x = self.n1(x + self.o(y))
        x = self.n2(x + self.feed(x))
        return x, e + F.relu(self.edge(e) + x[source] - x[target])


class GraphTransformer(nn.Module):
    """graphs of some nodes and edges a sample: edges have features of their own, and nodes are pooled by their graph"""

    def __init__(self, width=64, heads=4, layers=3, kinds=20, bonds=5):
        super().__init__()
        self.atom, self.bond = nn.Embedding(kinds, width), nn.Embedding(bonds, width)
        self.layers = nn.ModuleList(EdgeLayer(width, heads) for _ in range(layers))
        self.out = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, atoms, bonds, source, target, graph, y):
        x, e = self.atom(atoms), self.bond(bonds)
        for layer in self.layers:
            x, e = layer(x, e, source, target)
        g = len(y)
        total = torch.zeros(g, x.shape[1], dtype=x.dtype, device=x.device).index_add(0, graph, x)
        count = torch.zeros(g, 1, device=x.device).index_add(0, graph, torch.ones(len(x), 1, device=x.device))
        most = torch.zeros(g, x.shape[1], dtype=x.dtype, device=x.device).scatter_reduce(0, graph[:, None].expand_as(x), x, "amax", include_self=False)
        return F.l1_loss(self.out(torch.cat([(total / count).to(most.dtype), most], -1)).squeeze(-1).float(), y.float())


def graph_transformer():
    return GraphTransformer()


def graph_transformer_batch(b, t):
    n, m = 12 * b, 30 * b
    return {"atoms": torch.zeros(n, dtype=torch.long), "bonds": torch.zeros(m, dtype=torch.long), "source": torch.zeros(m, dtype=torch.long),
            "target": torch.zeros(m, dtype=torch.long), "graph": torch.zeros(n, dtype=torch.long), "y": torch.zeros(b)}


class Residual(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
        self.skip = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x):
        h = self.c1(F.silu(self.n1(x)))
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class Looks(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = nn.GroupNorm(8, c), *(nn.Conv2d(c, c, 1) for _ in range(4))

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = self.q(y).view(b, c, -1), self.k(y).view(b, c, -1), self.v(y).view(b, c, -1)
        a = torch.bmm(q.transpose(1, 2), k) * c ** -0.5
        return x + self.o(torch.bmm(v, a.softmax(-1).transpose(1, 2)).view(b, c, h, w))


class VQGAN(nn.Module):
    """an autoencoder with a codebook and attention among its pixels, judged by patches"""

    def __init__(self, width=32, codes=128, dim=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), Residual(width, width), nn.Conv2d(width, width, 3, 2, 1), Residual(width, 2 * width),
                                    nn.Conv2d(2 * width, 2 * width, 3, 2, 1), Looks(2 * width), nn.GroupNorm(8, 2 * width), nn.SiLU(), nn.Conv2d(2 * width, dim, 1))
        self.codes = nn.Embedding(codes, dim)
        self.decode = nn.Sequential(nn.Conv2d(dim, 2 * width, 3, padding=1), Looks(2 * width), nn.Upsample(scale_factor=2), Residual(2 * width, width),
                                    nn.Upsample(scale_factor=2, mode="nearest"), Residual(width, width), nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))
        self.judge = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width),
                                   nn.LeakyReLU(0.2, True), nn.Conv2d(2 * width, 1, 4, 1, 1))

    def forward(self, x):
        z = self.encode(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        far = flat.pow(2).sum(1, keepdim=True) + self.codes.weight.pow(2).sum(1) - 2 * flat @ self.codes.weight.t()
        i = far.argmin(1)
        q = self.codes(i).view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2).contiguous()
        loss = F.mse_loss(q.detach(), z) * 0.25 + F.mse_loss(q, z.detach())
        y = self.decode(z + (q - z).detach())
        used = torch.bincount(i, minlength=self.codes.num_embeddings).float()
        used = torch.exp(-(used / used.sum() * torch.log(used / used.sum() + 1e-10)).sum())
        fake = -self.judge(y).mean()
        return {"loss": (x - y).abs().mean() + loss + 0.1 * fake, "picture": y, "used": used}


def vqgan():
    return VQGAN()


def vqgan_batch(b, t):
    return {"x": torch.zeros(b, 3, 32, 32)}


class Window(nn.Module):
    """attention in windows that are shifted, with a table of relative places"""

    def __init__(self, width, heads, side, window, shift):
        super().__init__()
        self.h, self.w, self.shift, self.side = heads, window, shift, side
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", rel[..., 0] * (2 * window - 1) + rel[..., 1], persistent=False)
        mask = None
        if shift:
            where = torch.zeros(1, side, side, 1)
            for n, (a, b) in enumerate((a, b) for a in ((0, -window), (-window, -shift), (-shift, None)) for b in ((0, -window), (-window, -shift), (-shift, None))):
                where[:, slice(*a), slice(*b)] = n
            parts = self.split(where).view(-1, window * window)
            mask = (parts[:, None] - parts[:, :, None]).ne(0).float() * -100.0
        self.register_buffer("mask", mask, persistent=False)

    def split(self, x):
        b, h, w, c = x.shape
        return x.view(b, h // self.w, self.w, w // self.w, self.w, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.w * self.w, c)

    def forward(self, x):
        b, n, c = x.shape
        y = self.n1(x).view(b, self.side, self.side, c)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.split(y)
        q, k, v = self.qkv(y).reshape(len(y), -1, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * (c // self.h) ** -0.5) @ k.transpose(-2, -1)
        a = a + self.table[self.index.view(-1)].view(self.w ** 2, self.w ** 2, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if self.mask is not None:
            a = (a.view(b, -1, self.h, self.w ** 2, self.w ** 2) + self.mask[:, None].unsqueeze(0).to(a.dtype)).view(-1, self.h, self.w ** 2, self.w ** 2)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, self.w, self.w, c)
        y = y.view(b, self.side // self.w, self.side // self.w, self.w, self.w, c).permute(0, 1, 3, 2, 4, 5).reshape(b, self.side, self.side, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + self.proj(y.view(b, n, c))
        return x + self.mlp(self.n2(x))


class Windows(nn.Module):
    """two stages of windows with patches merged in between"""

    def __init__(self, width=48, classes=20):
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.one = nn.Sequential(*(Window(width, 3, 16, 4, s) for s in (0, 2)))
        self.merge_norm, self.merge = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)
        self.two = nn.Sequential(*(Window(2 * width, 6, 8, 4, s) for s in (0, 2, 0, 2)))
        self.end, self.head = nn.LayerNorm(2 * width), nn.Linear(2 * width, classes)

    def forward(self, x, y):
        x = self.norm(self.patch(x).flatten(2).transpose(1, 2))
        x = self.one(x).view(len(y), 16, 16, -1)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1).flatten(1, 2)
        x = self.two(self.merge(self.merge_norm(x)))
        return F.cross_entropy(self.head(self.end(x).transpose(1, 2).mean(-1)), y)


def windows():
    return Windows()


def windows_batch(b, t):
    return {"x": torch.zeros(b, 3, 64, 64), "y": torch.zeros(b, dtype=torch.long)}


class Coupling(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.log, self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.mix = nn.Parameter(torch.eye(channels))
        self.net = nn.Sequential(nn.Conv2d(channels // 2, width, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(width, width, 1), nn.ReLU(inplace=True),
                                 nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, x, det):
        b, c, h, w = x.shape
        x = (x + self.shift) * self.log.exp()
        x = F.conv2d(x, self.mix[:, :, None, None])
        det = det + h * w * self.log.sum().float()
        a, z = x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.sigmoid(s + 2)
        return torch.cat([a, (z + t) * s], 1), det + s.float().log().flatten(1).sum(1)


class Flow(nn.Module):
    """a normalizing flow: invertible convolutions, couplings and squeezed pixels; the determinant goes along"""

    def __init__(self, width=32, steps=3):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(12, width) for _ in range(steps))
        self.prior = nn.Parameter(torch.zeros(2, 12, 1, 1))

    def forward(self, x):
        x = x + torch.rand_like(x) / 256
        x, det = F.pixel_unshuffle(x, 2), torch.zeros(len(x), device=x.device)
        for step in self.steps:
            x, det = step(x, det)
        mean, log = self.prior.float()
        p = -0.5 * (math.log(2 * math.pi) + 2 * log + (x.float() - mean) ** 2 * (-2 * log).exp())
        return -(p.flatten(1).sum(1) + det).mean() / x[0].numel()


def flow():
    return Flow()


def flow_batch(b, t):
    return (torch.zeros(b, 3, 16, 16),)


class Detector(nn.Module):
    """features of three sizes added up from above, boxes by their distances, losses where the label says that something is"""

    def __init__(self, width=24, classes=5):
        super().__init__()
        def stage(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.SiLU(inplace=True), nn.Conv2d(b, b, 3, 1, 1, groups=b, bias=False),
                                 nn.BatchNorm2d(b), nn.SiLU(inplace=True), nn.Conv2d(b, b, 1, bias=False), nn.BatchNorm2d(b), nn.Hardswish(inplace=True))
        self.stages = nn.ModuleList([stage(3, width), stage(width, 2 * width), stage(2 * width, 3 * width)])
        self.sides = nn.ModuleList(nn.Conv2d(k * width, width, 1) for k in (1, 2, 3))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.box, self.kind = nn.Conv2d(width, 4, 3, padding=1), nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, x, kinds, boxes):
        seen = []
        for s in self.stages:
            x = s(x)
            seen.append(x)
        top, out = None, []
        for side, smooth, f in zip(reversed(self.sides), self.smooth, reversed(seen)):
            f = side(f)
            top = f if top is None else f + F.interpolate(top, size=f.shape[-2:], mode="bilinear", align_corners=False)
            out.append(smooth(F.relu(top)))
        kind = torch.cat([self.kind(f).flatten(2).transpose(1, 2) for f in out], 1).float()
        box = torch.cat([F.relu(self.box(f)).flatten(2).transpose(1, 2) for f in out], 1).float()
        there = kinds > 0
        goal = F.one_hot(kinds, kind.shape[-1] + 1)[..., 1:].float()
        p = kind.sigmoid()
        ce = F.binary_cross_entropy_with_logits(kind, goal, reduction="none")
        focal = (0.25 * goal + 0.75 * (1 - goal)) * (1 - (p * goal + (1 - p) * (1 - goal))) ** 2 * ce
        few = there.sum().clamp(min=1)
        inner = torch.minimum(box, boxes.float()).clamp(min=0).prod(-1)
        outer = torch.maximum(box, boxes.float()).prod(-1)
        overlap = torch.where(there, 1 - (inner + 1) / (outer + 1), 0.0)
        return (focal.sum() + overlap.sum() + (F.smooth_l1_loss(box, boxes.float(), reduction="none").sum(-1) * there).sum()) / few


def detector():
    return Detector()


def detector_batch(b, t):
    n = 16 * 16 + 8 * 8 + 4 * 4
    return {"x": torch.zeros(b, 3, 32, 32), "kinds": torch.zeros(b, n, dtype=torch.long), "boxes": torch.zeros(b, n, 4)}


class Separator(nn.Module):
    """sound in two voices: 1-D convolutions down and up with weight norm, a spectral loss of short windows, and the better of two orders"""

    def __init__(self, width=24):
        super().__init__()
        norm = parametrizations.weight_norm
        self.down = nn.ModuleList([norm(nn.Conv1d(1, width, 8, 4, 2)), norm(nn.Conv1d(width, 2 * width, 8, 4, 2))])
        self.mix = nn.ModuleList([nn.Conv1d(width, 2 * width, 1), nn.Conv1d(2 * width, 4 * width, 1)])
        self.middle = nn.Sequential(*(nn.Sequential(nn.Conv1d(2 * width, 2 * width, 3, padding=2 ** i, dilation=2 ** i), nn.GroupNorm(1, 2 * width), nn.PReLU()) for i in range(3)))
        self.up = nn.ModuleList([norm(nn.ConvTranspose1d(2 * width, width, 8, 4, 2)), norm(nn.ConvTranspose1d(width, 2, 8, 4, 2))])
        self.register_buffer("window", torch.zeros(128))

    def spectrum(self, x):
        return torch.stft(x.flatten(0, 1).float(), 128, 32, 128, self.window.float(), return_complex=True).abs()

    def forward(self, x, y):
        h, skips = x.unsqueeze(1), []
        for c, m in zip(self.down, self.mix):
            h = F.glu(m(F.gelu(c(h))), 1)
            skips.append(h)
        h = self.middle(h)
        for u, s in zip(self.up, reversed(skips)):
            h = u(h + s)
            h = F.gelu(h) if u is not self.up[-1] else h
        straight, crossed = ((h - z).abs().float().mean((1, 2)) for z in (y, y.flip(1)))
        return torch.minimum(straight, crossed).mean() + 0.1 * F.l1_loss(self.spectrum(h), self.spectrum(y))


def separator():
    return Separator()


def separator_batch(b, t):
    return {"x": torch.zeros(b, 1024), "y": torch.zeros(b, 2, 1024)}


class Neighbours(nn.Module):
    """points with attention by vectors among the nearest of each"""

    def __init__(self, width=48, k=8, classes=6, blocks=2):
        super().__init__()
        self.k, self.into = k, nn.Linear(3, width)
        self.blocks = nn.ModuleList(nn.ModuleDict(dict(q=nn.Linear(width, width), kv=nn.Linear(width, 2 * width), place=nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width)),
                                                       score=nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)), out=nn.Linear(width, width))) for _ in range(blocks))
        self.head = nn.Linear(width, classes)

    def forward(self, points, labels):
        x = self.into(points)
        with torch.no_grad():
            near = torch.cdist(points.float(), points.float()).topk(self.k, largest=False).indices
        def gather(y):
            return torch.gather(y.unsqueeze(1).expand(-1, y.shape[1], -1, -1), 2, near.unsqueeze(-1).expand(-1, -1, -1, y.shape[-1]))
        for m in self.blocks:
            place = m["place"](points.unsqueeze(2) - gather(points))
            k, v = m["kv"](x).chunk(2, -1)
            a = m["score"](m["q"](x).unsqueeze(2) - gather(k) + place).softmax(2)
            x = x + m["out"]((a * (gather(v) + place)).sum(2))
        y = self.head(x)
        return F.nll_loss(F.log_softmax(y.float().transpose(1, 2), 1), labels) + 1e-3 * torch.logsumexp(y.float(), -1).pow(2).mean()


def neighbours():
    return Neighbours()


def neighbours_batch(b, t):
    return {"points": torch.zeros(b, 64, 3), "labels": torch.zeros(b, 64, dtype=torch.long)}
