"""Modules of sequences in the manners of different schools, small: each is recorded and held against a trace. Each NAME has NAME() and
NAME_batch(b, t). Those of pictures, graphs and vectors are in schools_samples.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def _tokens(b, t):
    return {"ids": torch.zeros(b, t, dtype=torch.long), "labels": torch.zeros(b, t, dtype=torch.long)}


class MixtureOfDepths(nn.Module):
    """every other block takes half of the tokens, chosen by topk, gathered and put back weighted"""

    def __init__(self, words=211, width=96, heads=4, layers=4, keep=16):
        super().__init__()
        self.emb, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 3 * width, batch_first=True, norm_first=True, dropout=0.1)
                                    for _ in range(layers))
        self.routers = nn.ModuleList(nn.Linear(width, 1, bias=False) for _ in range(layers))
        self.keep = keep

    def forward(self, ids, labels):
        x, aux = self.emb(ids), 0.0
        for i, block in enumerate(self.blocks):
            if i % 2 == 0:
                x = block(x)
                continue
            scores = self.routers[i](x).squeeze(-1)
            best, where = scores.topk(self.keep, dim=-1, sorted=False)
            where, order = torch.sort(where, dim=-1)
            best = best.gather(1, order)
            index = where.unsqueeze(-1).expand(-1, -1, x.size(-1))
            y = block(x.gather(1, index)) * torch.sigmoid(best).unsqueeze(-1)
            x = x.scatter_add(1, index, y.to(x.dtype))
            target = torch.zeros_like(scores).scatter_(1, where, 1.0)
            aux = aux + F.binary_cross_entropy_with_logits(scores, target)
        logits = self.head(x)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + 0.01 * aux


def depths():
    return MixtureOfDepths()


depths_batch = _tokens


class AlibiBlock(nn.Module):
    """one key and value for all heads, slopes instead of positions, a softmax written out in float"""

    def __init__(self, width, heads):
        super().__init__()
        self.h, self.d = heads, width // heads
        self.wq, self.wkv, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * self.d, bias=False), nn.Linear(width, width, bias=False)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.up, self.down = nn.Linear(width, 8 * width // 3 // 8 * 8 * 2, bias=False), nn.Linear(8 * width // 3 // 8 * 8, width, bias=False)

    def rms(self, x, scale):
        return (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * scale

    def forward(self, x, bias):
        b, t, c = x.shape
        y = self.rms(x, self.scale1)
        q = self.wq(y).view(b, t, self.h, self.d).transpose(1, 2)
        k, v = self.wkv(y).split(self.d, dim=-1)
        s = torch.einsum("bhqd,bkd->bhqk", q, k) * self.d ** -0.5 + bias
        s = s.float()
        s = torch.exp(s - s.amax(dim=-1, keepdim=True).detach())
        a = (s / s.sum(-1, keepdim=True)).to(v.dtype)
        o = torch.einsum("bhqk,bkd->bqhd", a, v).reshape(b, t, c)
        x = x + self.wo(o)
        gate, y = self.up(self.rms(x, self.scale2)).chunk(2, -1)
        return x + self.down(F.silu(gate) * y)


class MultiQuery(nn.Module):
    def __init__(self, words=307, width=96, heads=6, layers=3, longest=512):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(AlibiBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        slopes = torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])
        where = torch.arange(longest)
        self.register_buffer("alibi", slopes[:, None, None] * -(where[:, None] - where[None]).abs().float(), persistent=False)
        self.register_buffer("causal", torch.ones(longest, longest, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, ids, labels):
        t = ids.size(1)
        bias = self.alibi[:, :t, :t].masked_fill(self.causal[:t, :t], float("-inf"))
        x = self.emb(ids) * math.sqrt(self.emb.embedding_dim)
        for block in self.blocks:
            x = block(x, bias)
        logits = F.linear(self.norm(x), self.emb.weight).float()
        logits = 30.0 * torch.tanh(logits / 30.0)
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1), ignore_index=-100)
        return {"loss": loss + 1e-4 * torch.logsumexp(logits, -1).square().mean(), "logits": logits}


def multiquery():
    return MultiQuery()


multiquery_batch = _tokens


class TimeMix(nn.Module):
    """a weighted average over what came before, in a loop over tokens with running numerators and denominators"""

    def __init__(self, width):
        super().__init__()
        self.decay, self.first = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.mix_k, self.mix_v, self.mix_r = (nn.Parameter(torch.ones(1, 1, width)) for _ in range(3))
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.key, self.value, self.gate, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        late = self.shift(x)
        k = self.key(x * self.mix_k + late * (1 - self.mix_k))
        v = self.value(x * self.mix_v + late * (1 - self.mix_v))
        r = torch.sigmoid(self.gate(x * self.mix_r + late * (1 - self.mix_r)))
        k, v, w = k.float(), v.float(), -torch.exp(self.decay.float())
        a = b = torch.zeros_like(k[:, 0])
        p = torch.full_like(a, -1e30)
        out = []
        for i in range(x.size(1)):
            u = self.first + k[:, i]
            q = torch.maximum(p, u)
            e, f = torch.exp(p - q), torch.exp(u - q)
            out.append((e * a + f * v[:, i]) / (e * b + f))
            u = p + w
            q = torch.maximum(u, k[:, i])
            e, f = torch.exp(u - q), torch.exp(k[:, i] - q)
            a, b, p = e * a + f * v[:, i], e * b + f, q
        return self.out(r * torch.stack(out, 1).to(r.dtype))


class ChannelMix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.ones(1, 1, width))
        self.key, self.value, self.gate = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        late = F.pad(x, (0, 0, 1, -1))
        y = torch.lerp(late, x, self.mix.to(x.dtype).expand_as(x))
        return torch.sigmoid(self.gate(y)) * self.value(torch.square(torch.relu(self.key(y))))


class TimeMixing(nn.Module):
    def __init__(self, words=181, width=64, layers=2):
        super().__init__()
        self.emb, self.first = nn.Embedding(words, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(nn.ModuleDict({"n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width), "time": TimeMix(width), "channel": ChannelMix(width)})
                                    for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids, labels):
        x = self.first(self.emb(ids))
        for block in self.blocks:
            x = x + block["time"](block["n1"](x))
            x = x + block["channel"](block["n2"](x))
        return F.cross_entropy(self.head(self.norm(x)).transpose(1, 2), labels)


def mixing():
    return TimeMixing()


mixing_batch = _tokens


class Equilibrium(nn.Module):
    """one cell in fixed rounds without a graph, then one with it, as deep equilibria with phantom gradients"""

    def __init__(self, words=157, width=96, rounds=6):
        super().__init__()
        self.emb, self.rounds = nn.Embedding(words, width), rounds
        self.cell = nn.Linear(width, width)
        self.inject, self.norm = nn.Linear(width, width, bias=False), nn.GroupNorm(8, width)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, words)

    def step(self, z, x):
        y, _ = self.attend(z, z, z, need_weights=False)
        z = torch.tanh(self.cell(z + y) + x)
        return self.norm(z.transpose(1, 2)).transpose(1, 2)

    def forward(self, ids, labels):
        x = self.inject(self.emb(ids))
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(self.rounds):
                last, z = z, self.step(z, x)
            self.residual = (z - last).norm()
        for _ in range(2):
            z = 0.5 * z + 0.5 * self.step(z, x)
        loss = F.cross_entropy(self.head(z).view(-1, self.head.out_features), labels.view(-1), label_smoothing=0.1)
        return {"loss": loss, "state": z}


def equilibrium():
    return Equilibrium()


equilibrium_batch = _tokens


class GatedRecurrence(nn.Module):
    """minimal gated units run in parallel by a scan in logarithms, convolutions over time, tied words and two losses"""

    def __init__(self, words=251, width=64, layers=3):
        super().__init__()
        self.emb = nn.Embedding(words, width, padding_idx=0)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(nn.ModuleDict({"norm": nn.RMSNorm(width), "conv": nn.Conv1d(width, width, 4, padding=3, groups=width),
                                              "z": nn.Linear(width, 2 * width), "h": nn.Linear(width, 2 * width), "out": nn.Linear(2 * width, width)}))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.emb.weight

    def scan(self, z, h):
        keep, new = -F.softplus(z), -F.softplus(-z) + torch.where(h >= 0, (F.relu(h) + 0.5).log(), -F.softplus(-h))
        total = torch.cumsum(keep, dim=1)
        return torch.exp(total + torch.logcumsumexp(new - total, dim=1))

    def forward(self, ids, labels):
        x = self.emb(ids)
        for layer in self.layers:
            y = layer["norm"](x)
            y = layer["conv"](y.transpose(1, 2))[..., : x.size(1)].transpose(1, 2)
            x = x + layer["out"](self.scan(layer["z"](y).float(), layer["h"](y).float()).to(x.dtype))
        logp = F.log_softmax(self.head(x), dim=-1)
        return F.nll_loss(logp.flatten(0, 1), labels.flatten()) + 0.1 * F.mse_loss(x[:, 1:], x[:, :-1].detach())


def scan():
    return GatedRecurrence()


scan_batch = _tokens


class FNet(nn.Module):
    """Fourier transforms instead of attention"""

    def __init__(self, words=199, width=64, layers=3):
        super().__init__()
        self.word, self.place, self.kind = nn.Embedding(words, width), nn.Embedding(512, width), nn.Embedding(4, width)
        self.norm, self.drop = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)
        self.layers = nn.ModuleList(nn.ModuleDict({"n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width),
                                                   "down": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 2)
        self.register_buffer("positions", torch.arange(512).unsqueeze(0))

    def forward(self, ids, kinds, y):
        x = self.word(ids) + self.place(self.positions[:, : ids.shape[1]]) + self.kind(kinds)
        x = self.drop(self.norm(x))
        for layer in self.layers:
            mixed = torch.fft.fftn(x.float(), dim=(1, 2)).real
            x = layer["n1"](x + mixed.to(x.dtype))
            x = layer["n2"](x + self.drop(layer["down"](F.gelu(layer["up"](x)))))
        return F.cross_entropy(self.head(torch.tanh(self.pool(x[:, 0]))), y)


def fnet():
    return FNet()


def fnet_batch(b, t):
    return {"ids": torch.zeros(b, t, dtype=torch.long), "kinds": torch.zeros(b, t, dtype=torch.long), "y": torch.zeros(b, dtype=torch.long)}


class SpeechCTC(nn.Module):
    """an E-Branchformer-like encoder: two branches merged, CTC on log probabilities, SpecAugment's masks, and intermediate losses"""

    def __init__(self, mels=40, width=96, layers=3, words=48):
        super().__init__()
        self.first = nn.Conv1d(mels, width, 3, stride=2, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(nn.ModuleDict({
                "n1": nn.LayerNorm(width), "attend": nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True), "n2": nn.LayerNorm(width),
                "up": nn.Linear(width, 4 * width), "n3": nn.LayerNorm(2 * width), "gate": nn.Conv1d(2 * width, 2 * width, 7, padding=3, groups=2 * width),
                "down": nn.Linear(2 * width, width), "depth": nn.Conv1d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
                "merge": nn.Linear(2 * width, width), "end": nn.LayerNorm(width)}))
        self.head, self.back = nn.Linear(width, words), nn.Linear(words, width)

    def forward(self, frames, lengths, targets, sizes):
        x = frames - frames.mean(1, keepdim=True)
        hide = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) < 0.1
        x = x.masked_fill(hide, 0.0).transpose(1, 2)
        x = F.gelu(self.second(F.gelu(self.first(x)))).transpose(1, 2)
        frames_left = torch.div(lengths + 3, 4, rounding_mode="floor")
        padding = torch.arange(x.size(1), device=x.device)[None] >= frames_left[:, None]
        losses = []
        for block in self.blocks:
            y = block["n1"](x)
            one, _ = block["attend"](y, y, y, key_padding_mask=padding, need_weights=False)
            u, v = F.gelu(block["up"](block["n2"](x))).chunk(2, dim=-1)
            two = block["down"](u * block["gate"](block["n3"](v).transpose(1, 2)).transpose(1, 2))
            both = torch.cat([one, two], dim=-1)
            both = both + block["depth"](both.transpose(1, 2)).transpose(1, 2)
            x = block["end"](x + block["merge"](both))
            logp = self.head(x).float().log_softmax(-1)
            losses.append(F.ctc_loss(logp.transpose(0, 1), targets, frames_left, sizes, zero_infinity=True))
            x = x + self.back(logp.exp().to(x.dtype))
        return sum(losses) / len(losses)


