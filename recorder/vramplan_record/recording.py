"""A recording: the programs of a module in several precisions, and its parameters."""

import contextlib
import dataclasses
import gc
import hashlib
import json
import platform
import sys
import typing

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import again, blocks, fold, holds, observe, patches, regions
from .comparison import compare, shape_known
from .program import DTYPES
from .sizes import Symbols, Unexpressed
from .values import Values

VERSION = "0.1.0"
FORMAT = 1

# Batches, and lengths of their sequences: primes, of which no width of a model is a multiple. Learned positions may end earlier.
BATCHES = (101, 103)
LENGTHS = ((499, 503), (239, 251), (113, 127), (59, 61), (29, 31))

PRECISIONS = ("amp", "half", "fp32", "mixed")

HALVES = (torch.bfloat16, torch.float16)

# Autocast over float32 around linear layers that return the type that they are given, as those whose weights are quantised do.
PACKED = "packed"


def record(model, batch, loss=None, name=None, source=None, precisions=PRECISIONS, length=True, note=lambda *_: None, evaluate=True,
           half=torch.bfloat16, one_sample=False, samples=None):
    """What the module that model() makes does, as a dictionary that json can write.

    batch(b, t) makes the arguments of the forward, a tuple or a dictionary of tensors, for b samples of length t; loss(output, batch) is
    the number that backward starts from: by default output.loss, or the output itself. Both run under fake tensors: nothing is computed.
    evaluate says whether an evaluation is recorded, too, half which type half precision is, samples how many every batch has, where the module does
    something else for others, and one_sample that it is one.
    length is the one length t to record at, False where the batch has none, or two lengths from which any other is told.
    """
    try:
        return recorded(model, batch, loss or its_own_loss, name, source, precisions, length, note, evaluate, half, 1 if one_sample else samples, True)
    except Apart:
        return recorded(model, batch, loss or its_own_loss, name, source, precisions, length, note, evaluate, half, 1 if one_sample else samples, False)


class Apart(Exception):
    """the layers that repeat in one precision are not those of another"""


def recorded(model, batch, loss, name, source, precisions, length, note, evaluate, half, samples, folding):
    """record, with layers that repeat stored once where folding is asked for"""
    points = tuple(zip((samples, samples) if samples else BATCHES, lengths(length)))
    length = points[0][1] != points[1][1]
    programs, evaluations, described, whys, notes, apart, checkpointed, broken, refused = {}, {}, None, [], [], set(), set(), set(), []
    model = Makes(model, half)
    padded = getattr(batch, "padded", False)
    with patches.applied(padded), without_libraries():
        symbols, stack = None, None
        at = [*points[0], *(points[1] if length else (points[1][0], points[1][1] + 4))]
        for precision in precisions:
            try:
                if described is None:
                    loops(model, batch, loss, precision, points)
                    seen, stack, symbols = first_of(model, batch, loss, precision, points, at, folding)
                else:
                    seen = [run(model, batch, loss, precision, *points[0], stack)]
                    if not all(shape_known(symbols, seen[0][0])):
                        seen.append(run(model, batch, loss, precision, *points[1], stack, shares=o_first.shares))
                        compare(seen[0][0], seen[1][0], symbols)
            except (RuntimeError, TypeError, ValueError) as e:  # which the module raises, as it would on a card
                refused.append((precision, e))
                continue
            o, names, parameters = seen[0]
            if described is None:
                around = holds.between(lambda b, t, most: run(model, batch, loss, precision, b, t, stack, False, most=most, shares=o.shares)[0], o,
                                       symbols, *zip(*points))
                if samples:
                    around["batch"] = [samples, samples]
            notes += [n for n in o.notes if n not in notes]
            program, layers, why = fold.fold(o, symbols, names, folding)
            apart |= regions.unadaptable(o, layers)
            layers = whole(layers, stack)
            if why:
                whys.append(f"{precision}: {why}")
            checkpointed.add(program.pop("checkpoints", ""))
            broken.add(o.breaks)
            if described is None:
                described, sizes, o_first = layers, dict(parameters), o
            elif layers != described:
                raise Apart
            for n, p in parameters.items():  # a buffer that half precision has in half precision, too, and what shows its own type there alone
                if "=" in p and "=" in sizes[n] and p != sizes[n]:
                    raise Unexpressed(f"{p} in one precision and {sizes[n]} in another")
                if p.endswith(("buffer bf16", "buffer f16")) and "=" not in sizes[n] or "=" in p:
                    sizes[n] = p
            programs[precision] = program
            evaluations[precision] = evaluate and evaluated(model, batch, loss, precision, points, stack, symbols, layers, folding)
            note(precision, len(o.events), len(o.nodes))
    if described is None:
        raise refused[0][1]
    whys += [f"{p} is not recorded, as the module raises {type(e).__name__}: {' '.join(str(e).split())[:200]}" for p, e in refused]
    prefix = described.name
    if described.beyond:
        notes.append(f"a layer is all that runs from one module of {prefix} to the next, and so is a checkpoint: one of the module alone keeps what "
                     "runs behind it")
    evaluations = {k: e for k, e in evaluations.items() if e}
    # What stands in one of them as a whole and in another not is adaptable in none.
    for program in (*programs.values(), *evaluations.values()):
        for part, key, within in regions.stretches(program, described):
            if apart:
                part[key] = regions.without(part[key], apart, within)
    evaluations = {k: e for k, e in evaluations.items() if regions.adaptable(e) == regions.adaptable(programs[k])}
    common = blocks.shorten((*programs.values(), *evaluations.values()), len(o_first.shapes), described.outer)
    at = [i for i, n in enumerate(names) if prefix and n.startswith(prefix + ".")]
    result = {
        "vramplan_recording": FORMAT,
        "name": (name or "module")[:200],
        "source": source or "",
        "versions": versions(),
        "sequence": 0 if length else points[0][1],
        "batch": [f"{symbols.size(s)} {DTYPES[d]}" for s, _, d in o_first.shapes],
        "parameters": [sizes[n] for n in described.outer],
        "layers": {"count": described.count, "name": prefix or "", "parameters": [], "after": at[0] if at else 0},
        "programs": programs,
        "evaluations": evaluations,
        "unfolded": whys,
        "unadaptable": sorted(apart),
        "other_stacks": other_stacks(o_first.stacks, prefix),
        "unexpressed": [n[:300] for n in notes[:64]],
    }
    if described.inner:
        first, *others = ([sizes[n] for n in names] for names in described.inner)
        result["layers"]["parameters"] = first
        if others:
            result["layers"].update(others=others, order=described.period())
    if common:
        result["blocks"] = common
    if around:
        result["holds"] = around
    result["breaks"] = broken.pop() if len(broken) == 1 else "model"
    if padded:
        result["padded"] = True
    if checkpointed != {""}:
        if len(checkpointed) > 1:
            raise Unexpressed("the module checkpoints its layers in one precision otherwise than in another")
        result["checkpoints"] = checkpointed.pop()
    body = json.dumps(result, sort_keys=True, separators=(",", ":"))
    result["digest"] = "sha256:" + hashlib.sha256(body.encode()).hexdigest()
    return result


