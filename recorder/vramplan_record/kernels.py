"""What a kernel allocates for itself before its results and lets go of behind them, where shapes and strides alone say so.

A fake tensor's operation makes the results alone; the copies that a kernel makes of arguments that do not lie as it wants them are here.
"""

import torch

# Arguments that the kernel reads from a contiguous copy. Sources, torch 2.9: aten/src/ATen/native/cuda/layer_norm_kernel.cu (expect_contiguous),
# cuda/SoftMax.cu (host_softmax, host_softmax_backward), cuda/ScanKernels.cpp, cuda/TensorTransformations.cu (roll_cuda).
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
}

# Arguments of convolutions: their kernels take either order of channels and pixels, and a sequence in the usual one alone.
# Source: aten/src/ATen/native/Convolution.cpp (_convolution, convolution_backward), torch 2.9.
CONVOLUTIONS = {"convolution": (0,), "convolution_backward": (0, 1)}

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


def channels_either(x):
    return x.is_contiguous() or x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)


def temporaries(name, args):
    """(shape, type) of what is allocated before the results"""
    found = []
    for table, fits in ((DENSE, torch.Tensor.is_contiguous), (CONVOLUTIONS, channels_either), (MATRICES, strided)):
        for k in table.get(name, ()):
            x = args[k] if k < len(args) else None
            if isinstance(x, torch.Tensor) and x.device.type == "cuda" and not fits(x):
                found.append((tuple(x.shape), x.dtype))
    if name == "roll" and len(args) > 2 and len(args[2]) > 1:  # one dimension after the other
        found += [(tuple(args[0].shape), args[0].dtype)] * (len(args[2]) - 1)
    return found


def behind(name, args, out):
    """(shape, type) of what is allocated behind the results: the product that a softmax's backward sums, the elements of a sum as wide as its
    result, and what tells the rows of a softmax that are masked as a whole

    Sources: aten/src/ATen/native/cuda/SoftMax.cu (softmax_backward_cuda_out), aten/src/ATen/native/transformers/attention.cpp (_safe_softmax),
    torch 2.9.
    """
    x = args[0] if args else None
    if name == "_softmax_backward_data":
        return [(tuple(x.shape), x.dtype)]
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
