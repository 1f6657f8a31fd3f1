"""What a kernel allocates for itself before its results and lets go of behind them, where shapes and strides alone say so.

A fake tensor's operation makes the results alone; the copies that a kernel makes of arguments that do not lie as it wants them are here.
"""

import torch
from torch._prims_common import suggest_memory_format

# Arguments that the kernel reads from a contiguous copy. Sources, torch 2.9: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous),
# cuda/SoftMax.cu (host_softmax, host_softmax_backward), cuda/ScanKernels.cpp, cuda/TensorTransformations.cu (roll_cuda),
# cuda/Col2Im.cu, cuda/Im2Col.cu.
DENSE = {
    "native_layer_norm": (0,),
    "_fused_rms_norm": (0,),
    "_softmax": (0,),
    "_log_softmax": (0,),
    "_softmax_backward_data": (1,),
    "_log_softmax_backward_data": (0, 1),
    "cumsum": (0,),
    "cumprod": (0,),
    "roll": (0,),
    "col2im": (0,),
    "im2col": (0,),
}

# Matrices of products. Source: aten/src/ATen/native/cuda/Blas.cpp (prepare_matrix_for_cublas, prepare_batch_matrix_for_cublas), torch 2.9.
MATRICES = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}

# Sums whose elements are made as wide as the result first. Source: aten/src/ATen/native/ReduceOpsUtils.h (make_reduction), torch 2.9.
SUMS = {"sum", "mean", "prod"}

HALVES = (torch.bfloat16, torch.float16)


def strided(matrix):
    """whether a product reads a matrix as it lies"""
    if matrix.is_contiguous() and matrix.stride(-1) and matrix.stride(-2):
        return True
    (m, n), (a, b) = matrix.shape[-2:], matrix.stride()[-2:]
    return b == 1 and a >= max(1, n) or a == 1 and b >= max(1, m)


def lies(x, layout):
    return x.is_contiguous() if layout is None else x.is_contiguous(memory_format=layout)


def layout_of(x, weight):
    """how a convolution wants its tensors to lie: channels outermost (None) unless pixels are in one of them

    Source: aten/src/ATen/native/ConvUtils.h (cudnn_conv_suggest_memory_format), torch 2.9.
    """
    if x.dim() == 4 and any(suggest_memory_format(t) == torch.channels_last for t in (x, weight)):
        return torch.channels_last
    return None


def depthwise(x, weight, transposed):
    return not transposed and weight.shape[1] == 1 and x.shape[1] > 1


class Steps:
    """what a kernel does around its results, one step after the other: ("made", which of its results), ("work",), ("alloc", number, its name, shape, type) and
    ("free", number)"""

    def __init__(self):
        self.list, self.count = [], 0

    def made(self, *which):
        self.list += [("made", k) for k in which]

    def work(self):
        self.list.append(("work",))

    def alloc(self, shape, dtype, name="clone"):
        self.list.append(("alloc", self.count, name, tuple(shape), dtype))
        self.count += 1
        return self.count - 1

    def free(self, *numbers):
        self.list += [("free", n) for n in numbers]


def steps(name, args, out):
    """the steps of an operation; None where it allocates its results alone"""
    s, results = Steps(), range(len(out) if isinstance(out, (tuple, list)) else 1)
    known = KERNELS.get(name)
    if known and known(s, args, out) is not False:
        return s.list
    s = Steps()
    held = [s.alloc(x.shape, x.dtype) for x in copied(DENSE, name, args, torch.Tensor.is_contiguous)]
    if name == "roll" and len(args) > 2:  # one dimension after the other
        held += [s.alloc(args[0].shape, args[0].dtype) for _ in args[2][1:]]
    s.made(*results)
    matrices = [s.alloc(x.shape, x.dtype) for x in copied(MATRICES, name, args, strided)]
    s.work()
    s.free(*matrices, *held)
    aside = [s.alloc(*x, "mul") for x in behind(name, args, out)]
    s.free(*reversed(aside))
    return s.list if s.count else None


def dense(args, x):
    return x if x.is_contiguous() else x.new_empty(x.shape)


def as_both(args, x):
    return args[0] + args[1]


def as_second(args, x):
    return torch.empty_like(args[1])


# Results that lie otherwise on a card than those of a fake tensor's operation. Sources, torch 2.9: aten/src/ATen/native/cuda/layer_norm_kernel.cu
# (layer_norm_backward_cuda), SoftMax.cpp (TORCH_META_FUNC(log_softmax_backward_cuda)), Loss.cpp (mse_loss_backward, smooth_l1_loss_backward,
# huber_loss_backward), Activation.cpp (hardswish_backward, elu_backward), cuda/Normalization.cu (batch_norm_backward_cuda).
LIES = {
    "native_layer_norm_backward": dense,
    "_fused_rms_norm_backward": dense,
    "_log_softmax_backward_data": dense,
    "mse_loss_backward": dense,
    "smooth_l1_loss_backward": dense,
    "huber_loss_backward": dense,
    "hardswish_backward": as_both,
    "elu_backward": lambda args, x: args[0] + args[5],
    "native_batch_norm_backward": as_second,
}