def speech():
    return SpeechCTC()


def speech_batch(b, t):
    return {"frames": torch.zeros(b, t, 40), "lengths": torch.full((b,), t), "targets": torch.ones(b, 8, dtype=torch.long),
            "sizes": torch.full((b,), 8)}


class Unlikely(torch.autograd.Function):
    """a gate that saves its result and not its argument"""

    @staticmethod
    def forward(ctx, x, gate):
        y = torch.sigmoid(gate)
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x * y * (1 - y)


class TwoTowers(nn.Module):
    """an encoder and a decoder with blocks of lists, checkpointed from without by one list only in part, a custom function and tied words"""

    def __init__(self, words=233, width=96, heads=4):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True, activation="gelu", dropout=0.0) for _ in range(3))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(width, heads, 2 * width, batch_first=True, norm_first=True) for _ in range(2))
        self.gate = nn.Linear(width, width)

    def forward(self, ids, labels):
        x = self.emb(ids)
        for layer in self.encoder:
            x = layer(x)
        mask = nn.Transformer.generate_square_subsequent_mask(labels.size(1), device=x.device).to(x.dtype)
        y = self.emb(labels)
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=mask, tgt_is_causal=True)
        y = Unlikely.apply(y, self.gate(y))
        logits = y @ self.emb.weight.t()
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def towers():
    return TwoTowers()


