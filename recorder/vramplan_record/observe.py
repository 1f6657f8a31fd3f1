"""One forward and backward under fake tensors, written down as it happens.

What autograd saves is replaced by a token, so that a storage dies here when Python lets go of it; what backward reads is made anew
from the token. Every node of the graph is watched while it runs: what it allocates, frees and hands on is its backward.
"""

import contextlib
import copy
import gc
import weakref

import torch
from torch.utils._pytree import tree_leaves

from . import attention
from .sizes import Unexpressed
from .values import Values

aten = torch.ops.aten

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "_addmm_activation"}


# Losses that are computed element by element into their result, which stays as large, and reduced from a copy.
# Source: aten/src/ATen/native/BinaryOps.cpp (TORCH_META_FUNC(mse_loss)), cuda/Loss.cu (binary_cross_entropy_out_cuda), torch 2.9.
FULL = {"mse_loss", "smooth_l1_loss", "binary_cross_entropy"}


class Token:
    """what a node saved"""

    def __init__(self, tensor, sid):
        self.sid, self.tensor = sid, None
        self.like = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)
        self.scalar = tensor.device.type == "cpu"


class Node:
    def __init__(self, fn, number):
        self.fn, self.number, self.name = fn, number, fn.name()
        self.saved, self.acts, self.outs = [], [], []
        self.flows = []  # of its backward: what each operation reads and what it makes
        self.ran = False
        self.seq = fn._sequence_nr()


def wanted(node):
    """for whose gradients each storage of a node's backward is needed: {storage: edges}"""
    edges = {}
    for k, out in enumerate(node.outs):
        if out is not None and node.edges[k] is not None:
            edges.setdefault(out[0], set()).add(k)
    for reads, makes in reversed(node.flows):
        needed = set().union(*(edges.get(s, ()) for s in makes)) if makes else set()
        for s in reads:
            edges.setdefault(s, set()).update(needed)
    return edges


class Observer(Values):
    """events of the forward, and the backward of every node"""

    def __init__(self, cast=None, known=None):
        super().__init__(known)
        self.path = []  # the modules that run, outermost first
        self.cast = cast  # what autocast casts to
        self.events = []
        self.sids, self.keep = {}, {}
        self.count = 0
        self.parameters, self.quiet = {}, 0
        self.node = None
        self.phase = "forward"
        self.births = {}

    # Storages

    def sid(self, tensor, make=False):
        st = tensor.untyped_storage()
        key = st._cdata
        if key in self.sids:
            return self.sids[key]
        if not make:
            return None
        self.count += 1
        sid = self.count
        self.sids[key] = sid
        self.keep[sid] = weakref.ref(st, lambda _, key=key, sid=sid: self.died(key, sid))
        return sid

    def died(self, key, sid):
        if self.sids.get(key) == sid:
            del self.sids[key]
        self.keep.pop(sid, None)
        if self.phase == "forward":
            self.events.append(("free", sid))
        elif self.node is not None:
            self.node.acts.append(("free", sid))

    def own(self, tensor, name):
        """a parameter or buffer of the module"""
        sid = self.sid(tensor, make=True)
        self.parameters.setdefault(sid, name)
        return sid

    # Saved tensors

    def pack(self, tensor):
        sid = self.sid(tensor)
        token = Token(tensor, sid)
        if sid is None or tensor.device.type == "cpu":
            token.tensor = tensor
        token.known = self.known_of(tensor)
        if self.phase == "forward":
            self.events.append(("saved", sid))
        return token

    def unpack(self, token):
        if self.node is not None and token.sid is not None and token.sid not in self.parameters:
            self.node.saved.append(token.sid)
        if token.tensor is not None:
            return token.tensor
        shape, stride, dtype, device = token.like
        self.quiet += 1
        try:
            made = torch.empty_strided(shape, stride, dtype=dtype, device=device)
        finally:
            self.quiet -= 1
        key = made.untyped_storage()._cdata
        self.know(made, token.known)
        self.sids[key] = token.sid
        self.keep[("again", key, id(made))] = weakref.ref(
            made.untyped_storage(), lambda _, key=key: self.sids.pop(key, None))
        return made

    # Modules

    def enter(self, name):
        self.path.append(name)
        self.events.append(("enter", name))

    def leave(self, name):
        self.path.pop()
        self.events.append(("exit", name))

    # Operations

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.quiet or func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        out, chosen = self.run(func, args, kwargs, self.where())
        for indices in chosen:  # of the elements that a mask chooses
            self.happened("nonzero", func, (indices,), {}, indices)
        name = func._schema.name.split("::")[-1]
        self.happened(name, func, args, kwargs, out)
        return out

    def where(self):
        return f", in {self.path[-1]}" if self.path and self.path[-1] else ""

    def happened(self, name, func, args, kwargs, out):
        """writes an operation down with what it made"""
        born = []
        for x in tree_leaves(out):
            if not isinstance(x, torch.Tensor) or x.device.type != "cuda":
                continue
            if self.sid(x) is not None:
                continue
            sid = self.sid(x, make=True)
            self.births[sid] = (tuple(x.shape), x.untyped_storage().nbytes() // x.dtype.itemsize, x.dtype)
            born.append(sid)
        if name == "native_dropout":  # the mask first: aten/src/ATen/native/cuda/Dropout.cu, torch 2.9
            born.reverse()
        facts = self.facts(name, func, args, kwargs, out)
        event = ("op", name, born, facts, torch._C._autograd._get_sequence_nr())
        if self.phase == "forward":
            self.events.append(event)
        elif self.node is not None:
            self.node.flows.append((self.storages((args, kwargs)), self.storages(out) | self.written(func, args)))
            if born or facts:
                self.node.acts.append(event)

    def storages(self, tree):
        return {self.sid(x) for x in tree_leaves(tree) if isinstance(x, torch.Tensor)} - {None}

    def written(self, func, args):
        """what an operation writes in place"""
        found = set()
        for argument, given in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found |= self.storages(given)
        return found

    def facts(self, name, func, args, kwargs, out):
        """what the kernel's memory depends on beside its results"""
        tensors = [a for a in tree_leaves(args) if isinstance(a, torch.Tensor)]
        if name in PRODUCTS:
            return ("product", name == "addmm" and args[0].dim() == 1 and args[2].size(0) > 1 and args[2].size(1) > 1)
        if name in FULL and (args[2] if len(args) > 2 and name != "binary_cross_entropy" else kwargs.get("reduction", args[3] if len(args) > 3 else 1)):
            return ("loss", args[0].shape)
        if name == "embedding_dense_backward":
            return ("embedding", args[1].shape, args[2], args[0].shape[-1])
        if name in ("sum", "mean", "amax", "amin", "any", "all", "max", "min", "linalg_vector_norm", "prod", "var", "std", "var_mean") and tensors:
            x = tensors[0]
            y = next((o for o in tree_leaves(out) if isinstance(o, torch.Tensor)), None)
            dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple, int)) and not isinstance(args[1], bool) else kwargs.get("dim")
            return reduction(x, y, dims)
        if name == "_to_copy" and tensors:
            sid = self.sid(tensors[0])
            if self.phase == "forward" and sid in self.parameters and out.dtype == self.cast and tensors[0].requires_grad:
                return ("cast", sid)
        if name in attention.KERNELS:
            return attention.facts(self, name, args, kwargs)
        return None


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


