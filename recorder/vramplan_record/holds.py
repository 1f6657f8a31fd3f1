"""Between which batches and lengths a module does what was recorded: it runs again, forward alone, at sizes far from those of the recording."""

import contextlib
import logging

from . import values
from .comparison import predicted

# As far as is looked. Nobody trains beyond.
MOST_SAMPLES, MOST_TOKENS = 4099, 131101

# Values of larger tensors are computed here than in the recording, as masks of many tokens are asked for values, too.
LIMIT = 1 << 23


@contextlib.contextmanager
def elsewhere():
    """values of larger tensors, and nothing said of what fails there: torch logs it with its whole stack"""
    was, values.LIMIT, disabled = values.LIMIT, LIMIT, logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        values.LIMIT = was
        logging.disable(disabled)


def between(run, first, symbols, samples, tokens):
    """{"batch": [least, most], "length": [least, most]} around samples and tokens, of which the recorded ones are; what is None varies not. run(b, t, most)
    is a forward that ends beyond so many events; first is the recorded one."""
    seen = {}

    def agrees(b, t):
        if (b, t) not in seen:
            try:
                with elsewhere():
                    seen[b, t] = predicted(first, run(b, t, 2 * len(first.events) + 1000), symbols, b, t)
            except Exception:  # whatever a module does that its recording does not say
                seen[b, t] = False
        return seen[b, t]

    found, (b0, b1), (t0, t1) = {}, samples, tokens
    least = b0
    if b0 != b1:
        least = nearest(lambda b: agrees(b, t0), b0, (1, 2))
        found["batch"] = [least, nearest(lambda b: agrees(b, t0), b1, (MOST_SAMPLES,))]
    if t0 != t1:
        few = min(max(least, 3), b0)
        found["length"] = [nearest(lambda t: agrees(few, t), t0, (2,)), nearest(lambda t: agrees(few, t), t1, (MOST_TOKENS,))]
        if b0 != b1:  # many samples of many tokens, too, as far as values of so many are computed
            most, long = found["batch"][1], found["length"][1]
            for b, t in ((min(most, LIMIT // 2 // long), long), (most, min(long, LIMIT // 2 // most))):
                found["batch"][1] = min(found["batch"][1], nearest(lambda b: agrees(b, t), few, (b,)) if b > few and not agrees(b, t) else most)
    return found


def nearest(holds, good, far):
    """the farthest of far for which it holds, or else the last on the way from good to there; what is near is looked at first, as it is dear where a module
    loops"""
    for place in far:
        if holds(place):
            return place
    bad = far[-1]
    steps = (good << k if bad > good else good >> k for k in range(1, 30))
    for place in steps:
        if not min(good, bad) < place < max(good, bad):
            break
        if not holds(place):
            bad = place
            break
        good = place
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
