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
    "native_layer_norm_backward": (0, 1),
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
    held = []
    for y in (grad, x):
        either = plain and y.dim() == 4 and (lies(y, None) or lies(y, torch.channels_last))
        if not either and not lies(y, layout):
            held.append(s.alloc(y.shape, y.dtype))
    if out[0] is not None:
        s.made(0)
        if not plain and not lies(weight, layout):
            s.free(s.alloc(weight.shape, weight.dtype))
    s.made(1)
    s.work()
    s.free(*held)
    s.made(2)
    if plain:  # aten/src/ATen/native/cuda/DepthwiseConv2d.cu (conv_depthwise2d_backward_cuda_out)
        s.list.sort(key=lambda step: step == ("made", 0))


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
    sums = [s.alloc((n * c,), wide(x)) for _ in range(2)] if pixels > 1 else []
    inner = [s.alloc((n * groups,), wide(x)) for _ in range(2)] if out[0] is not None else []
    if inner and gamma is not None and pixels > 1:
        inner.append(s.alloc((n * c,), wide(x)))
    s.work()
    s.free(*inner, *reversed(sums), *reversed(held))


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


KERNELS = {
    "_trilinear": trilinear,
    "logsumexp": logsumexp,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "native_group_norm": group_norm,
    "native_group_norm_backward": group_norm_backward,
    "native_batch_norm_backward": batch_norm_backward,
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
    rows = 1
    for size, i in zip(x.shape, indices):
        rows *= size if isinstance(i, torch.Tensor) else 1
    shape = torch.broadcast_shapes(*(i.shape for i in given))
    wide = tuple(shape) + tuple(s for k, s in enumerate(x.shape) if k >= len(indices) or not isinstance(indices[k], torch.Tensor))
    copied = None
    if tuple(values.shape) != wide or not values.is_contiguous():
        copied = (wide, values.dtype)
    return tuple(shape), rows, copied


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
