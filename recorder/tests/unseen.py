"""Modules of sequences as other groups have them, small: each is recorded and held against a trace. Each NAME has NAME() and NAME_batch(b, t). Those of
pictures, graphs and vectors are in unseen_samples.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential


def _ids(b, t):
    return torch.zeros(b, t, dtype=torch.long)


def _tokens(b, t):
    return {"ids": _ids(b, t), "labels": _ids(b, t)}


class ConvModule(nn.Module):
    """pointwise, gated, depthwise, batch norm, pointwise"""

    def __init__(self, width, kernel=15):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width, bias=False)
        self.batch = nn.BatchNorm1d(width)
        self.last = nn.Conv1d(width, width, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        y = self.norm(x).transpose(1, 2)
        y = F.glu(self.first(y), dim=1)
        y = F.silu(self.batch(self.depth(y)))
        return self.drop(self.last(y).transpose(1, 2))


class RelativeAttention(nn.Module):
    """content and position scores added up, positions shifted by padding and viewing"""

    def __init__(self, width, heads):
        super().__init__()
        self.h, self.d = heads, width // heads
        self.qkv, self.pos, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.u, self.v = nn.Parameter(torch.zeros(heads, self.d)), nn.Parameter(torch.zeros(heads, self.d))

    def forward(self, x, pos):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, self.d).unbind(2)
        p = self.pos(pos).view(1, -1, self.h, self.d).transpose(1, 2)
        content = torch.matmul((q + self.u).transpose(1, 2), k.permute(0, 2, 3, 1))
        place = torch.matmul((q + self.v).transpose(1, 2), p.transpose(-2, -1))
        place = F.pad(place, (1, 0)).view(b, self.h, -1, t)[:, :, 1:].view_as(place)[..., :t]
        a = ((content + place) / math.sqrt(self.d)).softmax(-1)
        y = torch.matmul(F.dropout(a, 0.1, self.training), v.transpose(1, 2))
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class ConformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        def feed():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * width, width), nn.Dropout(0.1))
        self.one, self.two = feed(), feed()
        self.norm, self.attention = nn.LayerNorm(width), RelativeAttention(width, heads)
        self.conv, self.end = ConvModule(width), nn.LayerNorm(width)

    def forward(self, x, pos):
        x = x + 0.5 * self.one(x)
        x = x + self.attention(self.norm(x), pos)
        x = x + self.conv(x)
        x = x + 0.5 * self.two(x)
        return self.end(x)


class Conformer(nn.Module):
    """a speech encoder: frames thinned out by 2-D convolutions, relative positions, depthwise convolutions, CTC"""

    def __init__(self, mels=40, width=96, heads=4, layers=3, words=60):
        super().__init__()
        self.thin = nn.Sequential(nn.Conv2d(1, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 24, 3, 2, 1), nn.ReLU())
        self.into = nn.Linear(24 * (mels // 4), width)
        self.layers = nn.ModuleList(ConformerBlock(width, heads) for _ in range(layers))
        self.head, self.width = nn.Linear(width, words), width

    def forward(self, mels, words):
        x = self.thin(mels.unsqueeze(1))
        b, c, t, f = x.shape
        x = self.into(x.transpose(1, 2).reshape(b, t, c * f))
        at = torch.arange(t - 1, -t, -1, device=x.device).float()
        rate = torch.exp(torch.arange(0, self.width, 2, device=x.device).float() * (-math.log(1e4) / self.width))
        pos = torch.stack([torch.sin(at[:, None] * rate), torch.cos(at[:, None] * rate)], -1).flatten(-2)[None].to(x.dtype)
        for layer in self.layers:
            x = layer(x, pos)
        p = F.log_softmax(self.head(x).float(), -1).transpose(0, 1)
        return F.ctc_loss(p, words, (t,) * b, (words.shape[1],) * b, zero_infinity=True)


def conformer():
    return Conformer()


def conformer_batch(b, t):
    return {"mels": torch.zeros(b, 128, 40), "words": torch.ones(b, 12, dtype=torch.long)}


class Cross(nn.Module):
    def __init__(self, width, other, heads):
        super().__init__()
        self.heads = heads
        self.nq, self.nk = nn.LayerNorm(width), nn.LayerNorm(other)
        self.q, self.kv, self.out = nn.Linear(width, width, bias=False), nn.Linear(other, 2 * width, bias=False), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, y):
        y = self.nk(y)
        q = self.q(self.nq(x)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.kv(y).chunk(2, -1))
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return x + self.feed(x)


class PerceiverIO(nn.Module):
    """a few latents read what comes in, think, and are asked by learned questions and by the bytes themselves: three losses"""

    def __init__(self, vocabulary=262, width=80, latent=128, n=24, blocks=4, classes=7):
        super().__init__()
        self.embed, self.where = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.latents, self.task = nn.Parameter(torch.randn(n, latent) * 0.02), nn.Parameter(torch.randn(1, 1, 64) * 0.02)
        self.read = Cross(latent, width, 4)
        self.think = nn.ModuleList(Cross(latent, latent, 8) for _ in range(blocks))
        self.ask, self.write = Cross(64, latent, 2), Cross(width, latent, 4)
        self.classify, self.measure = nn.Linear(64, classes), nn.Linear(64, 3)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, ids, labels, classes, measured):
        x = self.embed(ids) + self.where(torch.arange(ids.shape[1], device=ids.device))
        z = self.read(self.latents.expand(len(ids), -1, -1), x)
        for block in self.think:
            z = block(z, z)
        told = self.ask(self.task.expand(len(ids), -1, -1), z)[:, 0]
        words = F.linear(self.write(x, z), self.embed.weight, self.bias)
        lm = F.cross_entropy(words.transpose(1, 2), labels, ignore_index=-100)
        return {"loss": lm + F.cross_entropy(self.classify(told), classes, label_smoothing=0.1) + 0.5 * F.smooth_l1_loss(self.measure(told).float(), measured.float()),
                "words": words, "latents": z.detach()}


def perceiver_io():
    return PerceiverIO()


def perceiver_io_batch(b, t):
    return {**_tokens(b, t), "classes": torch.zeros(b, dtype=torch.long), "measured": torch.zeros(b, 3)}


class Performer(nn.Module):
    """random features of queries and keys, and sums of what came before"""

    def __init__(self, width=96, heads=4, features=20, layers=3, vocabulary=700):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.heads = heads
        self.layers = nn.ModuleList(nn.ModuleDict(dict(norm=nn.LayerNorm(width), qkv=nn.Linear(width, 3 * width, bias=False), out=nn.Linear(width, width),
                                                       norm2=nn.LayerNorm(width), up=nn.Linear(width, 3 * width), down=nn.Linear(3 * width, width)))
                                    for _ in range(layers))
        self.register_buffer("projection", torch.randn(heads, width // heads, features))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def features(self, x, query):
        d = x.shape[-1]
        x = x * d ** -0.25
        u = torch.einsum("bhtd,hdm->bhtm", x, self.projection.to(x.dtype))
        norm = x.square().sum(-1, keepdim=True) / 2
        top = u.amax(-1, keepdim=True) if query else u.amax((-2, -1), keepdim=True)
        return torch.exp(u - norm - top.detach()) + 1e-4

    def forward(self, ids, labels):
        x = self.embed(ids)
        for m in self.layers:
            q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in m["qkv"](m["norm"](x)).chunk(3, -1))
            q, k = self.features(q.float(), True), self.features(k.float(), False)
            v = v.float()
            with torch.autocast("cuda", enabled=False):
                kv = torch.einsum("bhtm,bhtd->bhtmd", k, v).cumsum(2)
                z = k.cumsum(2)
                y = torch.einsum("bhtm,bhtmd->bhtd", q, kv) / (torch.einsum("bhtm,bhtm->bht", q, z).unsqueeze(-1) + 1e-6)
            x = x + m["out"](y.to(x.dtype).transpose(1, 2).flatten(2))
            x = x + m["down"](F.gelu(m["up"](m["norm2"](x)), approximate="tanh"))
        return F.cross_entropy(self.head(x).view(-1, self.head.out_features), labels.view(-1))


def performer():
    return Performer()


performer_batch = _tokens


class Universal(nn.Module):
    """one block run again and again, with an embedding of the round, and weights of when to halt"""

    def __init__(self, width=96, heads=3, rounds=4, vocabulary=500):
        super().__init__()
        self.embed, self.rounds = nn.Embedding(vocabulary, width), rounds
        self.round = nn.Embedding(rounds, width)
        self.block = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.halt = nn.Linear(width, 1)
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, labels):
        x = self.embed(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], device=ids.device, dtype=x.dtype)
        left = torch.ones(ids.shape, device=ids.device)
        total, ponder = torch.zeros_like(x), 0.0
        for n in range(self.rounds):
            x = self.block(x + self.round.weight[n], src_mask=mask, is_causal=True)
            p = torch.sigmoid(self.halt(x)).squeeze(-1).float()
            p = left if n + 1 == self.rounds else p * left
            total = total + p.unsqueeze(-1).to(x.dtype) * x
            left = left - p
            ponder = ponder + left.mean()
        logits = F.linear(self.norm(total), self.embed.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + 0.01 * ponder


def universal():
    return Universal()


universal_batch = _tokens


class Capacity(nn.Module):
    """experts with a capacity: places by cumulative sums, dispatched and combined by one-hot tensors, what is too much is dropped"""

    def __init__(self, width=64, experts=4, k=2, factor=1.25, layers=2, vocabulary=400):
        super().__init__()
        self.k, self.experts, self.factor = k, experts, factor
        self.embed = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(width, experts, bias=False) for _ in range(layers))
        self.up = nn.ParameterList(nn.Parameter(torch.randn(experts, width, 2 * width) * 0.02) for _ in range(layers))
        self.down = nn.ParameterList(nn.Parameter(torch.randn(experts, 2 * width, width) * 0.02) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x, balance = self.embed(ids), 0.0
        b, t, d = x.shape
        room = int(self.factor * self.k * t / self.experts)
        for norm, gate, up, down in zip(self.norms, self.gates, self.up, self.down):
            h = norm(x)
            p = F.softmax(gate(h).float(), dim=-1)
            top, chosen = p.topk(self.k, -1)
            dispatch = combine = None
            taken = torch.zeros(b, 1, self.experts, device=x.device)
            for i in range(self.k):
                mask = F.one_hot(chosen[..., i], self.experts).float()
                place = (mask.cumsum(1) - mask + taken) * mask
                taken = taken + mask.sum(1, keepdim=True)
                mask = mask * (place < room)
                slot = F.one_hot(place.sum(-1).long().clamp(max=room - 1), room).float()
                one = mask.unsqueeze(-1) * slot.unsqueeze(-2)
                dispatch = one if dispatch is None else dispatch + one
                combine = (one * top[..., i, None, None]) if combine is None else combine + one * top[..., i, None, None]
            inside = torch.einsum("btec,btd->ebcd", dispatch.to(h.dtype), h)
            y = torch.einsum("ebcd,edf->ebcf", inside, up)
            y = torch.einsum("ebcf,efd->ebcd", F.relu(y), down)
            x = x + torch.einsum("btec,ebcd->btd", combine.to(y.dtype), y)
            balance = balance + (p.mean((0, 1)) * F.one_hot(chosen[..., 0], self.experts).float().mean((0, 1))).sum() * self.experts
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten()) + 0.01 * balance


def capacity():
    return Capacity()


capacity_batch = _tokens


class Retention(nn.Module):
    """keys and values decay: heads with rates of their own, in the parallel form, gates, and group norm"""

    def __init__(self, width, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.norm = nn.GroupNorm(heads, width)

    def forward(self, x, decay):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5 * decay
        a = a / a.detach().abs().sum(-1, keepdim=True).clamp(min=1)
        y = (a @ v).transpose(1, 2).reshape(b * t, d)
        return self.o(self.norm(y).view(b, t, d) * F.silu(self.g(x)))


class Retentive(nn.Module):
    """a retentive network; tokens are mixed with the one before them, activations of each block are kept by hooks"""

    def __init__(self, width=96, heads=4, layers=4, vocabulary=600):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(nn.ModuleDict(dict(n1=nn.RMSNorm(width), r=Retention(width, heads), n2=nn.RMSNorm(width),
                                                       gate=nn.Linear(width, 2 * width), up=nn.Linear(width, 2 * width), down=nn.Linear(2 * width, width),
                                                       )) for _ in range(layers))
        self.mix = nn.Parameter(torch.full((layers, width), 0.5))
        self.head, self.heads, self.seen = nn.Linear(width, vocabulary, bias=False), heads, {}
        for i, b in enumerate(self.blocks):
            b["down"].register_forward_hook(lambda m, a, y, i=i: self.seen.__setitem__(i, y.detach()))

    def forward(self, ids, labels):
        x = self.embed(ids)
        t = ids.shape[1]
        n = torch.arange(t, device=ids.device)
        rate = torch.log(1 - 2.0 ** (-5 - torch.arange(self.heads, device=ids.device).float()))
        far = (n[:, None] - n[None, :]).float()
        decay = torch.exp(rate[:, None, None] * far).masked_fill(far < 0, 0).to(x.dtype)
        for i, b in enumerate(self.blocks):
            before = F.pad(x, (0, 0, 1, -1))
            h = torch.lerp(before, x, self.mix[i].to(x.dtype))
            x = x + b["r"](b["n1"](h), decay)
            h = b["n2"](x)
            x = x + b["down"](F.silu(b["gate"](h)) * b["up"](h))
        reg = sum(v.float().pow(2).mean() for v in self.seen.values())
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten()) + 1e-3 * reg


def retentive():
    return Retentive()


retentive_batch = _tokens


class Deep(nn.Module):
    """checkpoint_sequential over convolutions and blocks without norms, ReLU in place, a part outside of autocast"""

    def __init__(self, width=64, layers=6, vocabulary=300):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(inplace=True), nn.Linear(3 * width, width)) for _ in range(layers)))
        self.scale, self.head = nn.Parameter(torch.ones(width)), nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = checkpoint_sequential(self.body, 3, self.embed(ids), use_reentrant=False)
        with torch.autocast("cuda", enabled=False):
            y = x.float()
            y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale.float()
        return F.cross_entropy(self.head(y.to(self.head.weight.dtype)).flatten(0, 1).float(), labels.flatten())


def deep():
    return Deep()


deep_batch = _tokens


class Tasks(nn.Module):
    """a trunk with heads for several tasks, losses where labels are there, weights that are learned from what is uncertain"""

    def __init__(self, width=96, fields=12, layers=2):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50 + 7 * i, width) for i in range(fields))
        self.numbers = nn.Linear(5, width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.trunk = nn.ModuleList(nn.ModuleDict(dict(att=nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True), n1=nn.LayerNorm(width),
                                                      n2=nn.LayerNorm(width), up=nn.Linear(width, 4 * width), down=nn.Linear(2 * width, width)))
                                   for _ in range(layers))
        self.heads = nn.ModuleDict({"click": nn.Linear(width, 1), "price": nn.Linear(width, 2), "kind": nn.Linear(width, 9), "rank": nn.Linear(width, 4)})
        self.spread = nn.Parameter(torch.zeros(4))

    def forward(self, ids, numbers, click, price, kind, rank):
        x = torch.stack([t(ids[:, i]) for i, t in enumerate(self.tables)], 1)
        x = torch.cat([self.cls.expand(len(ids), -1, -1), x, self.numbers(numbers).unsqueeze(1)], 1)
        looks = []
        for m in self.trunk:
            h = m["n1"](x)
            y, w = m["att"](h, h, h, need_weights=True)
            looks.append(w)
            x = x + y
            a, g = m["up"](m["n2"](x)).chunk(2, -1)
            x = x + m["down"](a * F.gelu(g))
        z = x[:, 0]
        out = {k: f(z).float() for k, f in self.heads.items()}
        bought = click > 0.5
        mean, width = out["price"].unbind(-1)
        losses = torch.stack([
            F.binary_cross_entropy_with_logits(out["click"].squeeze(-1), click.float(), pos_weight=torch.tensor(3.0, device=click.device)),
            torch.where(bought, F.gaussian_nll_loss(mean, price.float(), F.softplus(width) + 1e-3, reduction="none"), torch.zeros_like(mean)).mean(),
            torch.where(kind >= 0, F.cross_entropy(out["kind"], kind.clamp(min=0), reduction="none"), 0.0).sum() / (kind >= 0).sum().clamp(min=1),
            F.multi_margin_loss(out["rank"], rank),
        ])
        entropy = -(torch.stack(looks).float().clamp(min=1e-9).log() * torch.stack(looks).float()).sum(-1).mean()
        return (losses * torch.exp(-self.spread) + self.spread).sum() - 1e-3 * entropy


def tasks():
    return Tasks()


def tasks_batch(b, t):
    return {"ids": _ids(b, 12), "numbers": torch.zeros(b, 5), "click": torch.zeros(b), "price": torch.zeros(b), "kind": torch.zeros(b, dtype=torch.long),
            "rank": torch.zeros(b, dtype=torch.long)}


class Gated(nn.Module):
    """a recurrence with gates in chunks: within a chunk by masks, from one to the next by a loop over states"""

    def __init__(self, width=64, heads=2, layers=2, chunk=16, vocabulary=400):
        super().__init__()
        self.h, self.chunk = heads, chunk
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.ModuleDict(dict(norm=nn.LayerNorm(width), into=nn.Linear(width, 3 * width + heads), conv=nn.Conv1d(width, width, 4, groups=width, padding=3),
                                                       out=nn.Linear(width, width, bias=False))) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        b, t, d = x.shape
        h, c, n = self.h, self.chunk, t // self.chunk
        for m in self.layers:
            y = m["norm"](x)
            y = F.silu(m["conv"](y.transpose(1, 2))[..., :t]).transpose(1, 2)
            q, k, v, g = torch.split(m["into"](y), [d, d, d, h], dim=-1)
            q, k, v = (z.reshape(b, n, c, h, d // h).permute(0, 3, 1, 2, 4) for z in (q, k, v))
            g = F.logsigmoid(g.float()).view(b, n, c, h).permute(0, 3, 1, 2).cumsum(-1)
            within = (g.unsqueeze(-1) - g.unsqueeze(-2)).tril().exp().tril().to(q.dtype)
            y = (q @ k.transpose(-1, -2) * within) @ v
            state, parts = torch.zeros(b, h, d // h, d // h, device=x.device), []
            for i in range(n):
                parts.append((q[:, :, i].float() * g[:, :, i].exp().unsqueeze(-1)) @ state)
                last = g[:, :, i, -1:]
                state = state * last.exp().unsqueeze(-1) + (k[:, :, i].float() * (last - g[:, :, i]).exp().unsqueeze(-1)).transpose(-1, -2) @ v[:, :, i].float()
            y = y + torch.stack(parts, 2).to(y.dtype)
            x = x + m["out"](y.permute(0, 2, 3, 1, 4).reshape(b, t, d))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def gated():
    return Gated()


gated_batch = _tokens
