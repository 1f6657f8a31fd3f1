"""Modules of single samples (pictures, vectors, graphs) as people write them who know nothing of the recorder, small: each is recorded and held
against a trace. Each NAME has NAME() and NAME_batch(b, t). Those of sequences are in strangers.py."""

import torch
import torch.nn.functional as F
from torch import nn


class TiedAutoencoder(nn.Module):
    """the decoder's matrices are the encoder's, transposed"""

    def __init__(self, widths=(256, 128, 32)):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(b, a)) for a, b in zip(widths, widths[1:]))
        self.up = nn.ParameterList(nn.Parameter(torch.zeros(b)) for b in widths[1:])
        self.down = nn.ParameterList(nn.Parameter(torch.zeros(a)) for a in widths[:-1])

    def forward(self, x):
        h = x
        for w, b in zip(self.weights, self.up):
            h = torch.tanh(F.linear(h, w, b))
        for w, b in zip(reversed(self.weights), reversed(self.down)):
            h = F.leaky_relu(F.linear(h, w.t(), b))
        return F.smooth_l1_loss(h, x) + 1e-3 * sum(w.abs().sum() for w in self.weights)


class GAN(nn.Module):
    """generator and discriminator, on real samples and on made ones, of which one pass is detached"""

    def __init__(self, latent=32, width=64, sample=128):
        super().__init__()
        self.latent = latent
        self.make = nn.Sequential(nn.Linear(latent, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, sample), nn.Tanh())
        self.judge = nn.Sequential(nn.utils.spectral_norm(nn.Linear(sample, width)), nn.LeakyReLU(0.2),
                                   nn.utils.spectral_norm(nn.Linear(width, 1)))

    def forward(self, x):
        z = torch.randn(x.size(0), self.latent, device=x.device)
        fake = self.make(z)
        real, made = self.judge(x), self.judge(fake.detach())
        d = F.binary_cross_entropy_with_logits(real, torch.ones_like(real)) + F.binary_cross_entropy_with_logits(made, torch.zeros_like(made))
        g = F.binary_cross_entropy_with_logits(self.judge(fake), torch.ones_like(real))
        return d + g


class VAE(nn.Module):
    """a sample of a normal distribution, a KL divergence and a reconstruction"""

    def __init__(self, width=200, hidden=96, latent=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, hidden), nn.ReLU())
        self.mean, self.logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decode = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, x):
        h = self.encode(x)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        loss = F.mse_loss(self.decode(z).float(), x.float(), reduction="sum") / x.size(0)
        kl = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        return {"loss": loss + kl, "z": z}


class Graph(nn.Module):
    """a graph convolution: messages along edges, added up at their ends"""

    def __init__(self, width=32, classes=7):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.gate, self.head = nn.Linear(2 * width, 1), nn.Linear(width, classes)

    def forward(self, x, edges, labels):
        source, target = edges
        n = x.size(0)
        for layer in self.layers:
            h = layer(x)
            alpha = torch.sigmoid(self.gate(torch.cat([h[source], h[target]], -1)))
            m = h.index_select(0, source) * alpha
            total = torch.zeros_like(h).index_add_(0, target, m.to(h.dtype))
            degree = torch.zeros(n, device=x.device, dtype=h.dtype).scatter_add_(0, target, torch.ones_like(target, dtype=h.dtype))
            x = F.relu(total / degree.clamp(min=1).unsqueeze(-1)) + x
        return F.cross_entropy(self.head(x), labels)


class Volume(nn.Module):
    """3-D convolutions, pooling and interpolation"""

    def __init__(self, w=8):
        super().__init__()
        self.a, self.b, self.c = nn.Conv3d(1, w, 3, padding=1), nn.Conv3d(w, 2 * w, 3, padding=1), nn.Conv3d(3 * w, 2, 1)
        self.norm, self.other = nn.BatchNorm3d(w), nn.InstanceNorm3d(2 * w, affine=True)

    def forward(self, x, y):
        a = F.relu(self.norm(self.a(x)))
        b = F.leaky_relu(self.other(self.b(F.max_pool3d(a, 2))))
        b = F.interpolate(b, scale_factor=2, mode="trilinear", align_corners=False)
        return F.cross_entropy(self.c(torch.cat([a, b], 1)), y)


