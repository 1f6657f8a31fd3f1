"""An observation as a program: lines that say what is allocated, freed, saved and done in backward.

A line begins with what it is: A value size type operation (allocate), F value (free), W bias (a matrix product), R over rows columns
(a reduction), C value parameter (autocast's copy of a parameter), Q (attention), P part, L number value size type (a value that wants a
gradient of its own), U parameter (that an operation without a graph reads), N number outputs edges saved (a node of autograd's graph, whose
backward the lines in small letters behind it are).
"""

import torch

from .engine import wanted

DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64", torch.bool: "u8", torch.uint8: "u8",
          torch.int8: "u8", torch.float64: "f64", torch.int32: "f32", torch.int16: "bf16", torch.complex64: "f64"}

PARTS = (("a", ("attn", "attention")), ("e", ("emb", "wte", "wpe", "patch")), ("m", ("mlp", "ffn", "feed_forward", "intermediate", "fc")),
         ("n", ("norm", "ln_", "ln")))


# How many tensors the backward of one node may hold at once, and how many of them an embedding's gradient takes, which is in the first.
REGISTERS = 120
EMBEDDING = 16


class Writer:
    """lines of one stretch of events; values and nodes are numbered in the order in which they come"""

    def __init__(self, o, symbols, params, outer=None, layer=None, given=None):
        self.o, self.symbols, self.params, self.outer = o, symbols, params, outer
        self.layer = layer or {}
        self.given = given  # storage and node of a layer's input
        self.regions = o.regions
        self.values, self.nodes, self.leaves, self.numbered = {}, {}, {}, 0
        self.lines, self.part, self.count = [], None, 0

    def value(self, sid):
        if sid in self.values:
            return str(self.values[sid])
        if self.given and sid == self.given[0]:
            return "x"
        if self.outer and sid in self.outer.values:
            return "g" + str(self.outer.values[sid])
        raise KeyError(sid)

    def new(self, sid):
        self.values[sid] = self.count
        self.count += 1
        return str(self.values[sid])

    def shape(self, sid):
        shape, elements, dtype = self.o.births[sid]
        n = 1
        for d in shape:
            n *= d
        return self.symbols.size(shape if n == elements else (elements,)), DTYPES[dtype]

    def edge(self, e):
        if e is None:
            return "-"
        if e[0] == "param":
            return self.parameter(e[1])
        if e[0] == "leaf":
            return self.leaf(e[1])
        n, k = e[1], e[2]
        if n.number in self.nodes:
            return f"{self.nodes[n.number]}.{k}"
        if self.given and self.given[1] is not None and n.number == self.given[1] and k == self.given[2]:
            return "x"
        if self.outer and n.number in self.outer.nodes:
            return f"g{self.outer.nodes[n.number]}.{k}"
        raise KeyError(f"node {n.number} {n.name}")

    def leaf(self, x):
        """where the gradient of a tensor goes that asked for one"""
        number = self.leaves.get(x)
        if number is None:
            number = self.leaves[x] = self.numbered
            self.numbered += 1
            self.lines.append(f"L {number} {self.value(x.sid)} {self.symbols.size(x.shape)} {DTYPES[x.dtype]}")
        return f"{number}.0"

    def parameter(self, sid):
        if sid in self.layer:
            return f"l{self.layer[sid]}"
        return f"p{self.params[sid]}"

    def saved(self, sid):
        """a saved tensor, where nodes do not say which of them saved it"""
        try:
            name = self.parameter(sid) if sid in self.o.parameters else self.value(sid)
        except KeyError:
            name = "?"
        self.lines.append("K " + name)

    def reduce(self, fact):
        return f"{fact[1]} {self.symbols.size(fact[2])} {self.symbols.size(fact[3])}"

    def op(self, name, born, fact, module):
        if born or fact:
            self.turn(part_of(module))
        kind = fact[0] if fact else None
        if kind == "cast":
            self.lines.append(f"C {self.new(born[0])} {self.parameter(fact[1])}")
            return
        if kind == "attention":
            self.attention(born, fact)
            return
        if kind == "loss":
            whole, dtype = self.symbols.size(fact[1]), DTYPES[self.o.births[born[0]][2]]
            self.lines += [f"A {self.new(born[0])} {whole} {dtype} {name}", f"A {self.count} {whole} {dtype} {name}", f"F {self.count}"]
            self.count += 1
            return
        if kind == "sort":
            return
        for sid in born:
            size, dtype = self.shape(sid)
            after = f" {self.value(fact[1])}" if kind == "attended" else ""
            self.lines.append(f"A {self.new(sid)} {size} {dtype} {name}{after}")
        if kind == "product":
            self.lines.append(f"W {int(fact[1])}")
        elif kind == "reduce" and born:
            self.lines.append(f"R {self.reduce(fact)}")

    def attention(self, born, fact):
        _, q, k, v, mask, qs, ks, vd, dropout, heads_first, boolean, tokens_outermost = fact
        refs = [self.value(x) for x in (q, k, v)] + ["-" if mask is None else self.value(mask)]
        size = self.symbols.size
        y = self.new(born[0])
        for sid in born[1:]:
            self.values[sid] = -1
        self.lines.append(f"Q {y} {' '.join(refs)} {size(qs[:1])} {qs[1]} {ks[1]} {size(qs[2:3])} {size(ks[2:3])} {qs[3]} {vd} {dropout:g} "
                          f"{int(heads_first) + 2 * int(boolean) + 4 * int(tokens_outermost)}")

    def turn(self, part):
        if part != self.part:
            self.part = part
            self.lines.append("P " + part)

    def node(self, n, module, special):
        self.turn(part_of(module))
        edges = ",".join(self.edge(e) for e in n.edges) or "-"
        self.nodes[n.number] = self.numbered
        self.numbered += 1
        if special:
            copies = next((f" {a[3][1]}" for a in n.acts if a[0] == "op" and a[3] and a[3][0] == "copies"), "")
            self.lines.append(f"N {self.nodes[n.number]} 1 {edges} {special}{copies}")
            return
        saved, order = [], {}
        for sid in n.saved:
            if sid not in order:
                order[sid] = len(saved)
                saved.append(sid)
        edges_of = wanted(n) if n.ran else {}
        live = {k for k, out in enumerate(n.outs) if out is not None and n.edges[k] is not None}

        def only(sid):
            """=1 behind what is there for the gradient of input 1 alone, where the node has others"""
            edges = edges_of.get(sid, live)
            return "=" + ".".join(map(str, sorted(edges))) if edges and edges != live else ""

        self.only = only
        refs = ",".join(self.value(s) + only(s) for s in saved) or "-"
        outputs = len(n.arrived) if n.ran else 1
        self.lines.append(f"N {self.nodes[n.number]} {outputs} {edges} {refs}")
        if n.ran:
            self.backward(n, order)

    def mark(self, sid):
        only = self.only(sid)
        return " " + only if only else ""

    def backward(self, n, order):
        embeds = any(act[0] == "op" and act[3] and act[3][0] == "embedding" for act in n.acts)
        registers, free = {}, list(range(REGISTERS - 1, EMBEDDING - 1 if embeds else -1, -1))
        sent = {s[0] for s in n.outs if s}
        for act in n.acts:
            if act[0] == "op":
                _, name, born, fact, _ = act
                kind = fact[0] if fact else None
                if kind == "embedding":
                    registers[born[0]] = 0
                    self.lines.append(f"e {registers[born[0]]} {self.symbols.size(fact[1])} {self.symbols.size(fact[2])} {fact[3]} {self.shape(born[0])[1]}{self.mark(born[0])}")
                    continue
                if kind == "sort":
                    self.lines.append(f"i {self.symbols.size(fact[1])} {self.symbols.size(fact[2])}")
                    continue
                for sid in born:
                    if not free:
                        raise KeyError(f"{n.name} makes more than {REGISTERS} tensors at once")
                    registers[sid] = free.pop()
                    size, dtype = self.shape(sid)
                    self.lines.append(f"a {registers[sid]} {size} {dtype} {name}{self.mark(sid)}")
                if kind == "product":
                    self.lines.append("w")
                elif kind == "reduce" and born:
                    self.lines.append(f"r {self.reduce(fact)}")
            elif act[0] == "free":
                if act[1] in registers and act[1] not in sent:
                    free.append(registers[act[1]])
                    self.lines.append(f"f {registers.pop(act[1])}")
            else:
                self.lines.append("|")
        given = set()
        for k, out in enumerate(n.outs):
            if out is None or n.edges[k] is None:
                continue
            sid, view, shape, dtype, other = out
            if view and other:
                self.lines.append(f"z {self.symbols.size(shape)} {DTYPES[dtype]} {k}")
            if sid in registers and sid not in given:
                given.add(sid)
                self.lines.append(f"{'v' if view else 's'} {registers[sid]} {k}")
            elif sid in registers:
                self.lines.append(f"b {registers[sid]} {k}")
            elif sid in n.arrived:
                self.lines.append(f"{'q' if view else 'p'} {n.arrived.index(sid)} {k}")
            elif sid in order:
                self.lines.append(f"S {order[sid]} {k}")
            else:
                self.lines.append(f"u {k}")


