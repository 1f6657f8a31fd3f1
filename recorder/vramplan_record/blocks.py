"""Lines that stand in programs more than once, stored once: what modules of lists do that are alike but do not repeat as layers.

In the lines of a block ~ stands before a number that counts from the values, nodes or parameters in front of it, and for the module's name. A line
* 3 40 encoder.block.2 stands for block 3, its parameters counted from 40 and ~ in names for encoder.block.2. What modules have of their own, such as
widths, types and values made long before, stands behind it, * 3 40 encoder.block.2 448B,bf16, for $0, $1 … in the lines.
"""

import collections
import re

# What references stand in the fields of a line: v a value, n a node, p a parameter, e an edge or edges, s what is saved, m a module's name.
FIELDS = {"A": "v---v", "F": "v", "C": "vp", "Q": "vvvvv", "N": "n-es", "L": "nv", "U": "p", "[": "m-ve--p", "]": "ve"}

# A block has so many lines at least.
SHORTEST = 8


def opens(name):
    return "{ " + name


def closes(name):
    return "} " + name


def listed(name):
    """whether a module is one of a list"""
    return re.fullmatch(r".*\.\d+", name)


def plain(lines):
    """lines without those that say where modules begin and end"""
    return [line for line in lines if line[0] not in "{}"]


def parts(line):
    """(what it refers to, text) of the pieces of a line: v, n, p and m are numbers and names that a block may count from itself"""
    first, *fields = line.split(" ")
    found = [("", first)]
    for kind, text in zip(FIELDS.get(first, "").ljust(len(fields), "-"), fields):
        found.append(("", " "))
        if kind in "es" and text not in ("cast", "attention"):
            for i, piece in enumerate(text.split(",")):
                found += [("", ",")] if i else []
                number, mark, rest = re.fullmatch(r"([^.=]*)([.=]?)(.*)", piece).groups()
                found += [*reference("n" if kind == "e" else "v", number), ("", mark + rest)]
        elif kind in "vnp":
            found += reference(kind, text)
        else:
            found.append(("m" if kind == "m" else "", text))
    return found


def reference(kind, text):
    if text.isdigit():
        return [(kind, text)]
    if text[:1] == "p" and text[1:].isdigit():
        return [("", "p"), ("p", text[1:])]
    return [("", text)]


# What is each module's own: sizes and other numbers, and types.
OWN = re.compile(r"\d[^,$]*|f32|bf16|f16")


class Place:
    """the lines of one module, from one place to another of a stretch of a program, and what their numbers count from"""

    def __init__(self, name, first, last, lines, bases, outer):
        self.name, self.first, self.last, self.inside = name, first, last, []
        owned = next((i for i, n in enumerate(outer) if n.startswith(name + ".")), 0)
        self.bases = {"v": bases[first][0], "n": bases[first][1], "p": owned}
        self.pieces = [("o", text) if not kind and OWN.fullmatch(text) else (kind, text)
                       for line in plain(lines[first:last]) for kind, text in (*parts(line), ("", "\n"))]
        self.lines, self.length = sum(p == ("", "\n") for p in self.pieces), sum(len(t) if t != "\n" else 4 for _, t in self.pieces)
        self.shape = "".join(text if kind in ("", "m") else kind for kind, text in ((k, self.relative((k, t)) or t if k == "m" else t) for k, t in self.pieces))

    def relative(self, piece):
        kind, text = piece
        if kind == "m":
            return "~" + text[len(self.name) :] if (text + ".").startswith(self.name + ".") else None
        return f"~{int(text) - self.bases[kind]}" if kind in self.bases else None


def counted(lines, bases):
    """how many values and nodes there are before each line, and behind the last one"""
    values, nodes = bases
    found = []
    for line in lines:
        found.append((values, nodes))
        if line[0] in "ACQ":
            values = int(line.split(" ", 2)[1]) + 1
        elif line[0] in "NL":
            nodes = int(line.split(" ", 2)[1]) + 1
    return [*found, (values, nodes)]


def places(lines, bases, outer):
    """modules of lists, as a tree"""
    top, stack = [], []
    for i, line in enumerate(lines):
        if line[0] == "{":
            stack.append((line[2:], i, []))
        elif line[0] == "}" and any(name == line[2:] for name, _, _ in stack):
            while stack:
                name, first, inside = stack.pop()
                if name == line[2:]:
                    break
            place = Place(name, first, i + 1, lines, bases, outer)
            place.inside = inside
            (stack[-1][2] if stack else top).append(place)
    return top


