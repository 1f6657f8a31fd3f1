"""Modules of sequences as people write them who know nothing of the recorder, small: each is recorded and held against a trace. Each NAME has
NAME() and NAME_batch(b, t). Those of single samples are in samples.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _ids(b, t):
    return {"ids": torch.zeros(b, t, dtype=torch.long), "labels": torch.zeros(b, t, dtype=torch.long)}


class OwnAttention(nn.Module):
    """attention written out, its mask made in the forward; positions by sines, of a buffer that is cut"""

    def __init__(self, width=96, heads=4, layers=3, vocabulary=700):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, width)
        place, rate = torch.arange(4096).unsqueeze(1), torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        table = torch.zeros(4096, width)
        table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        b, t = ids.shape
        x = self.embed(ids) + self.table[:t]
        mask = torch.triu(torch.ones(t, t, device=ids.device, dtype=torch.bool), diagonal=1)
        for qkv, out, norm in zip(self.qkv, self.out, self.norm):
            q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in qkv(norm(x)).chunk(3, -1))
            scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
            scores = scores.masked_fill(mask, float("-inf"))
            y = F.dropout(torch.softmax(scores, -1), 0.1, self.training) @ v
            x = x + out(y.transpose(1, 2).contiguous().view(b, t, -1))
        return F.cross_entropy(self.head(x).view(-1, self.head.out_features), labels.view(-1))


class LinearAttention(nn.Module):
    """cumulative sums, bmm, baddbmm and einsum"""

    def __init__(self, width=64, vocabulary=300):
        super().__init__()
        self.embed, self.mix = nn.Embedding(vocabulary, width), nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(torch.zeros(1, 1, width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        q, k, v = self.mix(x).split(x.size(-1), -1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        z = 1 / (torch.einsum("btd,btd->bt", q, k.cumsum(1)) + 1e-6)
        kv = torch.einsum("btd,bte->bde", k, v)
        y = torch.baddbmm(self.bias.to(q.dtype), q, kv) * z.unsqueeze(-1)
        scores = torch.bmm(q, k.transpose(1, 2))
        x = x + y + scores.cumsum(-1).tril() @ v
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Scatter(nn.Module):
    """scatter, index_add, index_fill, index_copy, gather and masked_scatter, in place and not"""

    def __init__(self, width=48):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.register_buffer("counts", torch.zeros(width))

    def forward(self, x):
        b, t, c = x.shape
        h = F.silu(self.up(x))
        where = torch.arange(t, device=x.device) % 7
        pooled = torch.zeros(b, 7, h.size(-1), device=x.device, dtype=h.dtype)
        pooled.index_add_(1, where, h)
        self.counts.index_add_(0, where.clamp(max=c - 1), torch.ones(t, device=x.device, dtype=self.counts.dtype))
        h = h.index_fill(1, torch.tensor([0, 2], device=x.device), 0.5)
        h = h.scatter_add(1, where[None, :, None].expand(b, t, h.size(-1)), h)
        g = torch.gather(pooled, 1, where[None, :, None].expand(b, t, h.size(-1)))
        y = torch.zeros_like(h)
        y.scatter_(1, where[None, :, None].expand(b, t, h.size(-1)), g)
        y = y.index_copy(1, torch.tensor([1], device=x.device), h[:, :1])
        return (self.down(h + y + g) - x).pow(2).mean()


class Recurrent(nn.Module):
    """an LSTM of two layers, and a GRU the other way, too"""

    def __init__(self, width=64, vocabulary=400):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, dropout=0.1)
        self.gru = nn.GRU(width, width // 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x, _ = self.lstm(self.embed(ids))
        x, _ = self.gru(x)
        return F.cross_entropy(self.head(x).transpose(1, 2), labels)


class OwnCell(nn.Module):
    """a recurrent cell that loops over the sequence"""

    def __init__(self, width=32, vocabulary=100):
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(vocabulary, width), nn.GRUCell(width, width), nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        h, out = torch.zeros_like(x[:, 0]), []
        for i in range(x.size(1)):
            h = self.cell(x[:, i], h)
            out.append(h)
        return F.cross_entropy(self.head(torch.stack(out, 1)).transpose(1, 2), labels)


class Routed(nn.Module):
    """a mixture that sends each token to one expert, in order of the experts"""

    def __init__(self, width=64, experts=4, vocabulary=500):
        super().__init__()
        self.embed, self.router = nn.Embedding(vocabulary, width), nn.Linear(width, experts)
        self.up, self.down = nn.Parameter(torch.zeros(experts, width, 2 * width)), nn.Parameter(torch.zeros(experts, 2 * width, width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        p = self.router(x).softmax(-1)
        dispatch = F.one_hot(p.argmax(-1), p.size(-1)).to(x.dtype) * p
        h = torch.einsum("btc,ecd->ebtd", x, self.up)
        h = torch.einsum("ebtd,edc->ebtc", F.gelu(h), self.down)
        x = x + torch.einsum("ebtc,bte->btc", h, dispatch.to(h.dtype))
        balance = (p.mean((0, 1)) * dispatch.float().mean((0, 1))).sum()
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten()) + 0.01 * balance


class Waves(nn.Module):
    """a stack of 1-D convolutions with weight norm, dilated, gated, and group norm"""

    def __init__(self, channels=32):
        super().__init__()
        self.first = nn.Conv1d(1, channels, 7, padding=3)
        self.blocks = nn.ModuleList(nn.ModuleDict(dict(
            conv=nn.utils.parametrizations.weight_norm(nn.Conv1d(channels, 2 * channels, 3, padding=2**i, dilation=2**i)),
            norm=nn.GroupNorm(4, channels), out=nn.Conv1d(channels, channels, 1))) for i in range(3))
        self.last = nn.Conv1d(channels, 1, 1)

    def forward(self, x):
        h = self.first(x)
        skips = 0
        for b in self.blocks:
            a, g = b["conv"](b["norm"](h)).chunk(2, 1)
            y = b["out"](torch.tanh(a) * torch.sigmoid(g))
            skips, h = skips + y, h + y
        return F.l1_loss(self.last(F.relu(skips)), x)


class Centers(nn.Module):
    """a codebook that follows what comes in by a moving average, updated in the forward; a straight-through estimate"""

    def __init__(self, width=32, codes=64):
        super().__init__()
        self.encode, self.decode = nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("codes", torch.zeros(codes, width))
        self.register_buffer("sizes", torch.zeros(codes))

    def forward(self, x):
        z = self.encode(x).flatten(0, 1)
        d = z.float().pow(2).sum(1, keepdim=True) - 2 * z.float() @ self.codes.float().t() + self.codes.float().pow(2).sum(1)
        hot = F.one_hot(d.argmin(1), self.codes.size(0)).float()
        with torch.no_grad():
            self.sizes.mul_(0.99).add_(hot.sum(0), alpha=0.01)
            self.codes.mul_(0.99).add_((hot.t() @ z.float()).to(self.codes.dtype), alpha=0.01)
        q = hot @ self.codes.float()
        commit = F.mse_loss(z.float(), q.detach())
        q = z + (q - z).detach()
        return F.mse_loss(self.decode(q.to(x.dtype)).view_as(x).float(), x.float()) + 0.25 * commit


class Decoder(nn.Module):
    """scaled_dot_product_attention with is_causal, RMS norm, rotary positions in complex numbers"""

    def __init__(self, width=64, heads=4, layers=2, vocabulary=600):
        super().__init__()
        self.heads, self.embed = heads, nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.ModuleDict(dict(
            n1=nn.RMSNorm(width), qkv=nn.Linear(width, 3 * width, bias=False), o=nn.Linear(width, width, bias=False),
            n2=nn.RMSNorm(width), w1=nn.Linear(width, 2 * width, bias=False), w3=nn.Linear(width, 2 * width, bias=False),
            w2=nn.Linear(2 * width, width, bias=False))) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        rates = 1e4 ** (-torch.arange(0, width // heads, 2).float() / (width // heads))
        self.register_buffer("rates", rates)

    def forward(self, ids, labels):
        b, t = ids.shape
        x = self.embed(ids)
        angles = torch.outer(torch.arange(t, device=ids.device).float(), self.rates.float())
        turns = torch.polar(torch.ones_like(angles), angles)

        def turn(y):
            z = torch.view_as_complex(y.float().reshape(*y.shape[:-1], -1, 2))
            return torch.view_as_real(z * turns[:, None]).flatten(3).type_as(y)

        for n in self.layers:
            q, k, v = n["qkv"](n["n1"](x)).view(b, t, 3, self.heads, -1).unbind(2)
            q, k = turn(q), turn(k)
            y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
            x = x + n["o"](y.transpose(1, 2).reshape(b, t, -1))
            h = n["n2"](x)
            x = x + n["w2"](F.silu(n["w1"](h)) * n["w3"](h))
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


class Fourier(nn.Module):
    """real and complex Fourier transforms, and complex weights"""

    def __init__(self, width=32, modes=12):
        super().__init__()
        self.modes, self.up, self.down = modes, nn.Linear(1, width), nn.Linear(width, 1)
        self.weight = nn.Parameter(torch.zeros(width, width, modes, 2))
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        h = self.up(x).transpose(1, 2).float()
        f = torch.fft.rfft(h, dim=-1)[..., : self.modes]
        f = torch.einsum("bim,iom->bom", f, torch.view_as_complex(self.weight.float()))
        y = torch.fft.irfft(f, n=h.size(-1), dim=-1)
        h = F.gelu(y + self.mix(h.to(x.dtype)))
        return F.mse_loss(self.down(h.transpose(1, 2).to(x.dtype)).float(), x.float())


def _make(kind):
    return lambda: kind()


own_attention, linear_attention, recurrent, own_cell, routed, decoder = map(
    _make, (OwnAttention, LinearAttention, Recurrent, OwnCell, Routed, Decoder))
own_attention_batch = linear_attention_batch = recurrent_batch = own_cell_batch = routed_batch = decoder_batch = _ids
scatter, waves, centers, fourier = map(_make, (Scatter, Waves, Centers, Fourier))


def scatter_batch(b, t):
    return (torch.zeros(b, t, 48),)


def waves_batch(b, t):
    return (torch.zeros(b, 1, t),)


def centers_batch(b, t):
    return (torch.zeros(b, t, 32),)


def fourier_batch(b, t):
    return (torch.zeros(b, t, 1),)
