"""Modules of sequences as research code has them, small: each is recorded and held against a trace. Each NAME has NAME() and NAME_batch(b, t).
Those of pictures and vectors are in research.py."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def _ids(b, t):
    return torch.zeros(b, t, dtype=torch.long), torch.zeros(b, t, dtype=torch.long)


class Perceiver(nn.Module):
    """learned latents that look at the sequence through nn.MultiheadAttention, then at themselves"""

    def __init__(self, w=64, n=16, vocabulary=100):
        super().__init__()
        self.embed, self.latents = nn.Embedding(vocabulary, w, padding_idx=0), nn.Parameter(torch.zeros(n, w))
        self.cross, self.self_ = nn.MultiheadAttention(w, 4, batch_first=True), nn.MultiheadAttention(w, 4, dropout=0.1)
        self.n1, self.n2, self.n3 = nn.LayerNorm(w), nn.LayerNorm(w), nn.LayerNorm(w)
        self.mlp, self.head = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w)), nn.Linear(w, vocabulary)

    def forward(self, ids, labels):
        x = self.embed(ids)
        z = self.latents.unsqueeze(0).expand(ids.size(0), -1, -1)
        z = z + self.cross(self.n1(z), x, x, key_padding_mask=ids != 0, need_weights=False)[0]
        s = self.n2(z).transpose(0, 1)
        y, w = self.self_(s, s, s)
        z = z + y.transpose(0, 1)
        z = z + self.mlp(self.n3(z))
        return F.cross_entropy(self.head(z.mean(1)), labels[:, 0]) + 0.01 * w.var()


class Translator(nn.Module):
    """torch's own encoder and decoder, norm first and last, with the masks that its tutorials make, and tied embeddings"""

    def __init__(self, w=64, vocabulary=120):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, w)
        self.model = nn.Transformer(w, 4, 2, 2, 128, 0.0, batch_first=True, norm_first=True)
        self.register_buffer("places", torch.zeros(1, 512, w))
        self.head = nn.Linear(w, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids, labels):
        n = ids.size(1)
        source = self.embed(ids) * 8.0 + self.places[:, :n]
        target = self.embed(labels) * 8.0 + self.places[:, :n]
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=ids.device, dtype=source.dtype)
        y = self.model(source, target, tgt_mask=mask, tgt_is_causal=True)
        return F.cross_entropy(self.head(y).flatten(0, 1), labels.flatten(), ignore_index=-100)


class Attentions(nn.Module):
    """every way to call scaled_dot_product_attention: grouped heads, masks of numbers and of truths, dropout, odd heads, a scale of its own"""

    def __init__(self, w=96, vocabulary=64):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, w), nn.Linear(w, vocabulary)
        self.qkv, self.kv, self.q2 = nn.Linear(w, 3 * w), nn.Linear(w, 2 * 32), nn.Linear(w, w)
        self.bias = nn.Parameter(torch.zeros(4, 1, 1))
        self.out = nn.ModuleList(nn.Linear(w, w) for _ in range(4))

    def forward(self, ids, labels):
        b, n = ids.shape
        x = self.embed(ids)
        q, k, v = (y.view(b, n, 4, 24).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        keep = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        x = x + self.out[0](F.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).reshape(b, n, -1))
        far = (torch.arange(n, device=x.device)[None] - torch.arange(n, device=x.device)[:, None]).to(q.dtype)
        x = x + self.out[1](F.scaled_dot_product_attention(q, k, v, attn_mask=far.expand(b, 4, n, n).contiguous(), dropout_p=0.1).transpose(1, 2).flatten(2))
        q2 = self.q2(x).view(b, n, 6, 16).transpose(1, 2)
        k2, v2 = (y.view(b, n, 2, 16).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
        x = x + self.out[2](F.scaled_dot_product_attention(q2, k2, v2, is_causal=True, enable_gqa=True, scale=0.3).transpose(1, 2).reshape(b, n, -1))
        x = x + self.out[3](F.scaled_dot_product_attention(q, k, v, attn_mask=(self.bias * far).to(q.dtype)).transpose(1, 2).reshape(b, n, -1))
        return F.cross_entropy(self.head(x).view(-1, 64), labels.view(-1))


class Selective(nn.Module):
    """a state space layer with gates that follow the input, scanned by cumulative sums in logarithms"""

    class Layer(nn.Module):
        def __init__(self, w, n):
            super().__init__()
            self.n, self.inp, self.conv = n, nn.Linear(w, 2 * w, bias=False), nn.Conv1d(w, w, 4, padding=3, groups=w)
            self.bc, self.dt = nn.Linear(w, 2 * n), nn.Linear(w, w)
            self.a, self.d, self.out = nn.Parameter(torch.zeros(w, n)), nn.Parameter(torch.ones(w)), nn.Linear(w, w)
            self.norm = nn.LayerNorm(w)

        def forward(self, x):
            u, z = self.inp(self.norm(x)).chunk(2, -1)
            u = F.silu(self.conv(u.transpose(1, 2))[..., : x.size(1)].transpose(1, 2))
            b, c = self.bc(u).float().split(self.n, -1)
            dt = F.softplus(self.dt(u).float())
            a = torch.einsum("btd,dn->btdn", dt, -torch.exp(self.a.float()))
            bu = torch.einsum("btd,btn,btd->btdn", dt, b, u.float())
            s = a.cumsum(1)
            h = torch.exp(s) * torch.cumsum(bu * torch.exp(-s).clamp(max=1e4), 1)
            y = torch.einsum("btdn,btn->btd", h, c) + u * self.d
            return x + self.out((y * F.silu(z)).to(x.dtype))

    def __init__(self, w=32, vocabulary=80):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, w)
        self.layers = nn.ModuleList(self.Layer(w, 4) for _ in range(3))
        self.head = nn.Linear(w, vocabulary, bias=False)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(F.rms_norm(x, (x.size(-1),))).transpose(1, 2), labels)


