"""Questions that a library asks and a tensor without values cannot answer, answered as for a full batch."""

import contextlib
import sys
import types

import torch
import torch._dynamo
import torch.nn.functional as F
import torch.nn.attention.flex_attention as flex
import torch.utils.checkpoint as checkpointing
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode

from . import attention, checkpoints, recurrent
from .sizes import Unexpressed

# What a module is told of the card that is not there: the oldest that has every kernel.
CAPABILITY = (8, 0)


@contextlib.contextmanager
def applied(padded=False):
    """transformers treats fake tensors as a trace, for which it keeps masks that it drops in training; padded says that some tokens of a batch are
    padding"""
    undo = []

    def replace(module, name, value):
        if hasattr(module, name):
            undo.append((module, name, getattr(module, name)))
            setattr(module, name, value)

    try:
        from torch.amp import autocast_mode

        replace(autocast_mode, "is_autocast_available", lambda _: True)
        replace(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        replace(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
        replace(FakeTensor, "__deepcopy__", deep_copy)
        replace(torch.cuda, "synchronize", lambda *_: None)
        for name, value in (("is_available", True), ("device_count", 1), ("current_device", 0)):
            replace(torch.cuda, name, told(getattr(torch.cuda, name), value))
        replace(torch._dynamo.eval_frame, "_callback_from_stance", uncompiled)
        replace(torch.cuda, "get_device_capability", lambda *_: CAPABILITY)
        replace(torch.cuda, "get_device_properties", lambda *_: types.SimpleNamespace(
            name="", major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=108, total_memory=80 << 30, warp_size=32))
        # As a function mode is left inside of a function that looks for one, such as multi_head_attention_forward.
        replace(F, "scaled_dot_product_attention", attention.attend)
        replace(F, "linear", attention.linear)
        replace(torch, "ctc_loss", connectionist)
        for of, name, what in ((torch.autograd, "grad", "asks for gradients itself (torch.autograd.grad)"),
                               (torch.Tensor, "backward", "runs a backward of its own (Tensor.backward)"),
                               (flex, "flex_attention", "calls flex_attention, which runs compiled alone")):
            replace(of, name, refusing(getattr(of, name), what))
        for of, name, value in recurrent.patches():
            replace(of, name, value)
        replace(torch.nn.Module, "_apply", converted)
        replace(checkpointing, "CheckpointFunction", checkpoints.Reentrant)
        replace(checkpointing, "_checkpoint_without_reentrant_generator", checkpoints.plain)
        replace(checkpointing, "_checkpoint_without_reentrant_generator_impl", checkpoints.plain)  # torch 2.15
        try:
            from transformers import masking_utils
            from transformers.utils import import_utils
        except ImportError:
            pass
        else:
            replace(import_utils, "is_fake_tensor", lambda _: False)
            replace(masking_utils, "fast_all", lambda mask: answer(mask, not padded))
        yield
    finally:
        for module, name, value in reversed(undo):
            setattr(module, name, value)


# While a module is made: its parameters, by their ids, and what they became in another type or another place.
MOVED = []


@contextlib.contextmanager
def making():
    """a module may be converted while it is made, as by .to(torch.bfloat16); gives what ends it, which finds every parameter that became another"""
    MOVED.append({})
    try:
        yield lambda module: follow(module, MOVED[-1])
    finally:
        MOVED.pop()


def follow(module, moved):
    """module with what its parameters became, also where it shares one with a module that was converted"""
    for m in module.modules():
        for name, p in m._parameters.items():
            if p is not None:
                m._parameters[name] = latest(p, moved)
    return module


def latest(p, moved):
    while id(p) in moved:
        p = moved[id(p)][1]
    return p


def converted(module, fn, recurse=True):
    """torch.nn.Module._apply of fake tensors, which torch would swap: something else may refer to them, and then it cannot"""
    if recurse:
        for child in module.children():
            child._apply(fn)
    for name, p in module._parameters.items():
        if p is None:
            continue
        now = latest(p, MOVED[-1]) if MOVED else p
        with torch.no_grad():
            made = fn(now)
        if made.dtype == now.dtype and made.device == now.device:
            module._parameters[name] = now
            continue
        if not MOVED:
            raise Unexpressed(f"the module converts its parameters as it runs ({type(module).__name__}.{name} to {made.dtype}), which no recording "
                              "has: convert them where the module is made")
        new = torch.nn.Parameter(made, now.requires_grad)
        MOVED[-1][id(now)] = (now, new)  # kept, as another tensor may get its id
        module._parameters[name] = new
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    return module


NOTE = "what the module compiles itself (torch.compile) was recorded as it runs uncompiled"

# What to do where something runs that torch.compile made.
COMPILED = []


def uncompiled(callback):
    """what torch._dynamo runs a compiled function with: nothing, as nothing can be compiled here; told to whoever records"""
    if callback not in (None, False):
        for told in COMPILED:
            told()
    return None


def refusing(function, what):
    """function, where torch itself calls it, and a refusal where the module or its libraries do"""
    def refuse(*args, **kwargs):
        if sys._getframe(1).f_globals.get("__name__", "").split(".")[0] == "torch":
            return function(*args, **kwargs)
        raise Unexpressed(f"the module {what}, which no recording has: leave that out of the module, and of the plan")

    return refuse


def told(ask, value):
    """ask, answered with value where the module or its libraries ask, and as it is where torch itself does"""
    return lambda: ask() if sys._getframe(1).f_globals.get("__name__", "").split(".")[0] == "torch" else value


CTC_LOSS = torch.ctc_loss


def connectionist(probabilities, targets, lengths, target_lengths, *options):
    """torch.ctc_loss of lengths that are numbers, which its code puts into tensors in a way that fake ones have not"""
    def tensor(x):
        return x if isinstance(x, torch.Tensor) else torch.tensor(x, device="cpu").to(probabilities.device)

    return CTC_LOSS(probabilities, targets, tensor(lengths), tensor(target_lengths), *options)


def answer(mask, full):
    """whether a mask has no padding; what is asked runs as it is: transformers.masking_utils.fast_all, 5.23"""
    _ = mask.sum() == mask.numel()
    return full


def deep_copy(tensor, memo):
    """a fake tensor's own copy has a storage that is new in every operation"""
    with torch.no_grad():
        made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    made = torch.nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made.requires_grad_(tensor.requires_grad)
    memo[id(tensor)] = made
    return made


class Uninitialized(TorchFunctionMode):
    """weights are not filled: nobody reads them, and random numbers for a card need one"""

    FILLS = {"normal_", "uniform_", "trunc_normal_", "exponential_", "bernoulli_", "random_", "log_normal_", "erfinv_", "orthogonal_"}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in self.FILLS or getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