def loops(model, batch, loss, precision, points):
    """refuses a module that does the more the more samples or tokens there are, before it does so at the sizes of the recording"""
    few = tuple(min(n, m) for n, m in zip(points[0], (3, 31)))
    try:
        events = len(run(model, batch, loss, precision, *few, backward=False)[0].events)
    except Exception:  # whatever it does at other sizes than it is recorded at
        return
    try:
        run(model, batch, loss, precision, *points[0], backward=False, most=8 * events + 4000)
    except observe.TooMany as e:
        raise Unexpressed(f"the module does the more the more there is: {events} steps for {few[0]} samples of {few[1]} tokens and {e} and more for "
                          f"{points[0][0]} of {points[0][1]}, as a loop over them does. Record it at the sizes that are planned, with --length N or "
                          "--batch N") from None
    except Exception:  # which the recording tells
        return


def both(model, batch, loss, precision, points, stack=None):
    """the runs at both points, in the second of which draws choose the share that they chose in the first"""
    first = run(model, batch, loss, precision, *points[0], stack)
    return [first, run(model, batch, loss, precision, *points[1], stack, shares=first[0].shares)]


def first_of(model, batch, loss, precision, points, at, folding):
    """the runs at both points, the layers that were left out in them, if any, and the symbols that they teach"""
    if folding:
        stack, symbols, seen = shortened(model, batch, loss, precision, points, at)
        if stack:
            compare(seen[0][0], seen[1][0], symbols)
            return seen, stack, symbols
    symbols, seen = Symbols(*at), both(model, batch, loss, precision, points)
    compare(seen[0][0], seen[1][0], symbols)
    return seen, None, symbols


def other_stacks(names, prefix):
    """the outermost lists of layers beside the one that is stored once"""
    beside = [n for n in names if prefix and not (n + ".").startswith(prefix + ".") and not (prefix + ".").startswith(n + ".")]
    return [n for n in beside if not any(n.startswith(m + ".") for m in beside)][:64]


def whole(layers, stack):
    """the layers of a run, with those that were left out of it"""
    return dataclasses.replace(layers, count=len(stack.kinds), kinds=stack.kinds) if stack else layers


