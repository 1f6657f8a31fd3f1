"""Which kernel F.scaled_dot_product_attention runs on a card, by the rules of a card that has all of them.

Source: aten/src/ATen/native/transformers/attention.cpp and cuda/sdp_utils.cpp, torch 2.9.
"""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

ITS_OWN = F.scaled_dot_product_attention
LINEAR = F.linear

KERNELS = {"_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"}

FLASH_HEAD = 256
ALIGNMENT = 8


class Choice(TorchFunctionMode):
    """runs the kernel that a card would run"""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is ITS_OWN:
            return attend(*args, **kwargs)
        if func is torch._C._nn.one_hot:
            return one_hot(*args, **kwargs)
        return func(*args, **kwargs)


def one_hot(tensor, num_classes=-1):
    """as a card has it: aten/src/ATen/native/Onehot.cpp, torch 2.9; fake tensors are compared instead"""
    if tensor.device.type != "cuda" or not tensor.numel():
        return torch._C._nn.one_hot(tensor, num_classes)
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    made = torch.zeros(*tensor.shape, num_classes, dtype=tensor.dtype, device=tensor.device)
    return made.scatter_(-1, tensor.unsqueeze(-1), 1)


def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if query.device.type != "cuda":
        return ITS_OWN(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if torch.is_autocast_enabled("cuda"):
        kind = torch.get_autocast_dtype("cuda")
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(kind)
        value = value.to(kind)
        key = key.to(kind)
        query = query.to(kind)
    aten = torch.ops.aten
    half, head = query.dtype in (torch.bfloat16, torch.float16), query.size(-1)
    if query.dim() != 4 or head > FLASH_HEAD and half:
        return written_out(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if half and attn_mask is None:
        pad = -head % ALIGNMENT
        if pad:
            scale = head**-0.5 if scale is None else scale
            query, key, value = (F.pad(x, (0, pad)) for x in (query, key, value))
        y = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return y[..., :head] if pad else y
    grouped = enable_gqa and key.size(1) != query.size(1)
    if grouped and (attn_mask is not None or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15)):
        return written_out(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is not None:
        attn_mask = attn_mask.expand(query.size(0), query.size(1), query.size(2), key.size(2))
    grads = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    return aten._scaled_dot_product_efficient_attention(query, key, value, attn_mask, grads, dropout_p, is_causal, scale=scale)[0]


class WrittenOut:
    """while attention is computed by its formula, which adds the mask in place unless a tensor is of a subclass, as fake ones are; or a linear layer,
    which adds its bias so"""

    depth = 0


def linear(input, weight, bias=None):
    """a linear layer, whose bias is added in place where its product cannot add it: aten/src/ATen/native/Linear.cpp (linear), torch 2.9"""
    WrittenOut.depth += 1
    try:
        return LINEAR(input, weight, bias)
    finally:
        WrittenOut.depth -= 1


def written_out(query, key, value, mask, dropout, causal, scale, grouped):
    """attention by its formula: aten/src/ATen/native/transformers/attention.cpp (_scaled_dot_product_attention_math), torch 2.9"""
    WrittenOut.depth += 1
    try:
        return torch.ops.aten._scaled_dot_product_attention_math(query, key, value, mask, dropout, causal, scale=scale, enable_gqa=grouped)[0]
    finally:
        WrittenOut.depth -= 1


def facts(o, name, args, kwargs):
    q, k, v = args[:3]
    mask = None
    if "efficient" in name:
        mask, dropout = args[3], args[5] if len(args) > 5 else kwargs.get("dropout_p", 0.0)
    else:
        dropout = args[3] if len(args) > 3 else kwargs.get("dropout_p", 0.0)
    return ("attention", o.sid(q), o.sid(k), o.sid(v), o.sid(mask) if mask is not None else None,
            tuple(q.shape), tuple(k.shape), v.size(-1), dropout, outermost(q), mask is not None and mask.dtype == torch.bool,
            q.size(0) > 1 and q.stride(2) > q.stride(0))


def copies(name, args):
    """what the backward of a kernel copies first: the gradient, and what the forward returned

    Source: aten/src/ATen/native/transformers/cuda/attention_backward.cu (_flash_attention_backward, _efficient_attention_backward), torch 2.9
    """
    flash = "flash" in name
    gradient, output = (not x.transpose(1, 2).is_contiguous() for x in (args[0], args[4 if flash else 5]))
    return ("copies", int(gradient) + 2 * int(output and flash) + 4 * int(flash))


def copied(o, x):
    """that x is what attention returned with its tokens first, which the memory-efficient kernel has them by itself and flash attention has not
    where the heads of its queries lie outside the tokens: an older card makes no copy"""
    query = o.attended.get(o.sid(x))
    if query is None or x.dim() != 4 or tuple(x.shape[:3]) != (query[0], query[2], query[1]) or x.is_contiguous():
        return None
    return ("attended", o.sid(x))


def outermost(q):
    """whether the heads lie outside the tokens"""
    return q.size(1) > 1 and q.stride(1) > q.stride(2)
