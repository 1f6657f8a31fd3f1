"""What ids, masks and sizes hold, beside a device that computes nothing.

The stand-in driver answers zero to whoever reads a value. A model that sees pictures counts the tokens that stand for them, splits its
patches by lengths that lie on the device and indexes by masks, so that the sizes of what it allocates depend on integers that came from the
host. Values repeats on the CPU what is called with such tensors. What it knows answers reads; what it does not know stays zero. Nothing of
this reaches the dispatcher or autograd: the device allocates what it would have.
"""

import ctypes

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

# Larger tensors are not repeated: pixels and activations are of no interest.
MOST_ELEMENTS = {True: 1 << 16, False: 1 << 26}  # by whether they are floating point

_tensor = torch.Tensor
_reads = {
    _tensor.item,
    _tensor.tolist,
    _tensor.__bool__,
    _tensor.__int__,
    _tensor.__float__,
    _tensor.__index__,
    _tensor.numpy,
    torch.equal,
    _tensor.equal,
}
# These take sizes, which C++ reads from the device where a tensor is given for one. The first so many arguments are no sizes.
_sized = {f: 0 for f in (torch.arange, torch.linspace, torch.zeros, torch.ones, torch.empty, torch.full)}
_sized |= {f: 1 for f in (_tensor.reshape, _tensor.view, _tensor.expand, _tensor.repeat, torch.nn.functional.pad)}
_sized |= {f: 1 for f in (_tensor.split, torch.split, _tensor.narrow, torch.narrow)}
_counted = {
    _tensor.__getitem__,
    _tensor.__setitem__,
    _tensor.masked_select,
    torch.masked_select,
    _tensor.nonzero,
    torch.nonzero,
    torch.argwhere,
    _tensor.argwhere,
}
_searched = {_tensor.nonzero, torch.nonzero, torch.argwhere, _tensor.argwhere}
_repeated = {_tensor.repeat_interleave, torch.repeat_interleave}
_consecutive = {torch.unique_consecutive, _tensor.unique_consecutive}
# These look at the shape alone of what else they are given.
_shapes = {_tensor.expand_as, _tensor.view_as, torch.zeros_like, torch.ones_like, torch.full_like, _tensor.new_zeros}
_shapes |= {_tensor.new_ones, _tensor.new_full}
# Pixels are followed through these, large as they are: a model counts the pictures that are not empty (SmolVLM, transformers 5).
_pixels = {_tensor.to, _tensor.cuda, _tensor.view, _tensor.eq, _tensor.__eq__}
# Kernels that torch 2.15 compiles when they are first asked for (at::cuda::jit), which ends the process without a card, and what allocates
# the same: products of integers, of which Qwen2-VL makes the tokens of a picture.
_alike = {_tensor.prod: _tensor.sum, torch.prod: torch.sum}
_random = ("rand", "normal", "uniform", "bernoulli", "dropout", "multinomial", "empty")


def _in_place(func):
    name = func.__name__
    return (
        func is _tensor.__setitem__
        or (name.endswith("_") and not name.endswith("__"))
        or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    )


