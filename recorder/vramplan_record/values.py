"""The values of small tensors that follow from the batch and from constants, computed beside the fake ones.

A fake tensor has no values. Masks, positions, stochastic depths and the like are computed for real on the CPU, storage by storage, so that
a module which branches on them runs as it would with this batch. What depends on weights has no value: of such a tensor only what is true of
every ordinary step is answered (nothing is infinite, no token is padding, experts get equal shares), and the answer is noted.
"""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from . import draws

aten = torch.ops.aten

# Values of larger tensors are not computed.
LIMIT = 1 << 19

FILLED = {"zeros_like": 0, "new_zeros": 0, "ones_like": 1, "new_ones": 1, "zero_": 0}
MADE = {"arange", "linspace", "logspace", "zeros", "ones", "full", "eye", "scalar_tensor", "tril_indices", "triu_indices"}
CHOICES = {"topk": 1, "sort": 1, "argmax": 0, "argsort": 0, "argmin": 0, "multinomial": 0}


class Unanswered(Exception):
    """a value that nobody knows was asked for"""


def key_of(tensor):
    return tensor.untyped_storage()._cdata


def usual(name, args, kwargs):
    """what is true of every number that is finite, of a question whether it is: isnan, and what isfinite and isinf are made of; None of others

    Source: aten/src/ATen/native/TensorCompare.cpp (isfinite, isinf), torch 2.9.
    """
    if name in ("isnan", "isinf", "isposinf", "isneginf"):
        return False
    if name in ("eq", "ne") and len(args) > 1:
        same = args[0] is args[1]
        infinite = isinstance(args[1], float) and args[1] in (float("inf"), float("-inf"))
        if same or infinite:
            return (name == "eq") == same
    return None


