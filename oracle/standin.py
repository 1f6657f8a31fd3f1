"""What the stand-in driver cannot answer, answered: a step that branches on a value of the device.

Imported before a model is built. Kernels do not run, so every value that is read from the device is zero. Models ask the device
few questions, and each is run as it is (its allocations are part of the step) and then answered as a batch of full length would
have it: no token is padding. A job with "attention_mask": "explicit" has padding, for which zero is the right answer.
"""

import os
import sys

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
from torch.overrides import _get_current_function_mode_stack

torch.cuda.init()
torch.empty(1, device="cuda")
# Once a process, where torch.autocast begins with bfloat16, a card older than Ampere is asked whether it has that, by a
# tensor of two bytes (torch/cuda/__init__.py, _check_bf16_tensor_supported): the first job would have it, others not.
torch.cuda.is_bf16_supported()

# Whether some tokens of the batch are padding.
padding = False


def _own_mask():
    """Whether the question is about a mask that a decoder beside an encoder made of ones (BART): none of its tokens is padding, whatever
    the batch has. The names alone are looked at, since looking at the variables keeps them alive."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in ("create_causal_mask", "_update_causal_mask"):  # the latter before transformers 5
            names = frame.f_back.f_code.co_varnames + frame.f_back.f_back.f_code.co_varnames
            return "mask_seq_length" in names and "encoder_hidden_states" in names
        frame = frame.f_back
    return False


def _known(answer):
    """What values.Values knows of an answer: whether packed sequences are more than one, say."""
    for mode in _get_current_function_mode_stack():
        if answer in getattr(mode, "of", ()):
            return mode.of[answer].clone()
    return None


def _answered(question, applies):
    """question, which the device answers with zero, answered with yes where it applies and no token is padding"""

    def ask(tensor, *args, **kwargs):
        zero = question(tensor, *args, **kwargs)
        known = _known(zero) if zero.is_cuda or not tensor.is_cuda else zero  # values.Values answered itself
        if known is not None:
            return known
        if not applies(tensor, args, kwargs) or (padding and not _own_mask()):
            return zero
        return torch.tensor(True)

    ask.reads = True
    return ask


# transformers before 5.14 asks whether a mask is all ones with all(), later ones with a sum (masking_utils.fast_all).
torch.Tensor.all = _answered(torch.Tensor.all, lambda t, a, k: t.is_cuda and not a and not k)
torch.all = _answered(torch.all, lambda t, a, k: t.is_cuda and not a and not k)
try:
    from transformers import masking_utils
except ImportError:
    masking_utils = None
if hasattr(masking_utils, "fast_all"):
    masking_utils.fast_all = _answered(masking_utils.fast_all, lambda t, a, k: t.is_cuda)


def _untouched(tensor, *args, **kwargs):
    return tensor


# Weights are random and nobody reads them: their pages on the host are never written, so that large models cost nothing.
for _name in (
    "uniform_ normal_ trunc_normal_ constant_ ones_ zeros_ orthogonal_ "
    "kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_"
).split():
    setattr(torch.nn.init, _name, _untouched)


def _on_the_device(method):
    def fill(tensor, *args, **kwargs):
        return method(tensor, *args, **kwargs) if tensor.is_cuda else tensor

    return fill


torch.Tensor.normal_ = _on_the_device(torch.Tensor.normal_)
torch.Tensor.uniform_ = _on_the_device(torch.Tensor.uniform_)
