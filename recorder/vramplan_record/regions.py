"""Modules that stand in a program as a whole: linear layers, which an adapter may be put on, and what FSDP makes units of their own.

A line [ opens such a module and a line ] closes it. What lies between is what the module does by itself.
"""

import collections
import contextlib

import torch

from .program import DTYPES


# The roles of those that an adapter may be put on.
ADAPTABLE = "lch"


def roles(module):
    """what modules are, by name: l a linear layer, c transformers' Conv1D, h the head, e the input embedding, n the last norm"""
    found = {}
    for name, m in module.named_modules():
        if isinstance(m, torch.nn.Linear):
            found[name] = "l"
        elif type(m).__name__ == "Conv1D" and getattr(m, "nf", None):
            found[name] = "c"
    if not hasattr(module, "get_output_embeddings"):
        return found
    names = {id(m): n for n, m in module.named_modules()}
    try:
        embedding, head = module.get_input_embeddings(), module.get_output_embeddings()
    except (NotImplementedError, AttributeError):
        return found
    if names.get(id(embedding)):
        found[names[id(embedding)]] = "e"
    if names.get(id(head)) and isinstance(head, torch.nn.Linear):
        found[names[id(head)]] = "h"
        norm = last_norm(module)
        if names.get(id(norm)):
            found[names[id(norm)]] = "n"
    return found


@contextlib.contextmanager
def returning(module, roles):
    """linear layers that return the type that they are given, which those of bitsandbytes do whatever they compute in: bitsandbytes/nn/modules.py
    (Linear4bit.forward, Linear8bitLt.forward), 0.49. The head is none of them"""
    changed = [module.get_submodule(name) for name, role in roles.items() if role in "lc"]
    for m in changed:
        m.forward = lambda x, own=m.forward: own(x).to(x.dtype)
    try:
        yield
    finally:
        for m in changed:
            del m.forward


def last_norm(module):
    """the norm that accelerate puts beside the head: accelerate/utils/fsdp_utils.py (_find_final_norm), 1.15"""
    base = getattr(module, getattr(module, "base_model_prefix", "") or "", None)
    return next((m for m in reversed(list(base.children())) if "Norm" in type(m).__name__), None) if isinstance(base, torch.nn.Module) else None


def stacks(module):
    """names of the lists of two and more modules of one class that have modules of their own"""
    found = []
    for name, m in module.named_modules():
        own = list(m.children())
        if isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential)) and len(own) > 1 and len({type(x) for x in own}) == 1 and any(own[0].children()):
            found.append(name)
    return found


class Region:
    def __init__(self, name, role, given, gave):
        self.name, self.role, self.given, self.gave = name, role, given, gave


def regions(o, items):
    """(by the place of its first event, by that of its last) the modules with a role that stand by themselves in items"""
    first, last, behind = {}, {}, 0
    o.number = {n.seq: n.number for n in o.nodes}
    o.users = {}  # by the number of a node: those that it gets gradients from, and of which output
    for n in o.nodes:
        for k in n.edges:
            if k and k[0] == "node":
                o.users.setdefault(k[1].number, []).append((n.number, k[2]))
    for i, e in enumerate(items):
        if e[0] != "enter" or e[1] not in o.roles or i < behind:
            continue
        name = e[1]
        end = next((k for k in range(i, len(items)) if items[k][0] == "returns" and items[k][1] == name), None)
        given = next((x[2] for x in items[i:end] if x[0] == "given" and x[1] == name), None) if end else None
        if not given or not items[end][2] or o.roles[name] in ADAPTABLE and not alone(o, items, i, end, items[end][2][0]):
            continue
        region = Region(name, o.roles[name], given[0], items[end][2][0])
        first[i], last[end], behind = region, region, end
    return first, last


def alone(o, items, i, end, gave):
    """whether nothing outside of a module uses what was made in it but for its result, and nothing outside ends in it"""
    inside = items[i:end]
    born = {s for e in inside if e[0] == "op" for s in e[2]}
    freed = {e[1] for e in inside if e[0] == "free"}
    if gave[0] not in born or gave[0] in freed or freed - born or born - freed - {gave[0]} - o.casts:
        return False
    if o.evaluation:
        return sum(1 for e in inside if e[0] == "enter") == 1
    made = {e[1].number for e in inside if e[0] == "node"}
    if gave[1] is None:
        return False
    own = o.number.get(gave[1])
    if own is None or gave[2]:
        return False
    for m in made:
        if any(user not in made and not (m == own and k == 0) for user, k in o.users.get(m, ())):
            return False
    return own in made and sum(1 for e in inside if e[0] == "enter") == 1


def unadaptable(o, layers):
    """the linear layers that stand in the program as no whole, or not at all; of layers that repeat those of the first of each kind"""
    ran = collections.Counter(e[1] for e in o.events if e[0] == "enter")
    names = {n for n, role in o.roles.items() if role in ADAPTABLE and (not o.opened[n] or o.opened[n] < ran[n])}
    return {n for n in names if not layers.name or not n.startswith(layers.name + ".") or n.startswith(tuple(layers.within()))}


def stretches(program, layers=None):
    """(a dictionary, the key of a list of lines in it, what stands before the names of modules there) for each stretch of a program"""
    within = layers.within() if layers else [""] * (1 + len(program.get("others", ())))
    yield program, "before", ""
    for one, prefix in zip([program, *program.get("others", ())], within):
        yield one, "layer", prefix
    if "after" in program:
        yield program, "after", ""


def without(lines, names, prefix=""):
    """lines without those that stand around the modules of the given names"""
    kept, inside = [], False
    for line in lines:
        if line[0] == "[" and prefix + line.split(" ")[1] in names:
            inside = True
        elif line[0] == "]" and inside:
            inside = False
        else:
            kept.append(line)
    return kept


def opening(w, region, prefix):
    """the line that opens a region"""
    sid, made, k, shape, dtype = region.given
    edge = edge_to(w, made, k)
    if made is None and sid in w.o.parameters:
        edge = w.parameter(sid)
    name = region.name[len(prefix) :] if prefix and region.name.startswith(prefix) else region.name
    sid = w.o.weights.get(region.name)
    weight = w.parameter(sid) if sid in w.o.parameters else "-"
    if weight == "-" and region.role in ADAPTABLE:
        raise KeyError(region.name)
    if prefix and region.role in ADAPTABLE and not weight.startswith("l"):
        raise KeyError(region.name)
    return f"[ {name} {region.role} {w.value(region.given[0])} {edge} {w.symbols.size(shape)} {DTYPES[dtype]} {weight} {int(len(shape) == 2)}"


def closing(w, region):
    """the line that closes it"""
    sid, made, k, *_ = region.gave
    return f"] {w.value(sid)} {edge_to(w, made, k)}"


def edge_to(w, made, k):
    """the edge to output k of a node, if a gradient reaches it"""
    number = w.o.number.get(made)
    return "-" if number is None else w.edge(("node", w.o.nodes[number], k))


def adaptable(program):
    """the lines that open linear layers, without what differs from one mode to the other"""
    lines = (line.split(" ") for part, key, _ in stretches(program) for line in part.get(key, ()) if line[0] == "[")
    return [line[1:3] for line in lines if line[2] in ADAPTABLE]