def watch(observer, loss):
    """hooks on every node of the graph behind loss; the nodes in the order in which they were made"""
    seen, stack, nodes = {}, [loss.grad_fn], []
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen or hasattr(fn, "variable"):
            continue
        seen[fn] = Node(fn, 0)
        nodes.append(seen[fn])
        stack += [f for f, _ in fn.next_functions]
    nodes.sort(key=lambda n: n.seq)
    for i, n in enumerate(nodes):
        n.number = i
        n.edges = []
        for f, k in n.fn.next_functions:
            if f is None:
                n.edges.append(None)
            elif hasattr(f, "variable"):
                sid = observer.sid(f.variable)
                if sid not in observer.parameters:
                    raise Unexpressed(f"a tensor of shape {tuple(f.variable.shape)} that is no parameter wants a gradient of its own (requires_grad), "
                                      "as input to " + n.name)
                n.edges.append(("param", sid))
            else:
                n.edges.append(("node", seen[f], k))
    return nodes


def run_backward(o, nodes, loss):
    """autograd's engine: of the nodes that a gradient reached, the newest first

    The engine itself wants the device. Source of the order and of what is done to results: torch/csrc/autograd/engine.cpp
    (compareNodeTask, validate_outputs), torch 2.9.
    """
    arrived = {}

    def deliver(n, k, g):
        slots = arrived.setdefault(n.number, {})
        slots.setdefault(k, g)

    top = next(n for n in nodes if n.fn is loss.grad_fn)
    deliver(top, loss.output_nr, torch.ones_like(loss))
    for n in reversed(nodes):
        slots = arrived.pop(n.number, None)
        if slots is None:
            continue
        grads = [slots.get(k) for k in range(len(n.fn._input_metadata))]
        del slots
        n.ran, n.arrived = True, [o.sid(g) if g is not None else None for g in grads]
        o.node = n
        results = n.fn(*grads) if not hasattr(n.fn, "apply") else n.fn.apply(*grads)
        results = list(results) if isinstance(results, tuple) else [results]
        n.acts.append(("validate",))
        for k, e in enumerate(n.edges):
            if e is None or k >= len(results) or results[k] is None:
                n.outs.append(None)
                if k < len(results):
                    results[k] = None
                continue
            f, at = n.fn.next_functions[k]
            meta = f._input_metadata[at]
            if tuple(results[k].shape) != tuple(meta.shape):
                results[k] = results[k].sum_to_size(meta.shape)
            if results[k].dtype != meta.dtype:
                results[k] = results[k].to(meta.dtype)
            sid = o.sid(results[k], make=True)
            n.outs.append((sid, results[k]._is_view(), tuple(results[k].shape), results[k].dtype,
                           results[k].numel() * results[k].dtype.itemsize != results[k].untyped_storage().nbytes()))
        grads = None
        o.node = None
        for k, e in enumerate(n.edges):
            if e is not None and e[0] == "node" and results[k] is not None:
                deliver(e[1], e[2], results[k])
        del results


