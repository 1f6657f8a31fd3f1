"""Autograd's graph behind a loss, and its backward node by node."""

import torch

from .sizes import Unexpressed

aten = torch.ops.aten

# What a formula of autograd does in place unless one of its tensors is of a subclass, as fake ones are.
# Source: torch/csrc/autograd/FunctionsManual.cpp (areAnyTensorSubclassLike), torch 2.9.
IN_PLACE = {aten.index_put.default: aten.index_put_.default, aten.index_add.default: aten.index_add_.default,
            aten.scatter_add.default: aten.scatter_add_.default, aten.scatter.src: aten.scatter_.src,
            aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar}


# The same of single nodes: FunctionsManual.cpp (scatter_reduce_backward and index_reduce_backward, which do none of it in place,
# binary_cross_entropy_with_logits_backward).
IN_PLACE_OF = {"ScatterReduceBackward0": {}, "IndexReduceBackward0": {},
               "BinaryCrossEntropyWithLogitsBackward0": {aten.sub.Tensor: aten.sub_.Tensor, aten.mul.Tensor: aten.mul_.Tensor}}


class Node:
    def __init__(self, fn, number):
        self.fn, self.number, self.name = fn, number, fn.name()
        self.saved, self.acts, self.outs = [], [], []
        self.flows = []  # of its backward: what each operation reads and what it makes
        self.ran = False
        self.seq = fn._sequence_nr()
        self.in_place = IN_PLACE_OF.get(self.name, IN_PLACE)

    def made(self, sid):
        """whether its backward made a storage"""
        return any(act[0] == "op" and sid in act[2] for act in self.acts)


class Leaf:
    """a tensor that is no parameter and wants a gradient of its own"""

    def __init__(self, sid, shape, dtype):
        self.sid, self.shape, self.dtype = sid, shape, dtype


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


def watch(observer, loss):
    """hooks on every node of the graph behind loss; the nodes in the order in which they were made"""
    seen, stack, nodes, leaves = {}, [loss.grad_fn], [], {}
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
                x = f.variable
                sid = observer.sid(x)
                if sid in observer.parameters:
                    n.edges.append(("param", sid))
                elif sid is None:
                    raise Unexpressed(f"a tensor of shape {tuple(x.shape)} that is neither parameter nor made by the forward wants a gradient of its own "
                                      "(requires_grad), as input to " + n.name)
                else:
                    n.edges.append(("leaf", leaves.setdefault(f, Leaf(sid, tuple(x.shape), x.dtype)), 0))
            else:
                n.edges.append(("node", seen[f], k))
    return nodes


def of_tensors(fn, results):
    """of what a custom function's backward returned, that of its tensors: for whatever else its forward was given it returns None, which has no
    edge"""
    wanted = iter([r for r, needed in zip(results, fn.needs_input_grad) if needed])
    return [next(wanted) if f is not None else None for f, _ in fn.next_functions]


def products(fn, grad):
    """a cumulative product's backward where no number is zero, which a card is asked; a fake tensor's is another formula

    Source: torch/csrc/autograd/FunctionsManual.cpp (cumprod_backward), torch 2.9.
    """
    x, dim = fn._saved_self, fn._saved_dim
    dim -= (dim >> 63) << 64  # a number without a sign
    w = fn._saved_result * grad
    (x == 0).any()
    w = w.flip(dim).cumsum(dim).flip(dim)
    return w.div(x)


# Nodes whose formula is another one for tensors of a subclass.
FORMULAS = {"CumprodBackward0": products}


def dense(x):
    """whether the elements of x lie side by side, in whatever order of its dimensions"""
    along = 1
    for stride, size in sorted((stride, size) for stride, size in zip(x.stride(), x.shape) if size != 1):
        if stride != along:
            return False
        along *= size
    return True


def added(o, one, other):
    """one with other added to it: in place where it lies densely, else a new tensor, which stands for the first

    Source: torch/csrc/autograd/input_buffer.cpp (accumulate, can_accumulate_inplace), torch 2.9.
    """
    if dense(one):
        return one
    return o.standing_for(o.sid(one), lambda: one + other)


def run_backward(o, nodes, loss):
    """autograd's engine: of the nodes that a gradient reached, the newest first

    The engine itself wants the device. Source of the order and of what is done to results: torch/csrc/autograd/engine.cpp
    (compareNodeTask, validate_outputs), torch 2.9.
    """
    arrived = {}

    def deliver(n, k, g):
        slots = arrived.setdefault(n.number, {})
        slots[k] = added(o, slots[k], g) if k in slots else g

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
        if n.name in FORMULAS:
            results = FORMULAS[n.name](n.fn, *grads)
        else:
            results = n.fn(*grads) if not hasattr(n.fn, "apply") else n.fn.apply(*grads)
        passed = {id(g) for g in grads if g is not None}  # a view as much as what arrives is one
        results = list(results) if isinstance(results, tuple) else [results]
        if hasattr(n.fn, "needs_input_grad"):
            results = of_tensors(n.fn, results)
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
            n.outs.append((sid, results[k]._is_view() and id(results[k]) not in passed, tuple(results[k].shape), results[k].dtype,
                           results[k].numel() * results[k].dtype.itemsize != results[k].untyped_storage().nbytes()))
        grads = passed = None
        o.node = None
        for k, e in enumerate(n.edges):
            if e is not None and e[0] == "node" and results[k] is not None:
                deliver(e[1], e[2], results[k])
        del results