def evaluated(model, batch, loss, precision, points, stack, symbols, layers, folding):
    """the program of a forward in evaluation mode and without a graph; None where it cannot be told as that of training was"""
    try:
        seen = [run(model, batch, loss, precision, *points[0], stack, evaluation=True)]
        if not all(shape_known(symbols, seen[0][0])):
            seen.append(run(model, batch, loss, precision, *points[1], stack, evaluation=True))
            compare(seen[0][0], seen[1][0], symbols)
        program, those, _ = fold.fold(seen[0][0], symbols, seen[0][1], folding)
    except Exception:  # whatever a module does in a mode that it was not made for
        return None
    program.pop("checkpoints", "")
    return program if whole(those, stack) == layers else None


# Of layers that are alike, how many run where the recorder has seen them all; of several kinds as many as show each.
FEW = 2


class Stack(typing.NamedTuple):
    """layers of which only the first few run: the name of their list, of which kind each of all is, and how many run"""

    name: str
    kinds: tuple
    few: int


def shortened(model, batch, loss, precision, points, at):
    """(the Stack of layers, symbols, the runs at both points) with all but a few of the layers left out, as soon as a forward with all of
    them shows that nothing else is different then; Nones where they cannot be left out.

    Layers whose forward is the same, operation by operation, with the same nodes and saved tensors, have the same backward.
    """
    try:
        o, names, _ = run(model, batch, loss, precision, *points[0], backward=False)
        made, layers, _ = fold.fold(o, Symbols(*at), names)
        few = max([FEW, *(1 + i for i in layers.firsts())])
        if layers.count <= few:
            return None, None, None
        stack = Stack(layers.name, layers.kinds, few)
        symbols, seen = Symbols(*at), both(model, batch, loss, precision, points, stack)
        compare(seen[0][0], seen[1][0], symbols)
        all_of_it, some = (fold.fold(x, symbols, n) for x, n in ((o, names), (seen[0][0].of_forward(), seen[0][1])))
    except Exception:  # whatever a module does that misses its layers
        return None, None, None
    if all_of_it[0] != some[0] or whole(some[1], stack) != whole(all_of_it[1], stack) or some[1].kinds != layers.kinds[:few] or \
            o.asked != seen[0][0].asked:
        return None, None, None
    return stack, symbols, seen


@contextlib.contextmanager
def without_libraries():
    """Keeps the garbage collector from looking through what was imported, again and again."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def lengths(length):
    """at which two lengths is recorded: at one alone, which a number or False gives, or below the most that length.longest says"""
    if length is True or length is None:
        return LENGTHS[0]
    if length is False:
        return LENGTHS[0][0], LENGTHS[0][0]
    if isinstance(length, int):
        return length, length
    return tuple(length)


# Beyond a sliding window attention has masks of its own. Values of larger ones than these lengths make are not computed (values.LIMIT).
BEYOND = (701, 709)


def below(longest, window=None):
    """two lengths up to the longest, beyond a window of attention where that is as short"""
    if window and window < BEYOND[0] and (longest is None or BEYOND[1] <= longest):
        return BEYOND
    return next((pair for pair in LENGTHS if longest is None or pair[1] <= longest), (longest, longest))


def versions():
    found = {"recorder": VERSION, "torch": torch.__version__.split("+")[0], "python": platform.python_version()}
    for library in ("transformers", "timm", "diffusers"):
        if library in sys.modules:
            found[library] = sys.modules[library].__version__
    return found


def its_own_loss(out, _):
    if isinstance(out, torch.Tensor):
        return out if out.dim() == 0 else out.float().mean()
    found = getattr(out, "loss", None)
    if found is None and isinstance(out, dict):
        found = out.get("loss")
    if found is None and isinstance(out, (tuple, list)):
        found = next((x for x in out if isinstance(x, torch.Tensor) and x.dim() == 0), None)
    if found is None:
        raise ValueError("the module returns no loss: give loss=, a function of what it returns and of the batch")
    return found


class Makes:
    """the module of each type of weights, made once for as many runs as leave it as it was"""

    def __init__(self, model, type):
        self.model, self.type, self.ready = model, type, {}

    def get(self, half, stack):
        """(fake mode, values, module, notes of its making), of which no run has changed anything"""
        if (half, stack) in self.ready:
            return self.ready.pop((half, stack))[:4]
        if stack and (half, None) in self.ready:
            mode, known, module, notes = self.ready.pop((half, None))[:4]
        else:
            mode, known, module, notes = self.make(half)
        if stack:
            del module.get_submodule(stack.name)[stack.few:]
        return mode, known, module, notes

    def make(self, half):
        mode, known = FakeTensorMode(allow_non_fake_inputs=True), Values()
        with mode:
            was = torch.get_default_dtype()
            torch.set_default_dtype(self.type if half else torch.float32)
            try:
                with torch.device("cuda"), patches.Uninitialized(), known, patches.making() as followed:
                    module = followed(self.model())
            finally:
                torch.set_default_dtype(was)
            elsewhere = [n for n, p in module.named_parameters() if p.device.type != "cuda"]
            if elsewhere:
                raise ValueError(f"{elsewhere[0]} was made on {module.get_parameter(elsewhere[0]).device}: make the module inside the function "
                                 "that is given")
            module.train()
        return mode, known, module, list(known.notes)

    @contextlib.contextmanager
    def borrowed(self, precision, stack):
        """a module of that precision's weights, with a few of the layers that stack names"""
        half = precision in ("half", "mixed")
        mode, known, module, notes = self.get(half, stack)
        before = again.state(module)
        known.notes = list(notes)
        yield mode, known, module
        after = again.state(module)
        if before and after and before[0] == after[0]:
            self.ready[half, stack] = mode, known, module, notes