@contextlib.contextmanager
def autocast(dtype):
    """torch.autocast on a device that is not there"""
    if dtype is None:
        yield
        return
    was, kind = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    torch.autocast_increment_nesting()
    torch.set_autocast_cache_enabled(True)
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", was)
        torch.set_autocast_dtype("cuda", kind)


class Observation:
    """what one run showed"""

    def of_forward(self):
        """the same without backward: of what nodes save only which tensors, in the order in which they were saved"""
        view = copy.copy(self)
        view.nodes, view.backward = [copy.copy(n) for n in self.nodes], False
        for n in view.nodes:
            n.saved, n.acts, n.outs, n.ran = [], [], [], False
        return view


def observe(module, owned, batch, loss, cast, known=None, roles=None, backward=True):
    """module's forward on batch, loss of what it returns, and backward, unless that is left out; all are fake tensors on cuda. owned are its
    parameters and buffers by name, known the values of some tensors, roles what some of its modules are (modules.roles)."""
    o = Observer(cast, known)
    for name, p in owned.items():
        if p.device.type == "cuda":
            o.own(p, name)
    roles = roles or {}
    weights = {name: o.sid(module.get_submodule(name).weight) for name in roles if hasattr(module.get_submodule(name), "weight")}
    inputs = [t for t in tree_leaves(batch) if isinstance(t, torch.Tensor)]
    first = [o.sid(t, make=True) for t in inputs]
    shapes = [(tuple(t.shape), t.numel(), t.dtype) for t in inputs]
    handles = []
    for name, m in module.named_modules():
        handles.append(m.register_forward_pre_hook(lambda *_, name=name: o.enter(name)))
        handles.append(m.register_forward_hook(lambda *_, name=name: o.leave(name)))
    # Entering hooks come first and leaving hooks last, and what a layer is given and returns is noted by its storages.
    for name, m in module.named_modules():
        if not name:
            continue
        handles.append(m.register_forward_pre_hook(
            lambda m, a, k, name=name: o.events.append(("given", name, firsts(o, a, k))), with_kwargs=True))
        handles.append(m.register_forward_hook(
            lambda m, a, r, name=name: o.events.append(("returns", name, firsts(o, r if isinstance(r, (tuple, list)) else (r,), {})))))
    gc.collect()
    gc.disable()
    try:
        with attention.Choice(), o, torch.autograd.graph.saved_tensors_hooks(o.pack, o.unpack):
            with autocast(cast):
                out = module(*batch) if isinstance(batch, (tuple, list)) else module(**batch)
                value = loss(out, batch)
                held = [o.sid(t) for t in tree_leaves(unwrapped(out)) if isinstance(t, torch.Tensor)]
                o.events.append(("returned", held, o.sid(value)))
                del out
            nodes, root = watch(o, value), value.grad_fn
            o.events.append(("loss", o.sid(value), value.dtype))
            o.phase, asked = "backward", list(o.notes)
            if backward:
                with torch.no_grad():
                    run_backward(o, nodes, value)
    finally:
        gc.enable()
        for h in handles:
            h.remove()
    result = Observation()
    result.events, result.nodes, result.births = o.events, nodes, o.births
    result.parameters, result.batch, result.shapes = o.parameters, first, shapes
    result.root, result.notes, result.asked, result.backward = root, o.notes, asked, backward
    result.roles, result.weights = roles, weights
    result.casts = {e[2][0] for e in o.events if e[0] == "op" and e[3] and e[3][0] == "cast"}
    return result


def unwrapped(out):
    return list(out.values()) if isinstance(out, dict) else out


def firsts(o, args, kwargs):
    """(storage, node that made it, which of its outputs, shape, type) of the tensors that go into a module or come out"""
    found = []
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, torch.Tensor) and x.device.type == "cuda":
            found.append((o.sid(x), x.grad_fn, x.output_nr if x.grad_fn is not None else 0, tuple(x.shape), x.dtype))
    return found
