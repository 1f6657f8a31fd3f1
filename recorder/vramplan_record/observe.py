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

from . import attention, breaks, checkpoints, kernels, patches, recurrent
from .engine import run_backward, watch
from .values import Values

PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "_addmm_activation"}


# Losses that are computed element by element into their result, which stays as large, and reduced from a copy.
# Source: aten/src/ATen/native/BinaryOps.cpp (TORCH_META_FUNC(mse_loss)), cuda/Loss.cu (binary_cross_entropy_out_cuda), torch 2.9.
FULL = {"mse_loss", "smooth_l1_loss", "binary_cross_entropy"}


class TooMany(Exception):
    """a run has more events than it was waited for"""


class Token:
    """what a node saved"""

    def __init__(self, tensor, sid):
        self.sid, self.tensor = sid, None
        self.like = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)
        self.scalar = tensor.device.type == "cpu"


class Observer(Values):
    """events of the forward, and the backward of every node"""

    def __init__(self, cast=None, known=None, evaluation=False, most=None, shares=()):
        super().__init__(known)
        self.most = most  # how many events it waits for
        self.shares_before = shares
        self.path = []  # the modules that run, outermost first
        self.cast, self.evaluation = cast, evaluation  # what autocast casts to; whether nothing has a graph
        self.events = []
        self.sids, self.keep = {}, {}
        self.count = 0
        self.parameters, self.trained, self.quiet = {}, set(), 0
        self.node = None
        self.phase = "forward"
        self.births, self.attended = {}, {}  # attended: of what attention returned the shape of its queries
        self.tokens, self.saves = {}, 0

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
        if tensor.requires_grad:
            self.trained.add(sid)
        return sid

    # Saved tensors

    def pack(self, tensor):
        sid = self.sid(tensor)
        token = Token(tensor, sid)
        if sid is None or tensor.device.type == "cpu":
            token.tensor = tensor
        token.known = self.known_of(tensor)
        if self.phase == "forward":
            self.saves += 1
            self.events.append(("saved", sid, self.saves))
            self.tokens[self.saves] = weakref.ref(token, lambda _, number=self.saves, sid=sid: self.unsaved(number, sid))
        return token

    def unsaved(self, number, sid):
        """a graph that is not behind the loss has gone, and with it what one of its nodes saved"""
        del self.tokens[number]
        if self.phase == "forward":
            self.events.append(("unsaved", sid, number))

    def unpack(self, token):
        if self.node is not None and token.sid is not None and token.sid not in self.parameters:
            self.node.saved.append(token.sid)
        if token.tensor is not None:
            return token.tensor
        shape, stride, dtype, device = token.like
        made = self.standing_for(token.sid, lambda: torch.empty_strided(shape, stride, dtype=dtype, device=device))
        self.know(made, token.known)
        return made

    def standing_for(self, sid, make):
        """a tensor that is made unseen, for another one of that storage"""
        self.quiet += 1
        try:
            made = make()
        finally:
            self.quiet -= 1
        key = made.untyped_storage()._cdata
        self.sids[key] = sid
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
        if self.node is not None and func in self.node.in_place and self.node.made(self.sid(args[0])):
            func = self.node.in_place[func]
        in_place = attention.WrittenOut.depth and func is torch.ops.aten.add.Tensor and self.sid(args[0]) in self.births
        out, chosen = self.run(torch.ops.aten.add_.Tensor if in_place else func, args, kwargs, self.where())
        if in_place:
            out = torch.ops.aten.alias.default(out)
        for indices in chosen:  # of the elements that a mask chooses
            self.happened("nonzero", func, (indices,), {}, indices)
        name = func._schema.name.split("::")[-1]
        out = kernels.lying(name, args, out)
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
        if self.most and len(self.events) > self.most:
            raise TooMany(len(self.events))
        self.workspaces(name, args)
        facts = self.facts(name, func, args, kwargs, out)
        if facts and facts[0] == "attention" and facts[9]:
            self.attended[born[0]] = facts[5]
        number = torch._C._autograd._get_sequence_nr()
        event = ("op", name, born, facts, number)
        events, aside = self.around(name, args, out, event)
        by_index = kernels.sorted_by(name, args)
        if by_index:
            before, after = self.sorting(by_index, number)
            aside = [e[2][0] for e in before if e[0] == "op" and e[2]]
            events = [*before, event, *after]
        if self.phase == "forward":
            if self.evaluation and born and not (facts and facts[0] == "cast"):
                read = [self.sid(x) for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
                self.events += [("use", sid) for sid in dict.fromkeys(read) if sid in self.trained]
            self.events += events
        elif self.node is not None:
            makes = self.storages(out) | self.written(func, args)
            self.node.flows.append((self.storages((args, kwargs)) | set(aside), makes))
            self.node.acts += [e for e in events if e[0] == "free" or e[2] or e[3]]

    def workspaces(self, name, args):
        """notes what takes a workspace of a library that no figure has"""
        if name == "convolution":
            self.note("convolutions: the workspaces that cuDNN chooses are in no figure")
            if args[8] > 1 and args[8] == args[0].shape[1]:
                self.note("depthwise convolutions: which kernel runs, and what it takes, depends on the batch and on the pictures' size")
        elif name.startswith("_fft"):
            self.note("Fourier transforms: cuFFT's work areas are in no figure")

    def around(self, name, args, out, event):
        """the events of an operation, with what its kernel allocates beside the results, and the latter"""
        steps = kernels.steps(name, args, out)
        if not steps:
            return [event], []
        _, _, born, facts, number = event
        results = [self.sid(x) if isinstance(x, torch.Tensor) else None for x in (out if isinstance(out, (tuple, list)) else (out,))]
        events, aside, told, product = [], {}, set(), facts and facts[0] == "product"
        for kind, *what in steps:
            if kind == "made":
                sid = results[what[0]]
                if sid in born and sid not in told:
                    told.add(sid)
                    events.append(("op", name, [sid], None if product else facts, number))
            elif kind == "alloc":
                aside[what[0]] = self.aside(*what[2:])
                events.append(("op", what[1], [aside[what[0]]], None, number))
            elif kind == "free":
                events.append(("free", aside[what[0]]))
            elif product:
                events.append(("op", name, [], facts, number))
        return events, list(aside.values())

    def aside(self, shape, dtype):
        """a tensor that only a kernel sees"""
        self.count += 1
        n = 1
        for d in shape:
            n *= d
        self.births[self.count] = (shape, n, dtype)
        return self.count

    def sorting(self, by_index, number):
        """what an addition by indices does around itself, one event after the other, and what it lets go of"""
        shape, rows, copied = by_index
        index, other, first, second, third = (self.aside(shape, torch.int64) for _ in range(5))
        made = [index, other]
        events = [("op", "clone", [sid], None, number) for sid in made] + [("free", other)]
        for sid in ([self.aside(*copied)] if copied else []) + [first, second, third]:
            events.append(("op", "clone", [sid], None, number))
        events.append(("op", "sort", [], ("sort", shape, rows), number))
        kept = [e[2][0] for e in events if e[0] == "op" and e[2] and e[2][0] != other]
        return events, [("free", sid) for sid in reversed(kept)]

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
            return ("embedding", args[1].shape, (args[2],), args[0].shape[-1])
        if name in ("binary_cross_entropy_with_logits", "huber_loss") and not out.dim():
            return kernels.reduction(tensors[0], out, None)
        if name in ("sum", "mean", "amax", "amin", "any", "all", "max", "min", "linalg_vector_norm", "prod", "var", "std", "var_mean") and tensors:
            x = tensors[0]
            y = next((o for o in tree_leaves(out) if isinstance(o, torch.Tensor)), None)
            dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple, int)) and not isinstance(args[1], bool) else kwargs.get("dim")
            return kernels.reduction(x, y, dims)
        if name == "_to_copy" and tensors:
            sid = self.sid(tensors[0])
            if self.phase == "forward" and sid in self.parameters and out.dtype == self.cast and tensors[0].requires_grad:
                return ("cast", sid)
        if name in attention.KERNELS:
            return attention.facts(self, name, args, kwargs)
        if name.removesuffix("_backward") in attention.KERNELS:
            return attention.copies(name, args)
        if name == "clone" and self.phase == "forward":
            return attention.copied(self, args[0])
        return None


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