towers_batch = _tokens


class Segments(nn.Module):
    """layers that hand on a memory of the last segment, kept in buffers that are written in place"""

    def __init__(self, words=173, width=64, layers=2, memory=16):
        super().__init__()
        self.emb, self.m = nn.Embedding(words, width), memory
        self.q, self.kv, self.o = (nn.ModuleList(nn.Linear(width, n * width) for _ in range(layers)) for n in (1, 2, 1))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.register_buffer("memory", torch.zeros(layers, 1, memory, width))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.head = nn.Linear(width, words)

    def forward(self, ids, labels):
        x = self.emb(ids)
        for i, (q, kv, o, norm) in enumerate(zip(self.q, self.kv, self.o, self.norms)):
            past = self.memory[i].expand(x.size(0), -1, -1).to(x.dtype)
            both = torch.cat([past, x], 1)
            k, v = kv(both).chunk(2, -1)
            k, v, y = (z.unflatten(-1, (4, -1)).transpose(1, 2) for z in (k, v, q(x)))
            mask = torch.ones(x.size(1), both.size(1), dtype=torch.bool, device=x.device).tril(self.m)
            y = F.scaled_dot_product_attention(y, k, v, attn_mask=mask, dropout_p=0.1 if self.training else 0.0)
            y = norm(x + o(y.transpose(1, 2).flatten(2)))
            with torch.no_grad():
                self.memory[i].mul_(0.9).add_(y[:, -self.m:].mean(0, keepdim=True), alpha=0.1)
            x = y
        self.seen += 1
        return F.cross_entropy(self.head(x).transpose(1, 2), labels, reduction="none").mean(dim=1).mean()