class Straight(torch.autograd.Function):
    """rounding with the gradient of what was rounded, a part of which is kept"""

    @staticmethod
    def forward(ctx, bits, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.round(x * scale * 2**bits) / scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        inside = (x.abs() <= 1).to(g.dtype)
        return None, g * inside, (g * x).sum().reshape(scale.shape)


class Quantised(nn.Module):
    """weights and activations through a custom autograd function"""

    def __init__(self, width=128, classes=10):
        super().__init__()
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, classes)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x, labels):
        h = F.relu(F.linear(x, Straight.apply(4, self.a.weight, self.scale), self.a.bias))
        return F.cross_entropy(self.b(Straight.apply(8, h, self.scale)), labels)


class Upscale(nn.Module):
    """depthwise and grouped convolutions, squeeze and excitation, pixel shuffle, bilinear interpolation"""

    def __init__(self, c=24, factor=2):
        super().__init__()
        self.first = nn.Conv2d(3, c, 3, padding=1)
        self.depth, self.point = nn.Conv2d(c, c, 3, padding=1, groups=c), nn.Conv2d(c, c, 1)
        self.group, self.act = nn.Conv2d(c, c, 3, padding=1, groups=4), nn.PReLU(c)
        self.squeeze, self.excite = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)
        self.last, self.shuffle = nn.Conv2d(c, 3 * factor**2, 3, padding=1), nn.PixelShuffle(factor)

    def forward(self, x, y):
        h = self.first(x)
        r = self.act(self.group(F.hardswish(self.point(self.depth(h)))))
        r = r * torch.sigmoid(self.excite(F.relu6(self.squeeze(F.adaptive_avg_pool2d(r, 1)))))
        out = self.shuffle(self.last(h + r)) + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return F.l1_loss(out, y)


class Bags(nn.Module):
    """bags of embeddings, interactions of factors, and a wide part"""

    def __init__(self, fields=8, rows=1000, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(fields))
        self.wide = nn.EmbeddingBag(rows, 1, mode="mean")
        self.top = nn.Sequential(nn.Linear(fields * (fields - 1) // 2 + width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, y):
        e = torch.stack([t(x[:, i]) for i, t in enumerate(self.tables)], 1)
        z = torch.bmm(e, e.transpose(1, 2))
        i, j = torch.tril_indices(e.size(1), e.size(1), -1, device=x.device)
        logit = self.top(torch.cat([z[:, i, j], e.sum(1)], 1)) + self.wide(x[:, 0])
        return F.binary_cross_entropy_with_logits(logit.squeeze(1), y)


class Losses(nn.Module):
    """contrastive, triplet, cosine and distillation losses of two views"""

    def __init__(self, width=96, out=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, out))
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, a, b):
        x, y = self.net(a), self.net(b)
        u, v = F.normalize(x, dim=-1), F.normalize(y, dim=-1)
        logits = self.scale.exp() * u @ v.t()
        labels = torch.arange(len(a), device=a.device)
        clip = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        triplet = F.triplet_margin_loss(u, v, v.roll(1, 0))
        distil = F.kl_div(F.log_softmax(x / 2, -1), F.softmax(y.detach() / 2, -1), reduction="batchmean")
        std = torch.sqrt(x.float().var(dim=0) + 1e-4)
        return clip + triplet + distil + F.relu(1 - std).mean() + (1 - F.cosine_similarity(x, y)).mean()


def _make(kind):
    return lambda: kind()


autoencoder, gan, vae, graph, volume, quantised, upscale, bags, losses = map(
    _make, (TiedAutoencoder, GAN, VAE, Graph, Volume, Quantised, Upscale, Bags, Losses))


def autoencoder_batch(b, t):
    return (torch.zeros(b, 256),)


def gan_batch(b, t):
    return (torch.zeros(b, 128),)


def vae_batch(b, t):
    return (torch.zeros(b, 200),)


def graph_batch(b, t):
    return {"x": torch.zeros(16 * b, 32), "edges": torch.zeros(2, 80 * b, dtype=torch.long), "labels": torch.zeros(16 * b, dtype=torch.long)}


def volume_batch(b, t):
    return {"x": torch.zeros(b, 1, 16, 16, 16), "y": torch.zeros(b, 16, 16, 16, dtype=torch.long)}


def quantised_batch(b, t):
    return {"x": torch.zeros(b, 128), "labels": torch.zeros(b, dtype=torch.long)}


def upscale_batch(b, t):
    return {"x": torch.zeros(b, 3, 24, 24), "y": torch.zeros(b, 3, 48, 48)}


def bags_batch(b, t):
    return {"x": torch.zeros(b, 8, 5, dtype=torch.long), "y": torch.zeros(b)}


def losses_batch(b, t):
    return {"a": torch.zeros(b, 96), "b": torch.zeros(b, 96)}
