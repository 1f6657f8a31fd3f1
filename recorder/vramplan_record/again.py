"""Whether a module is after a run what it was before, so that the next run need not make it anew."""

import types

import torch

# Of what is larger than this it is not found out.
MOST = 200_000

PLAIN = (str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device, torch.Size, types.ModuleType,
         types.BuiltinFunctionType)


def state(module):
    """what a module holds, directly or not: objects by what they are and tensors by how often they were written to, and the objects themselves,
    which have to live for as long as the first is compared; None where that is too much to look through"""
    seen, held, found, stack = set(), [], [], [module]
    while stack:
        x = stack.pop()
        if isinstance(x, PLAIN):
            found.append((type(x), x))
            continue
        found.append(id(x))
        if id(x) in seen:
            continue
        seen.add(id(x))
        held.append(x)
        if len(found) > MOST:
            return None
        if isinstance(x, torch.Tensor):
            found += [x._version, tuple(x.shape), x.dtype]
        elif isinstance(x, dict):
            stack += [*x.keys(), *x.values()]
        elif isinstance(x, (list, tuple, set, frozenset)):
            stack += x
        elif isinstance(x, types.FunctionType):
            stack += [c.cell_contents for c in x.__closure__ or () if filled(c)]
        elif isinstance(x, types.MethodType):
            stack += [x.__self__, x.__func__]
        elif hasattr(x, "__dict__"):
            stack.append(vars(x))
    return found, held


def filled(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True