def observe(module, owned, batch, loss, cast, known=None, roles=None, backward=True, evaluation=False, most=None, shares=()):
    """module's forward on batch, loss of what it returns, and backward, unless that is left out; all are fake tensors on cuda. owned are its
    parameters and buffers by name, known the values of some tensors, roles what some of its modules are (modules.roles). An evaluation has no
    graph. Beyond most events it ends with TooMany; shares are those that draws chose in another run."""
    o = Observer(cast, known, evaluation, most, shares)
    for name, p in owned.items():
        if p.device.type == "cuda":
            o.own(p, name)
    recurrence = recurrent.note(module)
    if recurrence:
        o.note(recurrence)
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
    checkpoints.SEEN.append(o.events)
    patches.COMPILED.append(lambda: o.note(patches.NOTE + o.where()))
    try:
        without = torch.no_grad() if evaluation else contextlib.nullcontext()
        with attention.Choice(), o, torch.autograd.graph.saved_tensors_hooks(o.pack, o.unpack), without:
            with autocast(cast):
                logged = []
                with breaks.noted(lambda: logged.append(len(o.events))):
                    out = module(*batch) if isinstance(batch, (tuple, list)) else module(**batch)
                made = len(o.events)
                value = loss(out, batch)
                broken = breaks.told(o.events, logged, made, PRODUCTS | set(attention.KERNELS))
                held = [o.sid(t) for t in tree_leaves(unwrapped(out)) if isinstance(t, torch.Tensor)]
                o.events.append(("returned", held, o.sid(value)))
                del out
            nodes, root = [] if evaluation else watch(o, value), value.grad_fn
            o.events.append(("loss", o.sid(value), value.dtype))
            o.phase, asked = "backward", list(o.notes)
            if backward and not evaluation:
                with torch.no_grad():
                    run_backward(o, nodes, value)
    finally:
        gc.enable()
        checkpoints.SEEN.pop()
        patches.COMPILED.pop()
        for h in handles:
            h.remove()
    result = Observation()
    result.events, result.nodes, result.births = o.events, nodes, o.births
    result.parameters, result.batch, result.shapes = o.parameters, first, shapes
    result.root, result.notes, result.asked, result.backward = root, o.notes, asked, backward and not evaluation
    result.evaluation, result.trained, result.breaks = evaluation, o.trained, broken
    result.roles, result.weights, result.shares = roles, weights, o.shares
    held_beside(o.events)
    freed = freed_in_forward(o.events)
    # Autocast keeps its copies to the end: one that dies before was made by the module itself.
    o.events[:] = [(*e[:3], None, e[4]) if e[0] == "op" and e[3] and e[3][0] == "cast" and e[2][0] in freed else e for e in o.events]
    result.casts = {e[2][0] for e in o.events if e[0] == "op" and e[3] and e[3][0] == "cast"}
    return result


