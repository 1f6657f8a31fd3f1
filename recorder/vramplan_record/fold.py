"""A program of three stretches: what comes before the layers that repeat, one of these layers, what comes after them."""

import collections
import re

from . import checkpoints, regions
from .program import Sequence, Writer


class Unfolded(Exception):
    """why the layers do not repeat"""


def fold(o, symbols, names, folding=True):
    """{"before", "layer", "after", …} of an observation; without layers everything stands in before. names are those of all parameters and
    buffers in the order in which they are moved."""
    items = Sequence(o).items
    o.regions, o.opened = regions.regions(o, items), collections.Counter()
    why = "no modules of a list run one after the other" if folding else "the layers that repeat differ from one precision to another"
    for prefix, count in stacks(items) if folding else ():
        try:
            made = folded(o, symbols, names, items, prefix, count)
            made["checkpoints"] = checkpoints.of_layers(items, prefix, count)
            return made, prefix, count, None
        except (Unfolded, KeyError) as e:
            why = f"{prefix}: {e}"
    checkpoints.of_layers(items, None, 0)
    params = {sid: names.index(name) for sid, name in o.parameters.items()}
    w = Writer(o, symbols, params)
    end, last = {}, returned(items)
    outputs, loss = write(w, items, last, keep=batch(w, o))
    end.update(before=w.lines, outputs=outputs, loss=loss)
    return end, None, 0, why


def batch(w, o):
    for sid in o.batch:
        w.new(sid)
    return set(o.batch)


def stacks(items):
    """lists of modules of which each ran once, in order; those that cover most first"""
    entered, length, open_at = {}, {}, {}
    for i, e in enumerate(items):
        if e[0] == "enter":
            found = re.fullmatch(r"(.*)\.(\d+)", e[1])
            if found:
                entered.setdefault(found[1], []).append(int(found[2]))
                open_at[e[1]] = i
        elif e[0] == "exit" and e[1] in open_at:
            prefix = e[1].rsplit(".", 1)[0]
            length[prefix] = length.get(prefix, 0) + i - open_at[e[1]]
    good = [p for p, ran in entered.items() if len(ran) > 1 and ran == list(range(len(ran)))]
    return [(p, len(entered[p])) for p in sorted(good, key=lambda p: -length[p])]


def returned(items):
    return next(i for i, e in enumerate(items) if e[0] == "returned")


def write(w, items, last, keep=(), first=0, end=None, prefix=None):
    """items from first to end; what is freed behind last is what the forward returned; prefix is the layer's name"""
    outputs, loss = [], None
    opened = set()
    held = {}
    end = len(items) if end is None else end
    value = next((e[2] for e in items if e[0] == "returned"), None)
    later = set()
    for i in range(first, end):
        e = items[i]
        region = w.regions[0].get(i) or w.regions[1].get(i)
        if region and e[0] == "enter":
            try:
                w.lines.append(regions.opening(w, region, prefix))
                opened.add(region)
                w.o.opened[region.name] += 1
            except KeyError:
                pass
        elif region and region in opened:
            w.lines.append(regions.closing(w, region))
        if e[0] == "op":
            w.op(e[1], e[2], e[3], e[5])
        elif e[0] == "saved":
            if not w.o.backward and not w.o.evaluation:
                w.saved(e[1])
        elif e[0] == "node":
            w.node(*e[1:])
        elif e[0] == "use":
            w.lines.append("U " + w.parameter(e[1]))
        elif e[0] == "free":
            if e[1] in keep or e[1] in w.o.casts:
                continue
            if i > last:
                later.add(e[1])
                continue
            try:
                ref = w.value(e[1])
            except KeyError:
                continue
            if ref != "-1":
                w.lines.append("F " + ref)
        elif e[0] == "returned":
            held = e[1]
        elif e[0] == "loss":
            node = next((n for n in w.o.nodes if n.fn is w.o.root), None)
            loss = f"{w.value(value)} " + (w.edge(("node", node, 0)) if node else "-")
    ordered = [s for s in held if s in later and s != value] + sorted(s for s in later if s not in held and s != value)
    for s in ordered:
        try:
            ref = w.value(s)
        except KeyError:
            continue
        if ref != "-1" and ref not in outputs:
            outputs.append(ref)
    return outputs, loss


