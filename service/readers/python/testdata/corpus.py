"""What the grammar has, once each."""
import os, sys as system, os.path
from . import (a as b, c,)
from ...pkg.mod import *
x = y = 1_000; z: int = 0x_ff; (w): str
a.b[1:2, ::3, *rest], *others = f(*args, k=1, **kw), ...
x += 1; x //= 2; x **= 3; x @= y; x >>= 1
n = -1 ** 2 + ~3 * 4 % 5 // 6 @ m << 1 >> 2 & 3 ^ 4 | 5
q = not a or b and c in d not in e is None is not f != g <= h
lam = lambda a, /, b=1, *c, d, e=2, **f: (a if b else c)
s = "a" 'b' r"\n" if 0 else b"" b"\x00\377" rb'\d'
t = f"{x!r:>{width}.{prec}} {{}} {y=} {z = :%Y} {d['k']}" "tail" if 0 else u"\u00e9\x41\
cont"
u = f'{a["b"]}' f"""{
    x + 1
} and {lambda_(1)}"""
v = [i async for i in aiter() if i if not j], {k: v for k, v in z}, {1, *s}, {**d, 'a': 1}, (yield)
g = (i for i, in b), sum(i for i in c), 1j, 1.5e-3, .5, 0o17, 0b11, 10 ** 20
if (m := match(x)) is not None: pass
elif other: raise E from e
else: del a, b[0], (c, d.e)
while True:
	break
else:
	pass
for i, (j, *k) in x, y: continue
async def fn(a: int = 1, *, b: str) -> None:
    async with a as b, c: await d
    async for e in f: await g
    global h, i; return *a, b
with (open(a) as f, open(b)): pass
with (a, b): pass
with (yield): pass
try: pass
except (A, B) as e: pass
except: pass
else: pass
finally: pass
try: pass
except* C: pass
@dec.o(1)
@other
class K(Base, metaclass=M):
    def f(self): return self
    nonlocal_ = assert_ = 1
    def g(self):
        nonlocal h; h = lambda *, k=None, **kw: 0
assert x, "m"
match = type = case = 1
match[1] = type(case)
match x, *y:
    case [1, -2.5, *rest] | (None | True) as both if z: pass
    case {"k": v, a.b: 1 + 2j, **more}: pass
    case K(1, x=2) | a.b.c(): pass
    case "s" "t", _: pass
    case _: pass
