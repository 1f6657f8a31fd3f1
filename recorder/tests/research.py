"""Modules of pictures and vectors as research code has them, small: each is recorded and held against a trace. Each NAME has NAME() and
NAME_batch(b, t). Those of sequences are in papers.py."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class Segmenter(nn.Module):
    """a U-Net with group norm, transposed convolutions and one bilinear way up"""

    def __init__(self, w=16, classes=5):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(inplace=True), nn.Conv2d(o, o, 3, padding=1, bias=False),
                                 nn.InstanceNorm2d(o, affine=True), nn.ELU(inplace=True))
        self.d1, self.d2, self.d3 = block(3, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.u2, self.c2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2), block(4 * w, 2 * w)
        self.c1, self.out = block(3 * w, w), nn.Conv2d(w, classes, 1)

    def forward(self, x, y):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = F.dropout2d(self.d3(F.avg_pool2d(b, 2)), 0.1, self.training)
        b = self.c2(torch.cat([self.u2(c), b], 1))
        a = self.c1(torch.cat([F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False), a], 1))
        logits = self.out(a)
        p = logits.softmax(1)
        hot = F.one_hot(y, p.size(1)).permute(0, 3, 1, 2).to(p.dtype)
        dice = 1 - (2 * (p * hot).sum((2, 3)) / ((p + hot).sum((2, 3)) + 1e-6)).mean()
        return {"loss": F.cross_entropy(logits, y) + dice, "logits": logits}


class Contrast(nn.Module):
    """two views, a projection, logits of every pair in the batch, and a temperature that is learned"""

    def __init__(self, i=96, w=128, o=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(i, w), nn.BatchNorm1d(w), nn.ReLU(inplace=True), nn.Linear(w, w), nn.BatchNorm1d(w), nn.ReLU())
        self.head = nn.Linear(w, o, bias=False)
        self.scale = nn.Parameter(torch.ones([]) * 2.6)

    def forward(self, a, b):
        za, zb = (F.normalize(self.head(self.body(x)), dim=-1) for x in (a, b))
        logits = self.scale.exp() * za @ zb.t()
        n = torch.arange(a.size(0), device=a.device)
        z = torch.cat([za, zb])
        s = z @ z.t() / 0.1
        s = s.masked_fill(torch.eye(z.size(0), dtype=torch.bool, device=z.device), -1e9)
        pairs = torch.cat([n + a.size(0), n])
        return (F.cross_entropy(logits, n) + F.cross_entropy(logits.t(), n, label_smoothing=0.1)) / 2 + F.cross_entropy(s, pairs)


class Momentum(nn.Module):
    """a slow copy of the encoder without gradients, and a queue of what it said"""

    def __init__(self, i=64, w=96, o=16, queue=256):
        super().__init__()
        self.fast = nn.Sequential(nn.Linear(i, w), nn.GELU(), nn.Linear(w, o))
        self.slow = copy.deepcopy(self.fast).requires_grad_(False)
        self.register_buffer("queue", torch.zeros(o, queue))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, a, b):
        q = F.normalize(self.fast(a), dim=1)
        with torch.no_grad():
            for x, y in zip(self.fast.parameters(), self.slow.parameters()):
                y.mul_(0.99).add_(x, alpha=0.01)
            k = F.normalize(self.slow(b), dim=1)
        pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach().to(q.dtype))
        loss = F.cross_entropy(torch.cat([pos, neg], 1) / 0.07, torch.zeros(a.size(0), dtype=torch.long, device=a.device))
        with torch.no_grad():
            n = min(k.size(0), self.queue.size(1))
            self.queue[:, :n] = k[:n].t().to(self.queue.dtype)
        return loss


class Radiance(nn.Module):
    """rays, samples along them, waves of their places, and what is seen of them in the end"""

    def __init__(self, waves=6, w=64, samples=24):
        super().__init__()
        self.waves, self.samples = waves, samples
        i = 3 + 6 * waves
        self.first = nn.ModuleList([nn.Linear(i, w), nn.Linear(w, w), nn.Linear(w + i, w)])
        self.sigma, self.color = nn.Linear(w, 1), nn.Sequential(nn.Linear(w + 3, w // 2), nn.ReLU(True), nn.Linear(w // 2, 3), nn.Sigmoid())

    def forward(self, origin, direction, target):
        z = torch.linspace(2.0, 6.0, self.samples, device=origin.device)
        z = z + torch.rand(origin.size(0), self.samples, device=z.device) * (4.0 / self.samples)
        p = origin[:, None] + direction[:, None] * z[..., None]
        f = torch.cat([p, *(g(2.0**k * p) for k in range(self.waves) for g in (torch.sin, torch.cos))], -1).to(origin.dtype)
        h = f
        for k, layer in enumerate(self.first):
            h = F.relu(layer(h if k != 2 else torch.cat([h, f], -1)))
        sigma = F.softplus(self.sigma(h).squeeze(-1) - 1)
        rgb = self.color(torch.cat([h, direction[:, None].expand(-1, self.samples, -1)], -1))
        gaps = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 1e10)], -1)
        alpha = 1 - torch.exp(-sigma * gaps)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * through
        seen = (weights[..., None] * rgb).sum(-2)
        return F.mse_loss(seen.float(), target.float()) + 0.01 * (-(weights + 1e-6).log() * weights).sum(-1).mean()


class Codes(nn.Module):
    """a convolutional autoencoder with a codebook that is learned, and the gradient straight through it"""

    def __init__(self, w=32, codes=64):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), nn.ReLU(), nn.Conv2d(w, w, 4, 2, 1))
        self.codes = nn.Embedding(codes, w)
        self.up = nn.Sequential(nn.ConvTranspose2d(w, w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(w, 3, 4, 2, 1))

    def forward(self, x):
        z = self.down(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, z.size(-1))
        d = flat.pow(2).sum(1, keepdim=True) + self.codes.weight.pow(2).sum(1) - 2 * flat @ self.codes.weight.t()
        q = self.codes(d.argmin(1)).view(z.shape)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
        q = z + (q - z).detach()
        return {"recon": (y := torch.tanh(self.up(q.permute(0, 3, 1, 2)))), "loss": loss + F.l1_loss(y, x)}


class Efficient(nn.Module):
    """inverted residuals with squeeze and excitation, hard activations and stochastic depth"""

    class Block(nn.Module):
        def __init__(self, w, k):
            super().__init__()
            self.expand = nn.Sequential(nn.Conv2d(w, 4 * w, 1, bias=False), nn.BatchNorm2d(4 * w), nn.Hardswish(inplace=True))
            self.depth = nn.Sequential(nn.Conv2d(4 * w, 4 * w, k, padding=k // 2, groups=4 * w, bias=False), nn.BatchNorm2d(4 * w), nn.ReLU6(inplace=True))
            self.se = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4 * w, w, 1), nn.SiLU(), nn.Conv2d(w, 4 * w, 1), nn.Hardsigmoid())
            self.project = nn.Sequential(nn.Conv2d(4 * w, w, 1, bias=False), nn.BatchNorm2d(w))

        def forward(self, x):
            h = self.depth(self.expand(x))
            h = self.project(h * self.se(h))
            keep = torch.empty(x.size(0), 1, 1, 1, dtype=x.dtype, device=x.device).bernoulli_(0.9).div_(0.9)
            return x + h * keep

    def __init__(self, w=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, 2, 1, bias=False), nn.BatchNorm2d(w), nn.PReLU(w))
        self.blocks = nn.Sequential(*(self.Block(w, k) for k in (3, 3, 5)))
        self.head = nn.Linear(w, 10)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.blocks(self.stem(x)).mean([2, 3])), y, label_smoothing=0.1)


class Points(nn.Module):
    """a cloud of points: nearest neighbours by distance, features gathered from them, and the largest of each"""

    def __init__(self, w=32, k=8, classes=10):
        super().__init__()
        self.k = k
        self.edge = nn.ModuleList([nn.Sequential(nn.Conv2d(2 * i, o, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2)) for i, o in ((3, w), (w, w))])
        self.head = nn.Sequential(nn.Linear(w, w), nn.Dropout(0.3), nn.Linear(w, classes))

    def forward(self, x, y):
        for e in self.edge:
            b, c, n = x.shape
            inner = -2 * torch.matmul(x.transpose(2, 1), x)
            xx = (x**2).sum(1, keepdim=True)
            near = (-xx - inner - xx.transpose(2, 1)).topk(self.k, dim=-1)[1]
            flat = (near + torch.arange(b, device=x.device).view(-1, 1, 1) * n).view(-1)
            t = x.transpose(2, 1).contiguous()
            f = t.view(b * n, -1)[flat, :].view(b, n, self.k, c)
            t = t.view(b, n, 1, c).repeat(1, 1, self.k, 1)
            x = e(torch.cat((f - t, t), 3).permute(0, 3, 1, 2).contiguous()).max(-1)[0]
        return F.nll_loss(F.log_softmax(self.head(x.amax(-1)), -1), y)


class Actor(nn.Module):
    """a policy and a value, clipped as PPO has it, by torch.distributions"""

    def __init__(self, i=24, w=64, acts=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(i, w), nn.Tanh(), nn.Linear(w, w), nn.Tanh())
        self.pi, self.v, self.mu = nn.Linear(w, acts), nn.Linear(w, 1), nn.Linear(w, acts)
        self.log_std = nn.Parameter(torch.zeros(acts))

    def forward(self, obs, act, old, adv, ret):
        h = self.body(obs)
        pi = torch.distributions.Categorical(logits=self.pi(h), validate_args=False)
        ratio = (pi.log_prob(act) - old).exp()
        policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        value = self.v(h).squeeze(-1)
        normal = torch.distributions.Normal(self.mu(h), self.log_std.exp(), validate_args=False)
        extra = -normal.log_prob(normal.rsample()).sum(-1).mean()
        return policy + 0.5 * (ret - value).pow(2).mean() - 0.01 * pi.entropy().mean() + 1e-3 * extra


class Student(nn.Module):
    """a teacher without gradients, its softened answers, and a loss of inner features through a hook"""

    def __init__(self, i=3, w=16, classes=10):
        super().__init__()
        def net(k):
            return nn.Sequential(nn.Conv2d(i, k, 3, 2, 1), nn.BatchNorm2d(k), nn.ReLU(True), nn.Conv2d(k, k, 3, 2, 1, groups=4), nn.ReLU(True),
                                 nn.Flatten(), nn.Linear(k * 64, classes))
        self.teacher, self.student, self.fit = net(2 * w).requires_grad_(False), net(w), nn.Conv2d(w, 2 * w, 1)
        self.kept = {}
        for name, m in (("t", self.teacher[4]), ("s", self.student[4])):
            m.register_forward_hook(lambda m, a, out, name=name: self.kept.__setitem__(name, out))

    def forward(self, x, y):
        with torch.no_grad():
            want = self.teacher(x)
        got = self.student(x)
        soft = F.kl_div(F.log_softmax(got / 4, 1), F.softmax(want / 4, 1), reduction="batchmean") * 16
        return F.cross_entropy(got, y) + soft + F.huber_loss(self.fit(self.kept["s"]).float(), self.kept["t"].float())


class Warp(nn.Module):
    """a spatial transformer, unfolded patches and pictures put together of them"""

    def __init__(self, w=8):
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(3, w, 7, 4, 3), nn.ReLU(True), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * w, 6))
        self.patch, self.back = nn.Linear(3 * 64, 32), nn.Linear(32, 3 * 64)

    def forward(self, x):
        theta = self.where(x).view(-1, 2, 3)
        grid = F.affine_grid(theta.float(), list(x.shape), align_corners=False)
        y = F.grid_sample(x.float(), grid, mode="bilinear", padding_mode="border", align_corners=False)
        p = F.unfold(y.to(x.dtype), 8, stride=8).transpose(1, 2)
        z = self.back(F.gelu(self.patch(p))).transpose(1, 2)
        made = F.fold(z.float(), x.shape[-2:], 8, stride=8)
        return F.smooth_l1_loss(made, x.float()) + made.abs().mean() * 0.1


class Mixed(nn.Module):
    """losses of every kind on one trunk, and matrices put together of smaller ones"""

    def __init__(self, i=48, w=64):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.zeros(i, 4)), nn.Parameter(torch.zeros(4, w))
        self.bi = nn.Bilinear(w, 8, w)
        self.out, self.gate = nn.Linear(w, 16), nn.Linear(w, 8)
        self.norm = nn.RMSNorm(w)

    def forward(self, x, y, z):
        h = torch.addmm(torch.zeros(1, device=x.device, dtype=x.dtype), x, (self.a @ self.b))
        h = self.norm(F.mish(self.bi(h, F.softmax(self.gate(h), -1))))
        o = self.out(h)
        p = torch.sigmoid(o[:, :4].float())
        losses = [-(y.float() * torch.log(p + 1e-6)).mean(), F.binary_cross_entropy_with_logits(o[:, 4:8], y, pos_weight=torch.ones(4, device=x.device)),
                  F.cross_entropy(o, z, reduction="none").clamp(max=10).mean(),
                  F.triplet_margin_loss(o[:, :8], o[:, 8:], o[:, 8:].roll(1, 0)), F.cosine_embedding_loss(o[:, :8], o[:, 8:], torch.ones_like(z)),
                  F.soft_margin_loss(o[:, :4], y), F.gaussian_nll_loss(o[:, 0].float(), y[:, 0].float(), p[:, 1])]
        return torch.stack([v.float() for v in losses]).sum()


MADE = (Segmenter, Contrast, Momentum, Radiance, Codes, Efficient, Points, Actor, Student, Warp, Mixed)
segmenter, contrast, momentum, radiance, codes, efficient, points, actor, student, warp, mixed = ((lambda k=k: k()) for k in MADE)


def _picture(side, labels=True):
    def batch(b, t):
        return (torch.zeros(b, 3, side, side), *([torch.zeros(b, dtype=torch.long)] if labels else []))
    return batch


efficient_batch, student_batch, codes_batch, warp_batch = _picture(32), _picture(32), _picture(32, False), _picture(32, False)


def segmenter_batch(b, t):
    return torch.zeros(b, 3, 32, 32), torch.zeros(b, 32, 32, dtype=torch.long)


def contrast_batch(b, t):
    return torch.zeros(b, 96), torch.zeros(b, 96)


def momentum_batch(b, t):
    return torch.zeros(b, 64), torch.zeros(b, 64)


def radiance_batch(b, t):
    return torch.zeros(b, 3), torch.zeros(b, 3), torch.zeros(b, 3)


def points_batch(b, t):
    return torch.zeros(b, 3, 40), torch.zeros(b, dtype=torch.long)


def actor_batch(b, t):
    return torch.zeros(b, 24), torch.zeros(b, dtype=torch.long), torch.zeros(b), torch.zeros(b), torch.zeros(b)


def mixed_batch(b, t):
    return torch.zeros(b, 48), torch.ones(b, 4), torch.zeros(b, dtype=torch.long)
