"""Where torch.compile would break the graph of a module: at what it writes to a log.

Source: torch/_dynamo/variables/misc.py (LoggingLoggerVariable.call_method), torch 2.9.
"""

import contextlib
import logging

METHODS = ("debug", "info", "warning", "warn", "error", "critical", "exception", "log", "warning_once", "info_once", "warning_advice")


@contextlib.contextmanager
def noted(at):
    """calls at() wherever something but torch itself logs, and for what is logged once in a process, too"""
    were = {name: getattr(logging.Logger, name) for name in METHODS if hasattr(logging.Logger, name)}

    def noting(method):
        def log(self, *args, **kwargs):
            if not self.name.startswith("torch"):
                at()
            return method(self, *args, **kwargs)

        return log

    for name, method in were.items():
        setattr(logging.Logger, name, noting(method))
    try:
        yield
    finally:
        for name, method in were.items():
            setattr(logging.Logger, name, method)


def told(events, logged, made, products):
    """none, loss, model or outside: logged are the places in events where something was logged, made where the module had returned"""
    if any(e[0] == "op" and e[2] for e in events[made:]):
        return "outside"
    if not logged:
        return "none"
    return "model" if any(e[0] == "op" and (e[1] in products or "convolution" in e[1]) for e in events[logged[0]:]) else "loss"