class Experts(nn.Module):
    """the best two of some experts by topk, all computed at once, added up by gates that are scattered; a loss of balance and one of z"""

    def __init__(self, w=48, experts=6, vocabulary=70):
        super().__init__()
        self.embed, self.router = nn.Embedding(vocabulary, w), nn.Linear(w, experts, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.zeros(experts, w, 2 * w)), nn.Parameter(torch.zeros(experts, 2 * w, w))
        self.head = nn.Linear(w, vocabulary)
        self.aux = None

    def forward(self, ids, labels):
        x = self.embed(ids)
        logits = self.router(x).float()
        p = logits.softmax(-1)
        top, which = p.topk(2, -1)
        gates = torch.zeros_like(p).scatter(-1, which, top / top.sum(-1, keepdim=True))
        h = F.gelu(torch.einsum("btw,ewh->ebth", x, self.w1), approximate="tanh")
        y = torch.einsum("ebth,ehw,bte->btw", h, self.w2, gates.to(h.dtype))
        used = (gates > 0).float().mean((0, 1))
        self.aux = (used * p.mean((0, 1))).sum() * p.size(-1) + 1e-3 * torch.logsumexp(logits, -1).pow(2).mean()
        return F.cross_entropy(self.head(x + y).flatten(0, 1), labels.flatten()) + 0.01 * self.aux


class Regions(nn.Module):
    """parts outside of autocast, a part in its own autocast, a block that is checkpointed, and activations that are kept for a second loss"""

    def __init__(self, w=64, vocabulary=90):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, w)
        self.a, self.b, self.c = (nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.ReLU(), nn.Linear(2 * w, w)) for _ in range(3))
        self.head = nn.Linear(w, vocabulary)
        self.seen = []

    def forward(self, ids, labels):
        self.seen.clear()
        x = self.embed(ids)
        x = x + self.a(x)
        self.seen.append(x)
        with torch.autocast("cuda", enabled=False):
            y = x.float() @ self.b[1].weight.float().t()
            x = x + (y @ self.b[3].weight.float().t()).to(x.dtype)
        self.seen.append(x)
        x = x + self.c(x)
        logits = self.head(x)
        extra = sum(s.float().pow(2).mean() for s in self.seen)
        return F.cross_entropy(logits.float().view(-1, logits.size(-1)), labels.view(-1)) + 1e-4 * extra


class Editor(nn.Module):
    """slices that are written, masks that are filled in place, rolled, flipped, sorted, stacked, split and repeated tensors"""

    def __init__(self, w=40, vocabulary=60):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(vocabulary, w), nn.Linear(2 * w, w), nn.Linear(w, vocabulary)
        self.mask_token = nn.Parameter(torch.zeros(w))

    def forward(self, ids, labels):
        x = self.embed(ids)
        drop = torch.rand(ids.shape, device=ids.device) < 0.15
        x = torch.where(drop.unsqueeze(-1), self.mask_token.to(x.dtype), x)
        y = x.clone()
        y[:, 1:] = y[:, 1:] + x[:, :-1] * 0.5
        y[..., ::2] *= 2
        z = self.mix(torch.cat([y, x.flip(1).roll(1, 2)], -1))
        z.masked_fill_(drop[..., None], 0.0)
        order = z.float().norm(dim=-1).argsort(-1)
        z = z.gather(1, order[..., None].expand_as(z))
        a, b = torch.stack([z, z * z], 2).unbind(2)
        h = (a.repeat_interleave(2, 1)[:, ::2] + b).clamp_(-3, 3)
        h = F.glu(torch.cat([h, h.abs().add(1e-6).sqrt()], -1), -1)
        return F.cross_entropy(self.head(h).flatten(0, 1), labels.flatten(), reduction="sum") / labels.numel()