def lying(name, args, out):
    """what an operation returned, the first of it lying as on a card"""
    lies = LIES.get(name)
    if not lies:
        return out
    if not isinstance(out, (tuple, list)):
        return lies(args, out)
    return (out[0] if out[0] is None else lies(args, out[0]), *out[1:])


def copied(table, name, args, fits):
    """the arguments that a kernel copies first"""
    given = (args[k] for k in table.get(name, ()) if k < len(args))
    return [x for x in given if isinstance(x, torch.Tensor) and x.device.type == "cuda" and not fits(x)]


def convolution(s, args, out):
    """Source: aten/src/ATen/native/Convolution.cpp (_convolution), cudnn/ConvShared.cpp (cudnn_convolution_forward), torch 2.9"""
    x, weight, transposed = args[0], args[1], args[6]
    layout = layout_of(x, weight)
    either = depthwise(x, weight, transposed) and (lies(x, None) or lies(x, torch.channels_last) if x.dim() == 4 else False)
    held = [] if either or lies(x, layout) else [s.alloc(x.shape, x.dtype)]
    s.made(0)
    if not either and not lies(weight, layout):
        s.free(s.alloc(weight.shape, weight.dtype))
    s.work()
    s.free(*held)


def convolution_backward(s, args, out):
    """Source: aten/src/ATen/native/Convolution.cpp (convolution_backward), cudnn/ConvShared.cpp (cudnn_convolution_backward_input), torch 2.9"""
    grad, x, weight, transposed = args[0], args[1], args[2], args[7]
    layout = layout_of(x, weight)
    plain = depthwise(x, weight, transposed)
    if plain:  # in this order in traces of depthwise kernels: aten/src/ATen/native/cuda/DepthwiseConv2d.cu (conv_depthwise2d_backward_cuda_out)
        s.made(0, 1)
    held = []
    for y in (grad, x):
        either = plain and y.dim() == 4 and (lies(y, None) or lies(y, torch.channels_last))
        if not either and not lies(y, layout):
            held.append(s.alloc(y.shape, y.dtype))
    if plain:
        s.made(2)
        s.work()
        s.free(*held)
        return
    if out[0] is not None:
        s.made(0)
        if not lies(weight, layout):
            s.free(s.alloc(weight.shape, weight.dtype))
    s.made(1)
    s.work()
    s.free(*held)
    s.made(2)


def group_norm(s, args, out):
    """Source: aten/src/ATen/native/cuda/group_norm_kernel.cu (GroupNormKernelImplInternal), torch 2.9"""
    x, pixels = args[0], args[5]
    held = [] if x.is_contiguous() else [s.alloc(x.shape, x.dtype)]
    s.made(0, 1, 2)
    if pixels > 1 and any(w is not None for w in args[1:3]):
        held += [s.alloc((args[3] * args[4],), wide(x)) for _ in range(2)]
    s.work()
    s.free(*reversed(held))


def group_norm_backward(s, args, out):
    """Source: aten/src/ATen/native/cuda/group_norm_kernel.cu (GroupNormBackwardKernelImplInternal), torch 2.9"""
    x, gamma, n, c, pixels, groups = args[1], args[4], *args[5:9]
    held = [s.alloc(y.shape, y.dtype) for y in args[:2] if not y.is_contiguous()]
    s.made(0, 1, 2)
    sums = [s.alloc((n * c,), wide(x)) for _ in range(2)]
    inner = [s.alloc((n * groups,), wide(x)) for _ in range(2)] if out[0] is not None else []
    if inner and gamma is not None and pixels > 1:
        inner.append(s.alloc((n * c,), wide(x)))
    s.work()
    s.free(*inner, *reversed(sums), *reversed(held))


def layer_norm_backward(s, args, out):
    """Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu (layer_norm_backward_cuda, _fused_rms_norm_backward_cuda,
    LayerNormBackwardKernelImplInternal), torch 2.9"""
    grad, x = args[:2]
    held = [] if x.is_contiguous() else [s.alloc(x.shape, x.dtype)]
    s.made(*range(len(out)))
    late = [] if grad.is_contiguous() else [s.alloc(grad.shape, grad.dtype)]
    s.work()
    s.free(*late, *held)


def batch_norm_backward(s, args, out):
    """where channels lie innermost, sums of its own first

    Source: aten/src/ATen/native/cuda/Normalization.cu (batch_norm_backward_cuda, batch_norm_use_channels_last_kernels), torch 2.9
    """
    x = args[1]
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if not (last and x.is_contiguous(memory_format=last) or x.is_contiguous() and x.stride(1) == 1):
        return False
    sums = [s.alloc((x.shape[1],), wide(x)) for _ in range(2)] if out[0] is not None else []
    s.made(1, 2, 0)
    s.work()
    s.free(*sums)
    return True