def folded(o, symbols, names, items, prefix, count):
    at = {}
    for i, e in enumerate(items):
        if e[0] in ("enter", "exit"):
            at.setdefault(e[:2], i)
    enters, exits = ([at[what, f"{prefix}.{k}"] for k in range(count)] for what in ("enter", "exit"))
    numbers = {n.fn: n.number for n in o.nodes}
    last = returned(items)
    layer_names = [[n for n in names if n.startswith(f"{prefix}.{k}.")] for k in range(count)]
    inside = set(layer_names[0])
    for ns in layer_names[1:]:
        inside.update(ns)
    outer_names = [n for n in names if n not in inside]
    where = {n: i for i, n in enumerate(outer_names)}
    params = {sid: where[name] for sid, name in o.parameters.items() if name in where}
    before = Writer(o, symbols, params)
    write(before, items, last, keep=batch(before, o), end=enters[0])
    sid_of = {name: sid for sid, name in o.parameters.items()}
    for k in range(1, count):
        for a, b in zip(layer_names[0], layer_names[k]):
            if o.owned[a] != o.owned[b]:
                raise Unfolded(f"layer {k} is not like layer 0: {a} is {o.owned[a]} and {b} {o.owned[b]}")
        if len(layer_names[0]) != len(layer_names[k]):
            raise Unfolded(f"layer {k} has {len(layer_names[k])} parameters and buffers, and layer 0 {len(layer_names[0])}")
    layers, given, besides = [], None, []
    born = set()
    for k in range(count):
        got = next(e[2] for e in items[enters[k] :] if e[:2] == ("given", f"{prefix}.{k}"))
        gave = next(e[2] for e in items[exits[k] - 2 :] if e[:2] == ("returns", f"{prefix}.{k}"))
        if not got or not gave:
            raise Unfolded("a layer is given or returns no tensor")
        x = (got[0][0], numbers.get(got[0][1]), got[0][2])
        if k and x[0] != given[0]:
            raise Unfolded("a layer is given something else than the one before it returned")
        if not k:
            besides = list(dict.fromkeys(before.value(s) for s, *_ in got[1:] if s != x[0] and before.values.get(s, -1) >= 0))
        own = {sid_of[n]: i for i, n in enumerate(layer_names[k]) if n in sid_of}
        w = Writer(o, symbols, params, before, own, x)
        write(w, items, last, end=exits[k], first=enters[k] + 1, prefix=f"{prefix}.{k}.")
        y = (gave[0][0], numbers.get(gave[0][1]), gave[0][2])
        if k + 1 < count:
            for e in items[exits[k] : enters[k + 1]]:
                if e[0] in ("op", "node"):
                    raise Unfolded("something runs between the layers")
                if e[0] == "free" and e[1] != x[0]:
                    raise Unfolded("something is let go between the layers")
            if k and not any(e[0] == "free" and e[1] == x[0] for e in items[exits[k] : enters[k + 1]]):
                raise Unfolded("what a layer is given lives on")
        output = f"{w.value(y[0])} {w.nodes[y[1]] if y[1] is not None else '-'}.{y[2]}" if y[1] is not None else f"{w.value(y[0])} -"
        freed = {e[1] for e in items[enters[k] : exits[k]] if e[0] == "free"}
        escaped = [s for s in w.values if w.values[s] >= 0 and s not in freed and s != y[0] and s not in o.casts]
        if any(e[0] == "free" and e[1] in escaped for e in items[exits[k] : last]):
            raise Unfolded("what a layer made dies outside of it, before the forward ends")
        layers.append((tuple(w.lines), output, tuple(w.value(s) for s in escaped)))
        born.update(escaped)
        given = y
    for k in range(1, count):
        if layers[k][:3] != layers[0][:3]:
            raise Unfolded(f"layer {k} is not like layer 0: " + difference(layers[0][0], layers[k][0]))
    after = before
    start, after.lines = list(before.lines), []
    n0 = next(e[2] for e in items[enters[0] :] if e[:2] == ("given", f"{prefix}.0"))[0]
    ref = f"{before.value(n0[0])} " + ("-" if n0[1] is None else f"{before.nodes[numbers[n0[1]]]}.{n0[2]}")
    after.given = given
    after.part = None
    outputs, loss = write(after, items, last, keep=set(o.batch) | born, first=exits[count - 1] + 1)
    return {"before": start, "input": ref, "given": besides, "layer": list(layers[0][0]), "output": layers[0][1], "escapes": list(layers[0][2]),
            "after": after.lines, "outputs": outputs, "loss": loss, "outer": outer_names, "inner": layer_names[0]}


def difference(a, b):
    for x, y in zip(a, b):
        if x != y:
            return f"{x!r} and {y!r}"
    return f"{len(a)} and {len(b)} lines"