def segments():
    return Segments()


segments_batch = _tokens


class Reference(nn.Module):
    """preferences: chosen and rejected in one batch, a frozen copy beside, and log probabilities by gather"""

    def __init__(self, words=263, width=64):
        super().__init__()
        self.policy, self.reference = (self.net(words, width) for _ in range(2))
        self.reference.requires_grad_(False)

    def net(self, words, width):
        return nn.Sequential(nn.Embedding(words, width), *(nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(2)),
                             nn.Linear(width, words))

    def score(self, net, ids):
        logp = net(ids).float().log_softmax(-1)
        return logp[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)

    def forward(self, ids, labels):
        both = torch.cat([ids, labels])
        ours = self.score(self.policy, both)
        with torch.no_grad():
            theirs = self.score(self.reference, both)
        a, b = (ours - theirs).chunk(2)
        return -F.logsigmoid(0.1 * (a - b)).mean() + F.softplus(-0.1 * a).mean()


def preferences():
    return Reference()


preferences_batch = _tokens


class Partly(nn.Module):
    """long contexts: queries attend in chunks of their own code, each chunk under checkpoint"""

    def __init__(self, words=139, width=64, heads=4, layers=2, chunk=32):
        super().__init__()
        self.emb, self.head, self.chunk, self.h = nn.Embedding(words, width), nn.Linear(width, words), chunk, heads
        self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "norm": nn.LayerNorm(width)})
                                    for _ in range(layers))

    def piece(self, q, k, v):
        s = (q @ k.transpose(-2, -1)).div_(math.sqrt(q.size(-1)))
        return F.softmax(s, -1, dtype=torch.float32).to(v.dtype) @ v

    def forward(self, ids, labels):
        x = self.emb(ids)
        for layer in self.layers:
            q, k, v = (z.unflatten(-1, (self.h, -1)).transpose(1, 2) for z in layer["qkv"](layer["norm"](x)).chunk(3, -1))
            y = torch.cat([checkpoint(self.piece, c, k, v, use_reentrant=False) for c in q.split(self.chunk, dim=2)], dim=2)
            x = x + layer["out"](y.transpose(1, 2).flatten(2))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def partly():
    return Partly()


partly_batch = _tokens