def huber_loss(s, args, out):
    """element by element first, reduced then: aten/src/ATen/native/Loss.cpp (huber_loss), torch 2.9"""
    if len(args) > 2 and not args[2]:
        return False
    whole = s.alloc(torch.broadcast_shapes(args[0].shape, args[1].shape), args[0].dtype)
    s.made(0)
    s.work()
    s.free(whole)
    return True


def with_logits(s, args, out):
    """Source: aten/src/ATen/native/Loss.cpp (binary_cross_entropy_with_logits), torch 2.9"""
    x, target = args[:2]
    positive = args[3] if len(args) > 3 else None
    logs = s.alloc(x.shape, x.dtype, "log_sigmoid_forward")
    if positive is not None:
        less = s.alloc(positive.shape, positive.dtype, "sub")
        weight = s.alloc(torch.broadcast_shapes(positive.shape, target.shape), target.dtype, "mul")
        s.free(less, weight)
    if out.shape == x.shape:
        s.made(0)
        s.work()
        s.free(logs)
        return
    whole = s.alloc(target.shape, target.dtype, "rsub")
    s.made(0)
    s.work()
    s.free(whole, logs)


def connectionist(s, args, out):
    """where targets begin, and both lengths: aten/src/ATen/native/cuda/LossCTC.cu (ctc_loss_gpu_template), torch 2.9"""
    held = [s.alloc(out[0].shape, torch.int64) for _ in range(3)]
    s.made(1, 0)
    s.work()
    s.free(*reversed(held))


def connectionist_backward(s, args, out):
    """the same, and as much again as the forward kept: aten/src/ATen/native/cuda/LossCTC.cu (ctc_loss_backward_gpu_template), torch 2.9"""
    held = [s.alloc(args[1].shape[1:2], torch.int64) for _ in range(3)]
    beta = s.alloc(args[6].shape, args[6].dtype, "empty_like")
    s.made(0)
    s.work()
    s.free(beta, *reversed(held))


def embedding_backward(s, args, out):
    """Source: aten/src/ATen/native/cuda/Embedding.cu (embedding_dense_backward_cuda), torch 2.9"""
    held = [s.alloc(x.shape, x.dtype) for x in (args[1], args[0]) if not x.is_contiguous()]
    s.made(0)
    s.work()
    s.free(*reversed(held))


def multi_margin(s, args, out):
    """one number a sample first: aten/src/ATen/native/cuda/MultiMarginLoss.cu (multi_margin_loss_cuda_out), torch 2.9"""
    x = args[0]
    s.made(0)
    if out.dim() or x.dim() < 2:
        return False
    s.work()
    s.free(s.alloc(x.shape[:1], x.dtype))
    return True


def bincount(s, args, out):
    """the least and the largest first: aten/src/ATen/native/cuda/SummaryOps.cu (_bincount_cuda_template), torch 2.9"""
    for _ in range(2):
        s.free(s.alloc((), args[0].dtype))
    s.made(0)
    s.work()


def distances(s, args, out):
    """Source: aten/src/ATen/native/Distance.cpp (_euclidean_dist), torch 2.9"""
    held = []
    for x in args[:2]:
        norm = (*x.shape[:-1], 1)
        squares = s.alloc(x.shape, x.dtype, "pow")
        held.append(s.alloc(norm, x.dtype, "sum"))
        s.free(squares)
        held.append(s.alloc(norm, x.dtype, "ones_like"))
    one, two = args[:2]
    twice = s.alloc(one.shape, one.dtype, "mul")
    first = s.alloc((*one.shape[:-1], one.shape[-1] + 2), one.dtype, "cat")
    s.free(held[1], held[0], twice)
    second = s.alloc((*two.shape[:-1], two.shape[-1] + 2), two.dtype, "cat")
    s.free(held[3], held[2])
    s.made(0)
    s.work()
    s.free(second, first)


def logsumexp(s, args, out):
    """Source: aten/src/ATen/native/ReduceOps.cpp (logsumexp_out_impl), torch 2.9"""
    x = args[0]
    largest, whole = s.alloc(out.shape, x.dtype), s.alloc(out.shape, x.dtype)
    s.free(s.alloc(out.shape, torch.bool), whole)
    apart = s.alloc(x.shape, x.dtype)
    s.made(0)
    s.work()
    s.free(apart, largest)


