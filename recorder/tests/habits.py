"""Modules with habits that a recording could miss in silence: weights of several types, parts as long as the code says, random draws, questions about a loss."""

import torch
import torch.nn.functional as F
from torch import nn


def texts(b, t):
    return {"ids": torch.zeros(b, t, dtype=torch.long), "labels": torch.zeros(b, t, dtype=torch.long)}


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class Reader(nn.Module):
    def __init__(self, width=72, layers=2, words=900):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.ModuleList(Mixer(width) for _ in range(layers))

    def encode(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, ids, labels):
        return {"loss": F.cross_entropy(self.head(self.encode(ids)).flatten(0, 1), labels.flatten())}


def in_half(make):
    was = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return make()
    finally:
        torch.set_default_dtype(was)


class Taught(nn.Module):
    """a teacher in bfloat16 that is not trained, a table in bfloat16, and a student whose gate is in float32 whatever it is in itself"""

    def __init__(self):
        super().__init__()
        self.teacher = in_half(lambda: Reader(176, 5)).requires_grad_(False)
        self.student = Reader()
        self.gate = nn.Parameter(torch.ones(900, dtype=torch.float32))
        self.register_buffer("table", torch.zeros(900, 64, dtype=torch.bfloat16))

    def forward(self, ids, labels):
        with torch.no_grad():
            wanted = self.teacher.head(self.teacher.encode(ids)).float()
        said = self.student.head(self.student.encode(ids)).float() * self.gate
        far = F.kl_div(said.log_softmax(-1), wanted.softmax(-1), reduction="batchmean")
        return {"loss": far + F.cross_entropy(said.flatten(0, 1), labels.flatten()) + self.table[:1].float().sum()}


class Windows(Reader):
    """parts of 160 tokens: how many there are follows the length"""

    def encode(self, ids):
        return torch.cat([self.layers[1](self.layers[0](part)) for part in self.embed(ids).split(160, 1)], 1)


class Learned(Reader):
    """positions that end at 640"""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(640, 72)

    def encode(self, ids):
        x = self.embed(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return x


class Hidden(Reader):
    """the head reads the tokens alone that a draw hides, one of five, but for those that a second draw leaves: a fifth of three quarters"""

    def forward(self, ids, labels):
        hidden = (torch.rand(ids.shape, device=ids.device) < 0.2) & (torch.rand(ids.shape, device=ids.device) < 0.75)
        x = self.encode(ids.masked_fill(hidden, 3))
        return {"loss": F.cross_entropy(self.head(x[hidden]), labels[hidden])}


class Careful(Reader):
    """asks whether there is a card, whether its loss is finite, and stops if not"""

    def forward(self, ids, labels):
        device = "cuda" if torch.cuda.is_available() else "cpu"
        x = self.encode(ids) * torch.ones(72, device=device)
        loss = F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())
        assert torch.isfinite(loss), "the loss is not finite"
        if torch.isnan(loss).any() or torch.isinf(loss):
            raise ValueError("the loss is no number")
        return {"loss": loss}


class Steps(Reader):
    """a loop over tokens"""

    def encode(self, ids):
        x, state, out = self.embed(ids), 0, []
        for k in range(ids.shape[1]):
            state = torch.tanh(self.layers[0](x[:, k] + state))
            out.append(state)
        return torch.stack(out, 1)


class Fused(Reader):
    """a function that it compiles itself"""

    def __init__(self):
        super().__init__()
        self.fused = torch.compile(lambda x: F.silu(x) * x)

    def encode(self, ids):
        return self.fused(super().encode(ids))


class Penalised(Reader):
    """asks for the gradient of what it read"""

    def forward(self, ids, labels):
        x = self.embed(ids)
        along, = torch.autograd.grad(self.head(x).sum(), x, create_graph=True)
        return {"loss": along.pow(2).mean()}


class Outside(Reader):
    """layers whose residual sums, and the dropout before them, stand outside of their modules"""

    def __init__(self, width=72, layers=5):
        super().__init__(width, 2)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
                                    for _ in range(layers))

    def encode(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + 0.5 * F.dropout(layer(x), 0.1, self.training)
        return x


class Pictures(nn.Module):
    """a convolution, and a filter of its spectrum"""

    def __init__(self):
        super().__init__()
        self.spread, self.filter = nn.Conv2d(3, 12, 3, padding=1), nn.Parameter(torch.ones(12, 16, 9))

    def forward(self, x):
        return {"loss": torch.fft.irfft2(torch.fft.rfft2(self.spread(x)) * self.filter).pow(2).mean()}


def pictures(b, _):
    return {"x": torch.zeros(b, 3, 16, 16)}


taught, windows, learned, hidden, careful, steps, fused, penalised, outside = (
    Taught, Windows, Learned, Hidden, Careful, Steps, Fused, Penalised, Outside)
taught_batch = windows_batch = learned_batch = hidden_batch = careful_batch = steps_batch = fused_batch = outside_batch = texts
