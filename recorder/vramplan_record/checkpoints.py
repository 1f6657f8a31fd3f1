"""Checkpoints that a module makes itself: each region runs as if it were none, and is noted among the events."""

import contextlib

from .sizes import Unexpressed

# Where the observation that runs puts its events.
SEEN = []


@contextlib.contextmanager
def noted(kind, function):
    events = SEEN[-1] if SEEN else []
    events.append(("checkpoint", kind, getattr(function, "__qualname__", type(function).__name__)))
    yield
    events.append(("checkpointed",))


class Reentrant:
    """what torch.utils.checkpoint runs a region with that is reentrant"""

    @staticmethod
    def apply(function, preserve, *args):
        with noted("reentrant", function):
            return function(*args)


def plain(function, *_, **__):
    """what it wraps around a region that is not: it runs to its first yield before the region, and to its end behind it"""
    with noted("plain", function):
        yield


def of_layers(items, prefix, ran):
    """the kind of checkpoint that is around each of the layers that repeat, "" where there is none at all. Whatever else is checkpointed cannot be
    written down."""
    open_at, regions = None, []
    for i, e in enumerate(items):
        if e[0] == "checkpoint":
            if open_at is not None:
                refuse(e[2])
            open_at = i
        elif e[0] == "checkpointed":
            regions.append((open_at, i, *items[open_at][1:]))
            open_at = None
    if not regions:
        return ""
    if not prefix or len(regions) != ran or len({kind for _, _, kind, _ in regions}) > 1:
        refuse(regions[0][3])
    at = {(e[0], e[1]): i for i, e in enumerate(items) if e[0] in ("enter", "exit")}
    for k, (first, last, _, name) in enumerate(regions):
        enter, exit_ = at["enter", f"{prefix}.{k}"], at["exit", f"{prefix}.{k}"]
        outside = (*range(min(first, enter), max(first, enter)), *range(min(last, exit_), max(last, exit_)))
        if max(first, enter) > min(last, exit_) or any(items[i][0] == "op" and items[i][2] for i in outside):
            refuse(name)
    return regions[0][2]


def refuse(name):
    raise Unexpressed(f"the module checkpoints {name} itself (torch.utils.checkpoint), which is not each of its layers that repeat as a whole and is "
                      "not recorded: leave that out, and ask for gradient_checkpointing in the job")