def trilinear(s, args, out):
    """one slice after the other: the product of the first two, and that with the third, of which one slice's are alive at a time

    Source: aten/src/ATen/native/Linear.cpp (_trilinear), torch 2.9
    """
    total, sums, unrolled = args[0].dim() + len(args[3]), args[6], args[7] if len(args) > 7 else 1

    def sizes(x, expanded):
        left = iter(x.shape)
        return [1 if k in expanded else next(left) for k in range(total)]

    a, b, c = (sizes(x, e) for x, e in zip(args[:3], args[3:6]))
    first = [1 if k == unrolled or k in sums and k in args[5] else max(a[k], b[k]) for k in range(total)]
    second = [1 if k == unrolled or k in sums else max(first[k], c[k]) for k in range(total)]
    s.made(0)
    pair, triple = (s.alloc(shape, args[0].dtype, "mul") for shape in (first, second))
    s.work()
    s.free(pair, triple)


def sort(s, args, out):
    """the places from which the slices' numbers are copied: aten/src/ATen/native/cuda/Sort.cpp (sort_cuda_kernel), torch 2.9

    Longer slices are sorted in segments, whose scratch is in no figure.
    """
    x, dim = args[0], next((a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)), -1)
    if not x.dim() or x.shape[dim] > 4096:
        return False
    s.made(0, 1)
    s.free(s.alloc((x.shape[dim],), torch.int64, "arange"))
    return True


KERNELS = {
    "sort": sort,
    "_fused_rms_norm_backward": layer_norm_backward,
    "_ctc_loss": connectionist,
    "_ctc_loss_backward": connectionist_backward,
    "_euclidean_dist": distances,
    "_trilinear": trilinear,
    "bincount": bincount,
    "binary_cross_entropy_with_logits": with_logits,
    "multi_margin_loss": multi_margin,
    "logsumexp": logsumexp,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "native_layer_norm_backward": layer_norm_backward,
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_backward,
    "native_batch_norm_backward": batch_norm_backward,
    "embedding_dense_backward": embedding_backward,
    "huber_loss": huber_loss,
}


def wide(x):
    """the type in which a kernel adds up"""
    return torch.float32 if x.dtype in HALVES else x.dtype


def behind(name, args, out):
    """(shape, type) of what is allocated behind the results: the product that a softmax's backward sums, the elements of a sum as wide as its
    result, and what tells the rows of a softmax that are masked as a whole

    Sources: aten/src/ATen/native/cuda/SoftMax.cu (softmax_backward_cuda_out), aten/src/ATen/native/transformers/attention.cpp (_safe_softmax),
    torch 2.9.
    """
    x = args[0] if args else None
    if name == "_softmax_backward_data":
        return [(tuple(x.shape), x.dtype)] * (1 if x.is_contiguous() else 2)
    if name == "_safe_softmax":
        return [(tuple(x.shape), torch.bool), (tuple(x.shape[:-1]), torch.bool), ((), x.dtype)]
    if name in SUMS and isinstance(out, torch.Tensor) and x.dtype != out.dtype and not (x.dtype in HALVES and out.dtype == torch.float32):
        return [(tuple(x.shape), out.dtype)]
    return []


def sorted_by(name, args):
    """(shape of the indices, rows, shape and type of the copied values or None) of an addition by indices, which sorts them

    Source: aten/src/ATen/native/cuda/Indexing.cu (index_put_with_sort_kernel), torch 2.9.
    """
    if name not in ("index_put", "index_put_", "_index_put_impl_") or len(args) < 4 or not args[3]:
        return None
    x, indices, values = args[:3]
    given = [i for i in indices if isinstance(i, torch.Tensor)]
    if not given or any(i.dtype != torch.int64 for i in given):
        return None
    shape = torch.broadcast_shapes(*(i.shape for i in given))
    wide = tuple(shape) + tuple(s for k, s in enumerate(x.shape) if k >= len(indices) or not isinstance(indices[k], torch.Tensor))
    copied = None
    if tuple(values.shape) != wide or not values.is_contiguous():
        copied = (wide, values.dtype)
    return tuple(shape), tuple(size for size, i in zip(x.shape, indices) if isinstance(i, torch.Tensor)), copied


def reduction(x, y, dims):
    """over what a sum runs: all, the last dimensions (columns) or the first ones (rows)"""
    n = x.dim()
    if y is None or x.numel() == y.numel():
        return None
    if not dims and dims != 0:
        return ("reduce", "all", x.shape, ())
    dims = sorted(d % n for d in ([dims] if isinstance(dims, int) else dims)) if n else []
    if len(dims) == n:
        return ("reduce", "all", x.shape, ())
    kept = tuple(s for i, s in enumerate(x.shape) if i not in dims)
    gone = tuple(s for i, s in enumerate(x.shape) if i in dims)
    if dims[-1] == n - 1 or all(x.shape[i] == 1 for i in range(dims[-1] + 1, n)):
        return ("reduce", "cols", kept, gone)
    return ("reduce", "rows", gone, kept)
