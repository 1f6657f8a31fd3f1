"""Sizes in symbols: how a number that was seen at two batches depends on the batch (B) and on the length of its sequences (T)."""


class Unexpressed(Exception):
    """a size that is no sum of products of B and T"""


class Symbols:
    """dimensions seen at (b0, t0) and at (b1, t1), learned from runs that did the same"""

    def __init__(self, b0, t0, b1, t1):
        self.b0, self.t0, self.b1, self.t1 = b0, t0, b1, t1
        self.known, self.drawn, self.then, self.held = {}, {}, {}, {}

    def draw(self, at0, at1):
        """counts that random draws chose, each with its share of the elements of a shape, of both runs"""
        for (x, share, shape), (y, _, second) in zip(at0, at1):
            self.drawn[x, y] = share, shape, second

    def learn(self, at0, at1):
        """a pair of shapes of the same tensor"""
        if len(at0) != len(at1):
            raise Unexpressed(f"{at0} and {at1}")
        for x, y in zip(at0, at1):
            form = self.form(x, y)
            if self.known.setdefault(x, form) != form:
                raise Unexpressed(f"{x} stands for different sizes")

    def form(self, x, y):
        """the polynomial {(power of B, power of T): coefficient} of a dimension that is x and then y"""
        found = next(self.forms(x, y), None)
        if found is None:
            raise Unexpressed(f"{x} at B={self.b0}, T={self.t0} and {y} at B={self.b1}, T={self.t1}")
        self.then[x] = y
        return found

    def forms(self, x, y):
        """all polynomials that are x and then y, the likelier first"""
        if (x, y) in self.drawn:
            share, *shapes = self.drawn[x, y]
            yield product(({(0, 0): share}, *(self.form(*d) for d in zip(*shapes))))
        if x == y:
            yield {(0, 0): x}
        for powers, u, v in (((1, 0), self.b0, self.b1), ((0, 1), self.t0, self.t1), ((1, 1), self.b0 * self.t0, self.b1 * self.t1),
                             ((0, 2), self.t0**2, self.t1**2), ((1, 2), self.b0 * self.t0**2, self.b1 * self.t1**2),
                             ((2, 0), self.b0**2, self.b1**2)):
            if x % u == 0 and y % v == 0 and x // u == y // v:
                yield {powers: x // u}
        # As many of each sample as there are tokens but for some: logits[:, :-1].flatten(0, 1). Both are primes, so that they hardly divide others.
        if x % self.b0 == 0 and y % self.b1 == 0 and self.b0 != self.b1:
            found = line(x // self.b0, y // self.b1, self.t0, self.t1)
            if found:
                yield {(1, 1): found[0], (1, 0): found[1]}
        if x % self.t0 == 0 and y % self.t1 == 0 and self.t0 != self.t1:
            found = line(x // self.t0, y // self.t1, self.b0, self.b1)
            if found:
                yield {(1, 1): found[0], (0, 1): found[1]}
        found = [(powers, *f) for powers, u, v in (((0, 1), self.t0, self.t1), ((1, 0), self.b0, self.b1), ((1, 1), self.b0 * self.t0, self.b1 * self.t1))
                 if (f := line(x, y, u, v))]
        for powers, slope, rest in sorted(found, key=lambda f: abs(f[2])):
            yield {powers: slope, (0, 0): rest}

    def hold(self, seen, b, t):
        """whether dimensions are for b samples of t tokens what they were seen to be, {of the first run: then}. One that is not is taken for another form
        that fits all that was seen, if there is one: two sizes alone do not tell T-480 from 2B-183."""
        forms = {}
        for d, e in seen.items():
            if self.at(d, b, t) != e:
                before = self.held.get(d, {})
                forms[d] = next((f for f in self.forms(d, self.then.get(d, d)) if value(f, b, t) == e and all(value(f, *p) == n for p, n in before.items())), None)
        if None in forms.values():
            return False
        self.known.update(forms)
        for d, e in seen.items():
            self.held.setdefault(d, {})[b, t] = e
        return True

    def facts(self, at0, at1):
        """the shapes in what a kernel's memory depends on"""
        for x, y in zip(at0 or (), at1 or ()):
            if isinstance(x, (tuple, list)):
                self.learn(x, y)

    def size(self, shape):
        """the number of elements of a tensor of that shape, as text"""
        return text(product(self.known.get(d, {(0, 0): d}) for d in shape))

    def at(self, d, b, t):
        """what a dimension that was d in the first run is for b samples of t tokens"""
        return value(self.known.get(d, {(0, 0): d}), b, t)


def value(polynomial, b, t):
    return round(sum(c * b**i * t**j for (i, j), c in polynomial.items()))


def product(forms):
    """that of polynomials"""
    total = {(0, 0): 1}
    for form in forms:
        made = {}
        for (a, b), c in total.items():
            for (i, j), k in form.items():
                made[a + i, b + j] = made.get((a + i, b + j), 0) + c * k
        total = made
    return total


def line(x, y, u, v):
    """(slope, rest) of slope * u + rest, which is x for u and y for v; None where there are none"""
    if u == v or (x - y) % (u - v):
        return None
    slope = (x - y) // (u - v)
    rest = x - slope * u
    return (slope, rest) if slope > 0 and abs(rest) < 1 << 20 else None


def text(polynomial):
    """768BT, 768BT+768B or 576/5BT: terms of a whole number or a fraction and as many letters as there are factors"""
    terms = []
    for (i, j), c in sorted(polynomial.items(), reverse=True):
        if c or len(polynomial) == 1:
            terms.append(f"{c}{'B' * i}{'T' * j}")
    return "+".join(terms).replace("+-", "-") or "0"