class Denoiser(nn.Module):
    """a diffusion transformer: the time in waves, shifts and scales from it, a schedule that is a buffer, and a loss by part"""

    class Block(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.norm, self.norm2 = nn.LayerNorm(w, elementwise_affine=False), nn.LayerNorm(w, elementwise_affine=False)
            self.ada, self.qkv, self.proj = nn.Sequential(nn.SiLU(), nn.Linear(w, 6 * w)), nn.Linear(w, 3 * w), nn.Linear(w, w)
            self.mlp = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU("tanh"), nn.Linear(4 * w, w))

        def forward(self, x, c):
            b, n, w = x.shape
            s1, g1, o1, s2, g2, o2 = self.ada(c).unsqueeze(1).chunk(6, -1)
            q, k, v = self.qkv(self.norm(x) * (1 + g1) + s1).reshape(b, n, 3, 4, w // 4).permute(2, 0, 3, 1, 4)
            x = x + o1 * self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w))
            return x + o2 * self.mlp(self.norm2(x) * (1 + g2) + s2)

    def __init__(self, w=64, i=12):
        super().__init__()
        self.inp, self.time, self.out = nn.Linear(i, w), nn.Sequential(nn.Linear(32, w), nn.SiLU(), nn.Linear(w, w)), nn.Linear(w, i)
        self.blocks = nn.ModuleList(self.Block(w) for _ in range(3))
        self.register_buffer("bar", torch.linspace(0.99, 0.01, 100))

    def forward(self, x):
        b = x.size(0)
        t = torch.randint(0, 100, (b,), device=x.device)
        noise = torch.randn_like(x)
        a = self.bar[t].view(b, 1, 1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        rates = torch.exp(-math.log(10000) * torch.arange(16, device=x.device) / 16)
        angles = t[:, None].float() * rates[None]
        c = self.time(torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype))
        h = self.inp(noisy.to(x.dtype))
        for block in self.blocks:
            h = block(h, c)
        return (F.mse_loss(self.out(h).float(), noise.float(), reduction="none").mean((1, 2)) * a.flatten().float()).mean()


class Frames(nn.Module):
    """a speech model: 1-D convolutions up and down, a group of cells, and connectionist temporal classification"""

    def __init__(self, w=32, classes=20):
        super().__init__()
        self.down = nn.Sequential(nn.Conv1d(16, w, 5, 2, 2), nn.GroupNorm(1, w), nn.GELU(), nn.Conv1d(w, w, 3, 1, 1, groups=w))
        self.up = nn.ConvTranspose1d(w, w, 4, 2, 1)
        self.norm, self.head = nn.LayerNorm(w), nn.utils.parametrizations.weight_norm(nn.Linear(w, classes))

    def forward(self, x):
        h = self.up(self.down(x)).transpose(1, 2)
        logits = self.head(self.norm(h))
        energy = F.avg_pool1d(x, 3, 1, 1).pow(2).mean(1)
        rest = F.interpolate(logits.transpose(1, 2), scale_factor=0.5, mode="linear").log_softmax(1).logsumexp(1)
        return logits.float().log_softmax(-1).mean().neg() + F.mse_loss(logits.mean(-1).float(), energy.float()) + rest.pow(2).mean()


class Swish(torch.autograd.Function):
    """keeps its input and makes the rest anew"""

    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, g):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        return g * (s + beta * x * s * (1 - s)), (g * x * x * s * (1 - s)).sum().to(beta.dtype).reshape(beta.shape)


class Scale(torch.autograd.Function):
    """turns the gradient around"""

    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.by * g, None


class Domains(nn.Module):
    """custom functions: one that saves little, and a gradient that is turned around for a second head"""

    def __init__(self, w=48, vocabulary=50):
        super().__init__()
        self.embed, self.beta = nn.Embedding(vocabulary, w), nn.Parameter(torch.ones(1))
        self.layers = nn.ModuleList(nn.Linear(w, w) for _ in range(4))
        self.head, self.other = nn.Linear(w, vocabulary), nn.Sequential(nn.Linear(w, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + Swish.apply(layer(x), self.beta)
        d = self.other(Scale.apply(x.mean(1), 0.5))
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten()) + F.cross_entropy(d, labels[:, 0] * 0)


class Checkpointed(nn.Module):
    """layers that checkpoint themselves, of which each gets the features of the first"""

    class Layer(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.n, self.f = nn.LayerNorm(w), nn.Sequential(nn.Linear(w, 4 * w), nn.SiLU(), nn.Linear(4 * w, w))

        def forward(self, x):
            return checkpoint(lambda y: y + self.f(self.n(y)), x, use_reentrant=False)

    def __init__(self, w=64, vocabulary=90):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, w), nn.Linear(w, vocabulary)
        self.layers = nn.ModuleList(self.Layer(w) for _ in range(4))

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


MADE = (Perceiver, Translator, Attentions, Selective, Experts, Regions, Editor, Denoiser, Frames, Domains, Checkpointed)
perceiver, translator, attentions, selective, experts, regions, editor, denoiser, frames, domains, checkpointed = ((lambda k=k: k()) for k in MADE)
perceiver_batch = translator_batch = attentions_batch = selective_batch = experts_batch = regions_batch = editor_batch = domains_batch = _ids
checkpointed_batch = _ids


def denoiser_batch(b, t):
    return (torch.zeros(b, t, 12),)


def frames_batch(b, t):
    return (torch.zeros(b, 16, 2 * t),)