HEADS = ("lm_head", "head", "score", "classifier", "cls", "embed_out", "decoder_head")


def part_of(module):
    if not module or module.rsplit(".", 1)[-1] in HEADS:
        return "o"
    last = module.lower()
    for piece in reversed(last.split(".")):
        for part, words in PARTS:
            if any(w in piece for w in words):
                return part
    return "o"


class Sequence:
    """events with the nodes put beside the operation that made them: before it where all that they save is there already, as checkpointing
    stops an operation whose node has saved the last tensor that is waited for"""

    def __init__(self, o):
        self.items = []
        self.waiting = list(o.nodes)
        self.have = set(o.batch) | set(o.parameters)
        modules = [""]
        for e in o.events:
            if e[0] == "op":
                module = modules[-1]
                special = e[3][0] if e[3] and e[3][0] in ("cast", "attention") else None
                if not special:
                    self.place(e[4], module, None)
                self.have.update(e[2])
                self.items.append(("op", e[1], e[2], e[3], e[4], module))
                self.place(e[4], module, special)
                continue
            if e[0] == "enter":
                modules.append(e[1])
            elif e[0] == "exit":
                modules.pop()
            self.items.append(e)
        self.items += [("node", n, "", None) for n in self.waiting]

    def place(self, before, module, special):
        while self.waiting and self.waiting[0].seq < before and all(s in self.have for s in self.waiting[0].saved):
            self.items.append(("node", self.waiting.pop(0), module, special))
            special = None
