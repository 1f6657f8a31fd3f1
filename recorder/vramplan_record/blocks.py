"""Lines that stand in a program more than once, stored once: what modules of lists do that are alike but do not repeat as layers.

In the lines of a block ~ stands before a number that counts from the values, nodes or parameters in front of it, and for the module's name. A line
* 3 40 encoder.block.2 stands for block 3, its parameters counted from 40 and ~ in names for encoder.block.2.
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


class Place:
    """the lines of one module, from one place to another of a stretch, and what their numbers count from"""

    def __init__(self, name, first, last, lines, bases, outer):
        self.name, self.first, self.last, self.inside = name, first, last, []
        owned = next((i for i, n in enumerate(outer) if n.startswith(name + ".")), 0)
        self.bases = {"v": bases[first][0], "n": bases[first][1], "p": owned}
        self.pieces = [p for line in plain(lines[first:last]) for p in (*parts(line), ("", "\n"))]
        self.shape = "".join(kind or text for kind, text in self.pieces)

    def relative(self, piece):
        kind, text = piece
        if kind == "m":
            return "~" + text[len(self.name) :] if (text + ".").startswith(self.name + ".") else None
        return f"~{int(text) - self.bases[kind]}"


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
    """(the lines that stand for as many of the places as can be, those places)"""
    like, text, chosen = alike[len(alike) // 2], [], list(alike)
    for i, piece in enumerate(like.pieces):
        if not piece[0]:
            text.append(piece[1])
            continue
        same = [p for p in chosen if p.pieces[i] == piece]
        moved = [p for p in chosen if p.relative(p.pieces[i]) == like.relative(piece) is not None]
        chosen = max(moved, same, key=len)
        text.append(like.relative(piece) if chosen is moved else piece[1])
    return "".join(text).splitlines(), chosen


def shorten(program, batch, outer):
    """stores lines of program that are alike once; batch is how many values there are at its start, outer are the names of its parameters"""
    blocks, bases = [], (batch, 0)
    for key in ("before", "after"):
        lines = program.get(key)
        if lines is None:
            continue
        at = counted(lines, bases)
        bases, used, level = at[-1], {}, places(lines, at, outer)
        while level:
            groups = collections.defaultdict(list)
            for place in level:
                groups[place.shape].append(place)
            for group in groups.values():
                while len(group) > 1:
                    text, chosen = block(group)
                    if len(text) < SHORTEST or len(chosen) < 2:
                        break
                    used.update((p.first, (p, len(blocks))) for p in chosen)
                    blocks.append(text)
                    group = [p for p in group if p not in chosen]
            level = [p for place in level if place.first not in used for p in place.inside]
        short, i = [], 0
        while i < len(lines):
            if i in used:
                place, number = used[i]
                short.append(f"* {number} {place.bases['p']} {place.name}")
                i = place.last
                continue
            short.append(lines[i])
            i += 1
        program[key] = plain(short)
        if lengthened(program[key], blocks, at[0]) != plain(lines):
            raise AssertionError("a program is not what it was shortened from")
    if blocks:
        program["blocks"] = blocks


def lengthened(lines, blocks, bases):
    """lines with those of blocks in their places; bases are how many values and nodes there are before them"""
    found = []
    for line in lines:
        several = [line]
        if line[0] == "*":
            _, number, parameters, module = line.split(" ")
            base = {"v": bases[0], "n": bases[1], "p": int(parameters)}
            several = [absolute(text, base, module) for text in blocks[int(number)]]
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
