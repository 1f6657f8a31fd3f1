"""Random draws, as evenly spread as they are on average, and what is chosen by them as a share of what it is chosen from."""

from fractions import Fraction

import torch

# What is drawn, and whether evenly between 0 and 1, by the normal distribution, between two whole numbers, or as one of two.
EVEN, NORMAL, WHOLE, EITHER = range(4)
KINDS = {"rand": EVEN, "rand_like": EVEN, "uniform_": EVEN, "uniform": EVEN, "randn": NORMAL, "randn_like": NORMAL, "normal_": NORMAL, "randint": WHOLE,
         "randint_like": WHOLE, "random_": WHOLE, "bernoulli": EITHER, "bernoulli_": EITHER}

GUESS = "how many elements a random draw chooses was taken to be what it chooses on average"

# Shares that are looked for first: what people write.
USUAL = (1, 2, 4, 5, 10, 20, 25, 50, 100, 1000, 3, 6, 8, 16, 32, 64)


def even(count, number):
    """count numbers between 0 and 1, as many in each part as it is large, in an order that the number of the draw decides"""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(number))
    return (order.double() + 0.5) / max(count, 1)


def drawn(name, args, kwargs, shape, dtype, number):
    """what such a draw is on average; None where its bounds are no numbers"""
    count = 1
    for d in shape:
        count *= d
    u, kind = even(count, number), KINDS[name]
    numbers = [a for a in args if isinstance(a, (int, float)) and not isinstance(a, bool)]
    if kind == NORMAL:
        u = torch.special.ndtri(u)
        if name == "normal_":
            mean, deviation = (*numbers, *(0.0, 1.0)[len(numbers):])[:2]
            u = mean + deviation * u
    elif kind == WHOLE:
        if not numbers:
            return None
        low, high = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
        u = (low + (high - low) * u).floor()
    elif name in ("uniform_", "uniform") and numbers:
        low, high = (*numbers, *(0.0, 1.0)[len(numbers):])[:2]
        u = low + (high - low) * u
    return u.reshape(shape).to(dtype)


def share(count, of):
    """count of so many as a fraction that somebody may have written, within what draws leave open"""
    if not of or count in (0, of):
        return Fraction(count, of or 1)
    for slack in (0.6 / of, 2 / of, 2 / of**0.5):
        for denominator in USUAL:
            nearest = Fraction(round(count * denominator / of), denominator)
            if 0 < nearest < 1 and abs(float(nearest) - count / of) <= slack:
                return nearest
    return Fraction(count, of).limit_denominator(100)