class Values(TorchFunctionMode):
    """Knows what integers and booleans on the device hold that came from the host."""

    def __init__(self):
        super().__init__()
        self.of = WeakIdKeyDictionary()
        self.driver = ctypes.CDLL(None)
        self.again = []  # how many entries backward will count once more, in the order of forward

    def follow(self, model):
        """Layers that are run again in backward are so in a thread of autograd's, which knows nothing of this mode."""
        for module in model.modules():
            run = getattr(module, "_gradient_checkpointing_func", None)
            if run:
                module._gradient_checkpointing_func = lambda layer, *args, run=run: run(self._within(layer), *args)

    def _within(self, layer):
        def run(*args, **kwargs):
            if self in _get_current_function_mode_stack():
                return layer(*args, **kwargs)
            with self:
                return layer(*args, **kwargs)

        return run

    def backward(self):
        """Backward begins: what is indexed by a mask there is counted in the opposite order."""
        self.driver.standin_clear()
        for count in reversed(self.again):
            self.driver.standin_push(count)
        self.again.clear()

    def backward_ended(self):
        """What backward did not ask for is no answer to what forward asks."""
        self.driver.standin_clear()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "backward"):
            return func(*args, **kwargs)
        if func in _sized or func is _tensor.__getitem__:
            args, kwargs = self._numbers(func, args), pytree.tree_map(self._number, kwargs) if func in _sized else kwargs
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        device = [x for x in given if x.is_cuda]
        known = all(x in self.of for x in device)
        if func in _reads and device and known:
            return self._on_host(func, args, kwargs)
        if device and known and func in _repeated and "output_size" not in kwargs:
            # which allocates the same where it need not read how long its result is
            at = 0 if len(args) == 1 else 1
            kwargs = dict(kwargs, output_size=int(self._host(args[at]).sum())) if isinstance(args[at], torch.Tensor) else kwargs
        if device and known and func in _consecutive:  # how long the result is, the device cannot say: it is made here and moved
            value = self._on_host(func, args, kwargs)
            out = value.to(device[0].device)
            self.of[out] = value
            return out
        told = self._tell(func, args, device)
        out = _alike.get(func, func)(*args, **kwargs)
        if told:
            self.driver.standin_clear()
        if device and known and getattr(func, "reads", False):  # what standin answers where nothing is known
            return self._on_host(func, args, kwargs)
        self._follow(func, name, args, kwargs, out, device, known)
        return out

    def _follow(self, func, name, args, kwargs, out, device, known):
        """Repeats the call on the CPU, if all that it was given is known, and notes what came of it."""
        made = [x for x in pytree.tree_leaves(out) if isinstance(x, torch.Tensor) and x.is_cuda]
        if func in _shapes and not known:
            args = tuple(self._shape(x) for x in args)
            known = True
        changes = _in_place(func) and args and isinstance(args[0], torch.Tensor) and args[0] in self.of
        if changes and not known:
            del self.of[args[0]]
            return
        pixels = func in _pixels and args and not isinstance(args[0], torch.nn.Parameter)
        small = self._countable if pixels else self._small
        if not known or any(word in name for word in _random) or not (made or changes) or not all(map(small, made)):
            return
        host = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and not x.is_cuda]
        host = [x for x in host if any(x.stride()) or not x.dim()]  # what is a shape alone has one element
        if not all(map(small, host)):
            return
        try:
            values = self._on_host(func, args, kwargs)
        except (RuntimeError, TypeError, IndexError, ValueError):
            return
        values = [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]
        if func is _tensor.__setitem__ or len(values) != len(made):
            return
        for x, value in zip(made, values):
            if x.shape == value.shape:
                self.of[x] = value.clone() if not device and any(value is h for h in host) else value

    def _shape(self, x):
        """A tensor of that shape on the host, where the values are not known."""
        if not isinstance(x, torch.Tensor) or not x.is_cuda or x in self.of:
            return x
        return torch.empty((), dtype=x.dtype).expand(x.shape)

    @staticmethod
    def _small(x):
        return x.numel() <= MOST_ELEMENTS[x.is_floating_point() or x.is_complex()]

    @staticmethod
    def _countable(x):
        return x.numel() <= MOST_ELEMENTS[False]

    def _host(self, x):
        if isinstance(x, torch.Tensor):
            return self.of[x] if x.is_cuda else x
        if isinstance(x, torch.device) or isinstance(x, str) and x.startswith("cuda"):
            return "cpu"
        return x

    def _on_host(self, func, args, kwargs):
        with torch.no_grad():
            args, kwargs = pytree.tree_map(self._host, (list(args), dict(kwargs)))
            return func(*args, **kwargs)

    def _number(self, x):
        whole = isinstance(x, torch.Tensor) and x.is_cuda and x.dim() == 0 and not x.is_floating_point() and x in self.of
        return int(self.of[x]) if whole else x

    def _numbers(self, func, args):
        """Sizes and bounds of slices as numbers, where they were given as tensors."""
        if func is not _tensor.__getitem__:
            first = _sized[func]
            return tuple(args[:first]) + tuple(pytree.tree_map(self._number, x) for x in args[first:])

        def bounds(i):
            return slice(self._number(i.start), self._number(i.stop), self._number(i.step)) if isinstance(i, slice) else i

        index = args[1]
        return args[0], tuple(map(bounds, index)) if isinstance(index, tuple) else bounds(index)

    def _tell(self, func, args, device):
        """Tells the driver the counts that the call will ask for, and remembers those that its backward will. Returns whether there
        are any: else what backward was told stays, through which layers run again."""
        told = False
        differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in device)
        if func in (_tensor.masked_scatter, torch.masked_scatter) and differentiated and args[2].requires_grad:
            self.again.append(self._count(args[1]))
        if func not in _counted or not device:
            return told
        index = args[0] if func in _searched else args[1]
        for i in index if isinstance(index, (tuple, list)) else [index]:
            if isinstance(i, torch.Tensor) and i.is_cuda and (i.dtype == torch.bool or func in _searched):
                self.driver.standin_push(self._count(i))
                told = True
                if differentiated and func is _tensor.__getitem__ and args[0].requires_grad:
                    self.again.append(self._count(i))
        return told

    def _count(self, mask):
        """How many entries are true: all of those of a mask that depends on weights."""
        if mask not in self.of:
            self.of[mask] = torch.ones(mask.shape, dtype=torch.bool)
        return int(torch.count_nonzero(self.of[mask]))


def entered():
    """The Values within which this thread runs."""
    return next(mode for mode in reversed(_get_current_function_mode_stack()) if isinstance(mode, Values))
