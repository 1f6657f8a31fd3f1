"""A program of stretches: what comes before the layers that repeat, one layer of each kind, what comes after them."""

import collections
import dataclasses
import re

from . import blocks, checkpoints, regions
from .program import Sequence, Writer


class Unfolded(Exception):
    """why the layers do not repeat"""


@dataclasses.dataclass
class Layers:
    """layers that repeat: the name of their list, how many there are, of which kind each is, the names of the parameters and buffers outside
    of them, and of those of the first layer of each kind"""

    name: str
    count: int
    kinds: tuple
    outer: list
    inner: list
    beyond: bool = False  # a layer is all that runs up to the next module of the list

    def period(self):
        """the shortest list of kinds that, said again and again, is that of all layers"""
        kinds = self.kinds
        return list(next((kinds[:n] for n in range(1, len(kinds)) if all(k == kinds[i % n] for i, k in enumerate(kinds))), kinds))

    def firsts(self):
        """the first layer of each kind"""
        return [self.kinds.index(k) for k in range(max(self.kinds, default=-1) + 1)]

    def within(self):
        """what stands before the names of modules of these layers"""
        return [f"{self.name}.{i}." for i in self.firsts()]


def fold(o, symbols, names, folding=True):
    """({"before", "layer", "after", …} of an observation, the layers that repeat as Layers, why there are none); without layers everything stands
    in before. names are those of all parameters and buffers in the order in which they are moved."""
    items = Sequence(o).items
    o.regions, o.opened = regions.regions(o, items), collections.Counter()
    whys = []
    for prefix, count in stacks(items) if folding else ():
        try:
            made, layers = folded(o, symbols, names, items, prefix, count)
            made["checkpoints"] = checkpoints.of_layers(items, prefix, count)
            return made, layers, None
        except Unfolded as e:
            whys.append(f"{prefix}: {e}")
        except KeyError:  # of a value, a node or a parameter
            whys.append(f"{prefix}: what runs there uses more than it is given")
    checkpoints.of_layers(items, None, 0)
    params = {sid: names.index(name) for sid, name in o.parameters.items()}
    w = Writer(o, symbols, params)
    end, last = {}, returned(items)
    outputs, loss = write(w, items, last, keep=batch(w, o))
    end.update(before=w.lines, outputs=outputs, loss=loss)
    none = "no modules of a list run one after the other" if folding else "the layers that repeat differ from one precision to another"
    return end, Layers(None, 0, (), names, []), next(iter(whys), none)  # that of the list which covers most


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
        if e[0] == "enter" and prefix is None and blocks.listed(e[1]):
            w.lines.append(blocks.opens(e[1]))
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
        elif e[0] == "exit" and prefix is None and blocks.listed(e[1]):
            w.lines.append(blocks.closes(e[1]))
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
    whole = stretched(items, enters, exits)
    numbers = {n.seq: n.number for n in o.nodes}
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
    kinds, given, besides = {}, None, {}
    of = []
    born = set()
    for k in range(count):
        got = next(e[2] for e in items[enters[k] :] if e[:2] == ("given", f"{prefix}.{k}"))
        gave = next(e[2] for e in items[exits[k] - 2 :] if e[:2] == ("returns", f"{prefix}.{k}"))
        if not got or not gave:
            raise Unfolded("a layer is given or returns no tensor")
        x = (got[0][0], numbers.get(got[0][1]), got[0][2])
        if k and x[0] != given[0]:
            raise Unfolded("a layer is given something else than the one before it returned")
        besides.update(dict.fromkeys(before.value(s) for s, *_ in got[1:] if s != x[0] and before.values.get(s, -1) >= 0))
        own = {sid_of[n]: i for i, n in enumerate(layer_names[k]) if n in sid_of}
        w = Writer(o, symbols, params, before, own, x)
        if whole:
            write(w, items, last, keep={x[0]}, end=whole[k], first=enters[k] + 1, prefix=f"{prefix}.{k}.")
            y = carried(items, prefix, k, numbers) if k + 1 < count else like(w, output)
            let_go(items[enters[k] : whole[k]], x[0], k == 0)
        else:
            write(w, items, last, end=exits[k], first=enters[k] + 1, prefix=f"{prefix}.{k}.")
            y = (gave[0][0], numbers.get(gave[0][1]), gave[0][2])
        if not whole and k + 1 < count:
            for e in items[exits[k] : enters[k + 1]]:
                if e[0] == "free" and e[1] != x[0]:
                    raise Unfolded("something is let go between the layers")
            if k and not any(e[0] == "free" and e[1] == x[0] for e in items[exits[k] : enters[k + 1]]):
                raise Unfolded("what a layer is given lives on")
        output = f"{w.value(y[0])} {w.nodes[y[1]] if y[1] is not None else '-'}.{y[2]}" if y[1] is not None else f"{w.value(y[0])} -"
        ends = whole[k] if whole else exits[k]
        freed = {e[1] for e in items[enters[k] : ends] if e[0] == "free"}
        escaped = [s for s in w.values if w.values[s] >= 0 and s not in freed and s != y[0] and s not in o.casts]
        if any(e[0] == "free" and e[1] in escaped for e in items[ends:last]):
            raise Unfolded("what a layer made dies outside of it, before the forward ends")
        owns = tuple((n[len(f"{prefix}.{k}.") :], o.owned[n]) for n in layer_names[k])
        of.append(kinds.setdefault((tuple(w.lines), output, tuple(w.value(s) for s in escaped), owns), len(kinds)))
        if len(kinds) > max(1, count // 2):
            raise Unfolded(f"layer {k} is not like layer 0: " + difference(list(kinds)[0], list(kinds)[-1]))
        born.update(escaped)
        given = y
    after = before
    start, after.lines = list(before.lines), []
    n0 = next(e[2] for e in items[enters[0] :] if e[:2] == ("given", f"{prefix}.0"))[0]
    ref = f"{before.value(n0[0])} " + ("-" if n0[1] is None else f"{before.nodes[numbers[n0[1]]]}.{n0[2]}")
    after.given = given
    after.part = None
    outputs, loss = write(after, items, last, keep=set(o.batch) | born, first=whole[-1] if whole else exits[count - 1] + 1)
    first, *others = ({"layer": list(lines), "output": output, "escapes": list(escapes)} for lines, output, escapes, _ in kinds)
    made = {"before": start, "input": ref, "given": list(besides), **first, "after": after.lines, "outputs": outputs, "loss": loss}
    if others:
        made["others"] = others
    return made, Layers(prefix, count, tuple(of), outer_names, [layer_names[of.index(k)] for k in range(len(kinds))], bool(whole))


def stretched(items, enters, exits):
    """where a layer ends that what runs behind its module belongs to, as the sum of x + block(x) does: where the next one begins, and the last one
    behind as many items as the one before it; None where nothing runs between the layers"""
    if not any(e[0] in ("op", "node") for k in range(len(enters) - 1) for e in items[exits[k] : enters[k + 1]]):
        return None
    behind = enters[-1] - exits[-2]
    last = items[exits[-1] : exits[-1] + behind]
    if [e[0] for e in last] != [e[0] for e in items[exits[-2] : enters[-1]]]:
        raise Unfolded("behind the last layer something else runs than between the others")
    return [*enters[1:], exits[-1] + behind]


def carried(items, prefix, k, numbers):
    """what the layer behind layer k is given"""
    got = next(e[2] for e in items if e[:2] == ("given", f"{prefix}.{k + 1}"))
    if not got:
        raise Unfolded("a layer is given no tensor")
    return got[0][0], numbers.get(got[0][1]), got[0][2]


def like(w, output):
    """the value of the last layer that stands where the layers before it have what they return"""
    value, *edge = output.split(" ")
    node, _, k = edge[0].partition(".")
    sid = next((s for s, v in w.values.items() if str(v) == value), None)
    number = next((n for n, v in w.nodes.items() if str(v) == node), None)
    if sid is None or node != "-" and number is None:
        raise Unfolded("the last layer has no value in the place of what the others return")
    return sid, number, int(k or 0)


def let_go(items, x, first):
    """refuses a layer that lets go of what it is given before its end, which is where a replay does"""
    left = [e for e in items if e[0] in ("op", "free", "node", "saved", "use")]
    if any(e[0] == "free" and e[1] == x for e in left[:-1]):
        raise Unfolded("what a layer is given is let go within it")
    if not first and left[-1][:2] != ("free", x):
        raise Unfolded("what a layer is given lives on")


def difference(one, other):
    """what is not alike of two kinds of layers"""
    for x, y in zip(one[3], other[3]):
        if x != y:
            return f"{x[0]} is {x[1]} and {y[0]} {y[1]}"
    a, b = one[0], other[0]
    for x, y in zip(a, b):
        if x != y:
            return f"{x!r} and {y!r}"
    return f"{len(a)} and {len(b)} lines"
