"""Two runs at different sizes, held against each other: what symbols are learned from."""

from .sizes import Unexpressed


def pairs(one, two):
    """what sizes are learned from: pairs of shapes, and of what kernels' memory depends on, of two runs that did the same"""
    def born(a, b):
        attends = a[3] and a[3][0] == "attention"  # of its results all but the first are the estimator's
        for x, y in zip(a[2][:1] if attends else a[2], b[2]):
            yield "shape", one.births[x][0], two.births[y][0]
        yield "facts", a[3], b[3]

    first, second = (ops(o) for o in (one, two))
    for a, b in zip(first, second):
        yield from born(a, b)
    for x, y in zip(one.shapes, two.shapes):
        yield "shape", x[0], y[0]
    for m, n in zip(one.nodes, two.nodes):
        for a, b in zip(*([x for x in k.acts if x[0] == "op"] for k in (m, n))):
            yield from born(a, b)


def ops(o):
    return [e for e in o.events if e[0] == "op" and (e[2] or e[3])]


def compare(one, two, symbols):
    """learns the symbols from two runs that have to have done the same"""
    first, second = (ops(o) for o in (one, two))
    if [e[1] for e in first] != [e[1] for e in second] or len(one.nodes) != len(two.nodes):
        at = next((f": {a[1]} and {b[1]}" for a, b in zip(first, second) if a[1] != b[1]), "")
        raise Unexpressed("what the module does depends on the size of the batch or of the sequences, so that one recording cannot stand for "
                          "others" + at)
    symbols.draw(one.shares, two.shares)
    for kind, a, b in pairs(one, two):
        symbols.learn(a, b) if kind == "shape" else symbols.facts(a, b)


def predicted(one, other, symbols, b, t):
    """whether another run, of b samples of t tokens, did what the first one did, at the sizes that the symbols say"""
    first, second = (ops(o) for o in (one, other))
    if [e[1] for e in first] != [e[1] for e in second] or [n.name for n in one.nodes] != [n.name for n in other.nodes]:
        return False

    seen = {}
    for kind, x, y in pairs(one, other):
        shapes = [(x, y)] if kind == "shape" else [(p, q) for p, q in zip(x or (), y or ()) if isinstance(p, (tuple, list))]
        for p, q in shapes:
            if len(p) != len(q) or any(seen.setdefault(d, e) != e for d, e in zip(p, q)):
                return False
    return symbols.hold(seen, b, t)


def shape_known(symbols, o):
    """of each dimension in a run, whether it was learned before"""
    for kind, a, _ in pairs(o, o):
        for shape in [a] if kind == "shape" else [x for x in a or () if isinstance(x, (tuple, list))]:
            for d in shape:
                yield d in symbols.known