class Values(TorchDispatchMode):
    """follows values; what a tensor was asked is answered from them"""

    def __init__(self, known=None):
        super().__init__()
        known = known or self
        if known is self:
            self.flat = {}  # by storage: its elements
            self.classes = {}  # by storage: of how many choices its elements are one, or mark one
            self.guessed = {}  # by storage: why its value is no more than likely
            self.kept, self.notes = {}, []
        else:  # goes on from there
            self.flat, self.classes, self.guessed = known.flat, known.classes, known.guessed
            self.kept, self.notes = known.kept, known.notes
        # How many were drawn; of counts that draws chose what they are, what share and of which shape; shares that are known from another run.
        self.draws, self.shares, self.shares_before = 0, [], ()

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    # Reading and writing

    def value(self, tensor):
        """the tensor's value on the CPU, or None"""
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            return None
        if not hasattr(tensor, "fake_mode"):
            return tensor if tensor.device.type == "cpu" and tensor.numel() <= LIMIT else None
        constant = getattr(tensor, "constant", None)
        if constant is not None:
            return constant
        flat = self.flat.get(key_of(tensor))
        if flat is None or flat.dtype != tensor.dtype:
            return None
        return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def forget(self, tensor):
        key = key_of(tensor)
        for table in (self.flat, self.classes, self.guessed):
            table.pop(key, None)

    def gone(self, key):
        for table in (self.flat, self.classes, self.guessed, self.kept):
            table.pop(key, None)

    def remember(self, tensor, value, guessed=None):
        """tensor, which is fake, has the given value"""
        if not hasattr(tensor, "fake_mode") or tensor.numel() > LIMIT or tensor.dtype.is_complex or tensor.layout is not torch.strided:
            return
        key = key_of(tensor)
        self.watch(tensor, key)
        flat = torch.zeros(tensor.untyped_storage().nbytes() // tensor.dtype.itemsize, dtype=tensor.dtype)
        flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(value)
        self.flat[key] = flat
        if guessed:
            self.guessed[key] = guessed

    def known_of(self, tensor):
        """what is known of a tensor's storage, for know to say of another one"""
        key = key_of(tensor)
        return self.flat.get(key), self.classes.get(key), self.guessed.get(key)

    def know(self, tensor, known):
        key = key_of(tensor)
        for table, x in zip((self.flat, self.classes, self.guessed), known):
            if x is not None:
                self.watch(tensor, key)
                table[key] = x

    def watch(self, tensor, key):
        if key not in self.kept:
            self.kept[key] = weakref.ref(tensor.untyped_storage(), lambda _, key=key: self.gone(key))

    # Following an operation

    def follow(self, func, args, kwargs, out):
        name = func._schema.name.split("::")[-1]
        fresh = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor) and hasattr(x, "fake_mode")]
        if not fresh or max(x.numel() for x in fresh) > LIMIT and not self.classes:
            self.changed(func, args)
            return
        first = fresh[0]
        with _disable_current_modes():
            if name in draws.KINDS:
                self.draw(func, name, args, kwargs, first)
                return
            if name in FILLED or name in ("full_like", "new_full", "fill_"):
                number = FILLED.get(name, args[-1] if args else 0)
                if not isinstance(number, (int, float, bool)):
                    number = self.value(number)
                whole, had = first.numel() * first.dtype.itemsize == first.untyped_storage().nbytes(), self.value(first)
                if number is not None and whole and first.numel() <= LIMIT:
                    self.remember(first, torch.full((), 0).to(first.dtype).fill_(number).expand(first.shape))
                elif number is not None and had is not None:  # a part of what is known
                    had.fill_(number)
                else:
                    self.changed(func, args)
                return
            tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
            if not tensors and name not in MADE:
                return
            chosen = next((self.classes[key_of(t)] for t in tensors if hasattr(t, "fake_mode") and key_of(t) in self.classes), None)
            if chosen and self.counted(name, args, kwargs, tensors, first, chosen):
                return
            known = [self.value(t) for t in tensors]
            if any(v is None for v in known):
                self.unknown(func, name, args, kwargs, tensors, fresh, chosen)
                return
            guessed = next((self.guessed[key_of(t)] for t in tensors if hasattr(t, "fake_mode") and key_of(t) in self.guessed), None)
            mutable = func._schema.is_mutable
            if not mutable and all(hasattr(t, "fake_mode") and key_of(t) in self.flat for t in fresh):
                return  # views
            if sum(v.numel() for v in known) > 4 * LIMIT:
                return
            self.compute(func, args, kwargs, fresh, guessed, mutable)

    def draw(self, func, name, args, kwargs, first):
        """a random draw, of which every element has its value on average"""
        self.draws += 1
        whole = first.numel() * first.dtype.itemsize == first.untyped_storage().nbytes()
        value = draws.drawn(name, args, kwargs, first.shape, torch.float64, self.draws) if whole and first.numel() <= LIMIT else None
        if value is not None and draws.KINDS[name] == draws.EITHER:
            given = args[0] if name == "bernoulli" else args[1] if len(args) > 1 else kwargs.get("p", 0.5)
            if isinstance(given, torch.Tensor):
                given = self.value(given)
            value = None if given is None else value < given
        if value is None:
            self.changed(func, args)
            return
        self.remember(first, value.to(first.dtype), draws.GUESS if first.numel() > 1 else None)

    def compute(self, func, args, kwargs, fresh, guessed, mutable):
        def real(x):
            if isinstance(x, torch.Tensor):
                return self.value(x)
            return torch.device("cpu") if isinstance(x, torch.device) else x

        try:
            result = func(*tree_map(real, args), **tree_map(real, {k: v for k, v in kwargs.items() if k != "pin_memory"}))
        except (RuntimeError, NotImplementedError, TypeError, IndexError):
            self.changed(func, args)
            return
        if mutable:
            return
        results = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        for x, r in zip(fresh, results):
            if x.shape == r.shape and key_of(x) not in self.flat:
                self.remember(x, r, guessed)

    def changed(self, func, args):
        """what an operation writes to in place is not known any more"""
        for argument, given in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for t in tree_leaves(given):
                    if isinstance(t, torch.Tensor) and hasattr(t, "fake_mode"):
                        self.forget(t)

    def unknown(self, func, name, args, kwargs, tensors, fresh, chosen):
        """an operation on a tensor whose value depends on weights"""
        if name == "copy_" and self.value(args[1]) is not None and args[0].numel() <= LIMIT:
            v = self.value(args[1])
            if args[0].numel() * args[0].dtype.itemsize == args[0].untyped_storage().nbytes():
                self.remember(args[0], v.expand(args[0].shape))
                return
        self.changed(func, args)
        finite = usual(name, args, kwargs)
        if finite is not None and fresh[0].dtype == torch.bool:
            self.remember(fresh[0], torch.full(fresh[0].shape, finite), "numbers that depend on weights were taken to be finite")
            return
        if name in ("all", "any") and fresh[0].dtype == torch.bool:
            self.remember(fresh[0], torch.full(fresh[0].shape, name == "all"), f"{name}() of a tensor that depends on weights was answered with {'yes' if name == 'all' else 'no'}")
            return
        if name in CHOICES and tensors:
            dim = {"topk": args[2] if len(args) > 2 else -1, "multinomial": -1}.get(name, args[1] if len(args) > 1 and isinstance(args[1], int) else -1)
            indices = fresh[min(CHOICES[name], len(fresh) - 1)]
            if tensors[0].dim() and dim is not None:
                self.choose(indices, tensors[0].shape[dim])
            return
        if chosen:
            for x in fresh:
                if not x.is_floating_point():
                    self.choose(x, chosen)

    def choose(self, tensor, count):
        key = key_of(tensor)
        self.watch(tensor, key)
        self.classes[key] = count

    def counted(self, name, args, kwargs, tensors, first, chosen):
        """how many are of each choice: as many of one as of another"""
        x = tensors[0]
        if name == "bincount":
            total = x.numel()
        elif name == "histc":
            total = x.numel()
        elif name == "sum" and first.numel() and x.numel() > first.numel():
            total = x.numel() // chosen
        else:
            return False
        n = first.numel()
        shares = torch.full((n,), total // n, dtype=torch.int64)
        shares[: total % n] += 1
        self.remember(first, shares.to(first.dtype).reshape(first.shape))
        self.share(chosen)
        return True

    def share(self, count):
        self.note(f"which of {count} is chosen depends on weights: all get equal shares")

    # Questions

    def answer(self, tensor, where):
        """the one element of tensor"""
        value = self.value(tensor)
        if value is not None:
            why = self.guessed.get(key_of(tensor)) if hasattr(tensor, "fake_mode") else None
            if why == draws.GUESS:
                self.note(f"a number that random draws decide was asked for, and answered as they are on average{where}")
            elif why:
                self.note(f"{why}{where}")
            return value.reshape(-1)[0].item()
        if tensor.is_floating_point():
            self.note(f"a number that depends on weights was asked for, and 1.0 was answered{where}")
            return 1.0
        raise Unanswered(f"the module asks for the value of a tensor that depends on weights{where}: such a branch has no one recording")

    def rows(self, mask, where):
        """how many elements of mask are true, and which, as far as that is known"""
        value = self.value(mask)
        if value is not None:
            found = value.nonzero()
            n = found.shape[0]
            if hasattr(mask, "fake_mode") and self.guessed.get(key_of(mask)) == draws.GUESS:
                self.note(draws.GUESS + where)
                k = len(self.shares)
                share = self.shares_before[k][1] if k < len(self.shares_before) else draws.share(n, mask.numel())
                n = round(share * mask.numel())
                self.shares.append((n, share, tuple(mask.shape)))
                found = found[:n] if n <= found.shape[0] else torch.cat([found, found.new_zeros(n - found.shape[0], found.shape[1])])
            return n, found
        share = self.classes.get(key_of(mask))
        if share is None:
            raise Unanswered(f"how much is chosen depends on weights{where}: the size of what follows is in no recording")
        self.share(share)
        return -(-mask.numel() // share), None

    def dynamic(self, func, args, kwargs, where):
        """the operations whose results are as large as values say; NotImplemented for any other"""
        name = func._schema.name.split("::")[-1]
        if name == "_local_scalar_dense":
            with _disable_current_modes():
                return self.answer(args[0], where)
        if name == "equal":
            a, b = (self.value(x) for x in args[:2])
            if a is None or b is None:
                raise Unanswered(f"the module compares tensors that depend on weights{where}")
            with _disable_current_modes():
                return torch.equal(a, b)
        if name == "embedding":
            with _disable_current_modes():
                v = self.value(args[1])
                last = int(v.max()) if v is not None and v.numel() and key_of(args[1]) not in self.guessed else -1
            if last >= args[0].shape[0]:
                raise IndexError(f"row {last} of an embedding of {args[0].shape[0]} rows is asked for{where}")
            return NotImplemented
        if name == "nonzero":
            with _disable_current_modes():
                n, found = self.rows(args[0], where)
            out = torch.empty((n, args[0].dim()), dtype=torch.int64, device=args[0].device)
            if found is not None:
                with _disable_current_modes():
                    self.remember(out, found)
            return out
        if name == "masked_select":
            with _disable_current_modes():
                n, _ = self.rows(args[1], where)
            return torch.empty((n,), dtype=args[0].dtype, device=args[0].device)
        if name == "repeat_interleave" and len(args) == 1:
            v = self.value(args[0])
            if v is None:
                raise Unanswered(f"how often something is repeated depends on weights{where}")
            with _disable_current_modes():
                r = torch.repeat_interleave(v)
            out = torch.empty(r.shape, dtype=r.dtype, device=args[0].device)
            with _disable_current_modes():
                self.remember(out, r)
            return out
        if name in ("_unique2", "unique_dim", "unique_consecutive"):
            v = self.value(args[0])
            if v is None:
                raise Unanswered(f"the number of different values depends on weights{where}")
            with _disable_current_modes():
                found = func(v, *args[1:], **kwargs)
            outs = tuple(torch.empty(f.shape, dtype=f.dtype, device=args[0].device) for f in found)
            with _disable_current_modes():
                for o, f in zip(outs, found):
                    self.remember(o, f)
            return outs
        if name == "_ctc_loss":  # whose second result is as large as the longest target
            longest = args[3]
            if isinstance(longest, torch.Tensor):
                with _disable_current_modes():
                    v = self.value(longest)
                    if v is None:
                        raise Unanswered(f"how long sequences are depends on weights{where}")
                    longest = v.tolist()
            t, b, _ = args[0].shape
            return args[0].new_empty((b,)), args[0].new_empty((b, t, 2 * max(longest, default=0) + 1))
        if name == "_ctc_loss_backward":
            return args[1].new_empty(args[1].shape)
        if name == "bincount":
            n = max(self.classes.get(key_of(args[0]), 0), args[2] if len(args) > 2 else kwargs.get("minlength", 0))
            v = self.value(args[0])
            if v is not None and v.numel():
                n = max(n, int(v.max()) + 1)
            if not n:
                raise Unanswered(f"the number of bins depends on weights{where}")
            return torch.empty((n,), dtype=torch.int64, device=args[0].device)
        return NotImplemented

    def masks(self, func, args, where):
        """x[mask], x[mask] = y: masks become the indices of what they choose, as the kernel has it; the arguments and what was made"""
        name = func._schema.name.split("::")[-1]
        if name not in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"):
            return args, []
        indices, made = [], []
        for i in args[1]:
            if isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8):
                with _disable_current_modes():
                    n, found = self.rows(i, where)
                out = torch.empty((n, i.dim()), dtype=torch.int64, device=i.device)
                if found is not None:
                    with _disable_current_modes():
                        self.remember(out, found)
                made.append(out)
                indices += list(out.unbind(1))
            else:
                indices.append(i)
        return (args[0], indices, *args[2:]) if made else args, made

    def run(self, func, args, kwargs, where=""):
        """the operation's result, and the indices that masks were turned into for it"""
        out = self.dynamic(func, args, kwargs, where)
        if out is not NotImplemented:
            return out, []
        args, made = self.masks(func, args, where)
        out = func(*args, **kwargs)
        self.follow(func, args, kwargs, out)
        return out, made

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})[0]