def held_beside(events):
    """moves what lets go of a storage behind the end of the last graph in the forward that saved it, beside the graph of the loss"""
    ends = {e[2]: i for i, e in enumerate(events) if e[0] == "unsaved"}
    last, later, moved = {}, {}, []
    for i, e in enumerate(events):
        if e[0] == "saved" and e[2] in ends:
            last[e[1]] = max(last.get(e[1], 0), ends[e[2]])
        elif e[0] == "free" and last.get(e[1], 0) > i:
            later.setdefault(last[e[1]], []).append(e)
            moved.append(i)
    if not ends:
        return
    gone = set(moved)
    events[:] = [x for i, e in enumerate(events) if i not in gone for x in (e, *later.get(i, ())) if x[0] != "unsaved"]


def freed_in_forward(events):
    """what dies before the forward returns"""
    end = next(i for i, e in enumerate(events) if e[0] == "returned")
    return {e[1] for e in events[:end] if e[0] == "free"}


def unwrapped(out):
    return list(out.values()) if isinstance(out, dict) else out


def firsts(o, args, kwargs):
    """(storage, sequence number of the node that made it, which of its outputs, shape, type) of the tensors that go into a module or come out; the node
    itself would keep its graph"""
    found = []
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, torch.Tensor) and x.device.type == "cuda":
            made = x.grad_fn
            found.append((o.sid(x), None if made is None else made._sequence_nr(), 0 if made is None else x.output_nr, tuple(x.shape), x.dtype))
    return found
