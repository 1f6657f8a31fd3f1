"""Write the trees of CPython's ast for files and folders, one a line: the path, a tab, the tree.

python3 trees.py PATH... > FILE; go test ./service/readers/python -run TestTreesOfCPython -trees=FILE

Files that CPython refuses are written with a tree of "!", and those that name characters (\\N{...}) are left out.
"""

import ast
import os
import struct
import sys

sys.setrecursionlimit(20000)
SKIP = {"ctx", "kind", "type_comment", "type_ignores"}
OPERATORS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


def constant(v):
    if v is None or v is True or v is False:
        return str(v)
    if v is ...:
        return "..."
    if isinstance(v, int):
        return "i%x" % v
    if isinstance(v, float):
        return "f" + struct.pack(">d", v).hex()
    if isinstance(v, complex):
        return "j" + struct.pack(">d", v.imag).hex()
    if isinstance(v, str):
        return "s" + v.encode("utf-8", "surrogatepass").hex()
    return "b" + v.hex()


def dump(n, out, text=False):
    if n is None:
        out.append("_")
        return
    out.append("(" + type(n).__name__)
    if hasattr(n, "lineno") and not text:
        out.append(f"@{n.lineno}:{n.col_offset}-{n.end_lineno}:{n.end_col_offset}")
    text = text or isinstance(n, ast.JoinedStr)
    names, numbers, parts = [], [], []
    for field in n._fields:
        v = getattr(n, field, None)
        if field in SKIP or v is None or v == [] or field == "value" and isinstance(n, (ast.Constant, ast.MatchSingleton)):
            continue
        if isinstance(v, str):
            names.append(v)
        elif isinstance(v, int):
            numbers += [str(int(v))] if v else []
        elif isinstance(v, OPERATORS):
            names.append(type(v).__name__)
        elif isinstance(v, list) and isinstance(v[0], str):
            names += v
        elif isinstance(v, list) and isinstance(v[0], OPERATORS):
            names += [type(x).__name__ for x in v]
        else:
            parts.append((field, v))
    out += [" " + s for s in names + numbers]
    if isinstance(n, (ast.Constant, ast.MatchSingleton)):
        out.append(" " + constant(n.value))
    for field, v in parts:
        out.append(f" {field}=")
        if isinstance(v, list):
            out.append("[")
            for x in v:
                dump(x, out, text)
            out.append("]")
        else:
            dump(v, out, text)
    out.append(")")


def write(path):
    with open(path, "rb") as f:
        source = f.read()
    if b"\\N{" in source:
        return
    try:
        source.decode("utf-8-sig")
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        print(path, "!", sep="\t")
        return
    out = []
    dump(tree, out)
    print(path, "".join(out), sep="\t")


def main():
    import warnings

    warnings.simplefilter("ignore")
    for top in sys.argv[1:]:
        if os.path.isfile(top):
            write(top)
        for folder, folders, files in os.walk(top):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    write(os.path.join(folder, name))


main()