def block(alike):
    """(the lines that stand for all of the places, what of each place stands for $0, $1 … in them)"""
    text, columns = [], {}
    for pieces in zip(*(place.pieces for place in alike)):
        relative = {place.relative(piece) for place, piece in zip(alike, pieces)}
        if len(relative) == 1 and None not in relative and pieces[0][0]:
            text.append(relative.pop())
        elif len(set(pieces)) == 1:
            text.append(pieces[0][1])
        else:
            text.append(f"${columns.setdefault(tuple(t for _, t in pieces), len(columns))}")
    return "".join(text).splitlines(), list(zip(*columns)) or [()] * len(alike)


def use(place, number, own):
    return f"* {number} {place.bases['p']} {place.name}" + (" " + ",".join(own) if own else "")


def tree(place):
    """it and all places inside of it"""
    yield place
    for p in place.inside:
        yield from tree(p)


def alike(found):
    """groups of places that are alike, those first that save most, each place once and none inside of another"""
    groups = collections.defaultdict(list)
    for place in found:
        if place.lines >= SHORTEST and "$" not in place.shape:
            groups[place.shape].append(place)
    taken, savings = set(), {shape: saved(group) for shape, group in groups.items()}
    while savings:
        shape = max(savings, key=savings.get)
        free = [p for p in groups[shape] if not any(id(q) in taken for q in tree(p))]
        if len(free) < len(groups[shape]):
            groups[shape] = free
            savings[shape] = saved(free)
            if savings[shape] < max(savings.values()):
                continue
        if savings.pop(shape) <= 0:
            continue
        for p in free:
            taken.update(map(id, tree(p)))
        yield free


def saved(group):
    """how many characters are saved where each of them is a use of a block"""
    if len(group) < 2:
        return 0
    text, own = block(group)
    return sum(p.length for p in group) - length(text) - sum(len(use(p, 100, o)) + 4 for p, o in zip(group, own))


def shorten(programs, batch, outer):
    """the lines that stand in the programs more than once, which are left out of them; batch is how many values there are at the start of each, outer
    are the names of their parameters"""
    stretches, found, of = [], [], {}
    for program in programs:
        bases = (batch, 0)
        for key in ("before", "after"):
            lines = program.get(key)
            if lines is not None:
                at = counted(lines, bases)
                bases, used = at[-1], {}
                stretches.append((program, key, lines, at[0], used))
                inside = [p for place in places(lines, at, outer) for p in tree(place)]
                of.update((id(p), used) for p in inside)
                found += inside
    blocks = []
    for group in alike(found):
        text, own = block(group)
        for place, o in zip(group, own):
            of[id(place)][place.first] = (place, use(place, len(blocks), o))
        blocks.append(text)
    for program, key, lines, base, used in stretches:
        short, i = [], 0
        while i < len(lines):
            if i in used:
                place, line = used[i]
                short.append(line)
                i = place.last
                continue
            short.append(lines[i])
            i += 1
        program[key] = plain(short)
        if lengthened(program[key], blocks, base) != plain(lines):
            raise AssertionError("a program is not what it was shortened from")
    return blocks


def length(lines):
    """of lines as they are written, each with quotation marks, a comma and the end of the line"""
    return sum(len(line) + 4 for line in lines)


def lengthened(lines, blocks, bases):
    """lines with those of blocks in their places; bases are how many values and nodes there are before them"""
    found = []
    for line in lines:
        several = [line]
        if line[0] == "*":
            _, number, parameters, module, *own = line.split(" ")
            base, own = {"v": bases[0], "n": bases[1], "p": int(parameters)}, own[0].split(",") if own else []
            several = [absolute(re.sub(r"\$(\d+)", lambda m, own=own: own[int(m[1])], text), base, module) for text in blocks[int(number)]]
        bases = counted(several, bases)[-1]
        found += several
    return found


def absolute(line, base, module):
    """a line of a block with its numbers"""
    first, *fields = line.split(" ")
    made = [first]
    for kind, text in zip(FIELDS.get(first, "").ljust(len(fields), "-"), fields):
        if kind == "m":
            text = text.replace("~", module, 1) if text[0] == "~" else text
        elif kind != "-":
            number = {"e": "n", "s": "v"}.get(kind, kind)
            text = ",".join(re.sub(r"~(-?\d+)", lambda m, of="p" if piece[:1] == "p" else number: str(base[of] + int(m[1])), piece)
                            for piece in text.split(","))
        made.append(text)
    return " ".join(made)
