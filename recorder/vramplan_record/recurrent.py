"""Recurrent layers as cuDNN runs them: one operation for all layers and steps. Its results, its gradients and the order of both are PyTorch's;
what cuDNN keeps for backward (its reserve) it alone knows: what is taken for it here no trace has shown.

Source: aten/src/ATen/native/cudnn/RNN.cpp (_cudnn_rnn, _cudnn_rnn_backward), aten/src/ATen/cudnn/AutocastRNN.cpp, torch 2.9.
"""

import torch
from torch.nn.modules import rnn

from .sizes import Unexpressed

# Of each unit of each step: the gates, and what is computed from them (an LSTM's cell and its tanh, a GRU's product with the old state).
KEPT = {"LSTM": 6, "GRU": 5, "RNN_TANH": 1, "RNN_RELU": 1}

NOTE = "recurrent layers: what cuDNN keeps for backward is taken to be {} numbers for each unit of each step"


def note(module):
    """what is said of the recurrent layers of a module, if it has any"""
    kinds = [m.mode for m in module.modules() if isinstance(m, torch.nn.RNNBase)]
    return NOTE.format(" and ".join(str(KEPT[k]) for k in dict.fromkeys(kinds))) if kinds else None


class Recurrence(torch.autograd.Function):
    """output and last states of all layers"""

    @staticmethod
    def forward(ctx, mode, layers, two, proj, x, hx, cx, *weights):
        t, b, _ = x.shape
        hidden, ways = weights[0].shape[0] // {"LSTM": 4, "GRU": 3}.get(mode, 1), 1 + two
        out = proj or hidden
        ctx.half, ctx.sizes = x.dtype != weights[0].dtype, [w.numel() for w in weights]
        flat = torch.empty(sum(ctx.sizes), dtype=x.dtype, device=x.device) if ctx.half else None
        x = x.contiguous()
        y = torch.empty(t, b, ways * out, dtype=x.dtype, device=x.device)
        hy = torch.empty(layers * ways, b, out, dtype=x.dtype, device=x.device)
        cy = torch.empty(layers * ways, b, hidden, dtype=x.dtype, device=x.device) if cx is not None else None
        kept = torch.empty(KEPT[mode] * t * b * layers * ways * hidden, dtype=x.dtype, device=x.device)
        ctx.save_for_backward(x, hx, cx, y, kept, flat, *weights)
        return y, hy, cy

    @staticmethod
    def backward(ctx, dy, dhy, dcy):
        x, hx, cx, y, _, _, *weights = ctx.saved_tensors
        dy = torch.zeros_like(y) if dy is None else dy.contiguous()
        dx, dhx = torch.empty_like(x), torch.empty_like(hx)
        dcx = None if cx is None else torch.empty_like(cx)
        dw = torch.zeros(sum(ctx.sizes), dtype=x.dtype, device=x.device)
        grads = [part.view(w.shape) for part, w in zip(dw.split(ctx.sizes), weights)]
        if ctx.half:
            grads = [g.to(w.dtype) for g, w in zip(grads, weights)]
        return (None, None, None, None, dx, dhx, dcx, *grads)


def run(mode, input, hx, weights, biases, layers, dropout, train, two, batch_first=None):
    """torch.lstm and its like"""
    if not isinstance(biases, bool):
        raise Unexpressed(f"a packed sequence in a recurrent layer ({mode}): give it as it is, padded")
    h, c = hx if isinstance(hx, (tuple, list)) else (hx, None)
    proj = h.shape[-1] if mode == "LSTM" and h.shape[-1] != c.shape[-1] else 0
    if torch.is_autocast_enabled("cuda"):
        kind = torch.get_autocast_dtype("cuda")
        input, h, c = input.to(kind), h.to(kind), None if c is None else c.to(kind)
    y, *last = Recurrence.apply(mode, layers, two, proj, input.transpose(0, 1) if batch_first else input, h, c, *weights)
    return (y.transpose(0, 1) if batch_first else y, *last[: 1 if c is None else 2])


class Functions:
    """torch._VF with recurrent layers as cuDNN has them"""

    def __init__(self, its_own):
        self.its_own = its_own

    def __getattr__(self, name):
        mode = name.upper()
        if mode not in KEPT:
            return getattr(self.its_own, name)

        def call(input, *given):
            if input.device.type == "cuda":
                return run(mode, input, *given)
            return getattr(self.its_own, name)(input, *given)

        return call


def patches():
    """(object, name, value) of what stands in the place of cuDNN's own"""
    return [(rnn, "_VF", Functions(rnn._VF)), (torch.nn.RNNBase, "flatten_parameters", lambda _: None)]