def run(makes, batch, loss, precision, b, t, stack=None, backward=True, evaluation=False, most=None, shares=()):
    """one observation, of the module in half precision where that is asked for, with a few of the layers that stack names"""
    with makes.borrowed(precision, stack) as (mode, known, module), mode:
        with torch.device("cuda"), known:
            given = batch(b, t)
        if precision == "half":
            given = cast_inputs(given, makes.type)
        names, parameters, tensors = describe(module, makes.type if precision in ("half", "mixed") else torch.float32)
        kinds = regions.roles(module)
        with mode_of(module, evaluation, getattr(batch, "caches", None)), regions.returning(module, kinds if precision == PACKED else {}):
            o = observe.observe(module, tensors, given, loss, makes.type if precision in ("amp", "mixed", PACKED) else None, known,
                                kinds, backward, evaluation, most, shares)
        o.stacks, o.owned = regions.stacks(module), {n: p.split(" ", 1)[1] for n, p in parameters.items()}
        now = dict(module.named_buffers(remove_duplicate=False))
        for name in [n for n, t in tensors.items() if n in now and now[n] is not t]:
            # The forward puts a new tensor in its place, which is kept as any other attribute is.
            names.remove(name)
            o.parameters = {s: n for s, n in o.parameters.items() if n != name}
    return o, names, parameters


@contextlib.contextmanager
def mode_of(module, evaluation, caches):
    """evaluation mode, in which a class of transformers fills the cache again that checkpointing switched off (caches)"""
    if not evaluation:
        yield
        return
    config = getattr(module, "config", None)
    was = getattr(config, "use_cache", None)
    if caches is not None and was is not None:
        config.use_cache = caches
    trained = [m for m in module.modules() if m.training]
    module.eval()
    try:
        yield
    finally:
        for m in trained:
            m.training = True
        if caches is not None and was is not None:
            config.use_cache = was


def cast_inputs(given, half):
    def cast(x):
        return x.to(half) if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    return {k: cast(v) for k, v in given.items()} if isinstance(given, dict) else tuple(cast(v) for v in given)


def describe(module, weights):
    """parameters and buffers in the order in which module.to moves them, children first, each once; what each is; and they themselves. One whose type is
    its own, whatever the others have, has it behind "=": a parameter that is not of the type of the weights, a buffer in half precision where they are not."""
    names, sizes, seen, tensors = [], {}, set(), {}

    def visit(m, prefix):
        for child, c in m._modules.items():
            if c is not None:
                visit(c, f"{prefix}{child}.")
        for kind, table in (("p", m._parameters), ("b", m._buffers)):
            for n, p in table.items():
                if p is None or id(p) in seen:
                    continue
                seen.add(id(p))
                names.append(prefix + n)
                tensors[prefix + n] = p
                shape = "x".join(map(str, p.shape)) or "1"
                frozen = "" if kind == "b" or p.requires_grad else " frozen"
                if p.dtype not in DTYPES:
                    raise Unexpressed(f"{prefix + n} is of the type {p.dtype}, for which a recording has no name")
                own = p.dtype != weights if kind == "p" else p.dtype in HALVES and weights == torch.float32
                dtype = f" ={DTYPES[p.dtype]}" if own else "" if kind == "p" else f" {DTYPES[p.dtype]}"
                sizes[prefix + n] = f"{prefix + n} {shape} {'buffer' if kind == 'b' else 'parameter'}{dtype}{frozen}"

    visit(module, "")
    return names, sizes, tensors
