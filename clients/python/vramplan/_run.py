"""One training run, watched: what it will take before its first step, what it took after some, and why it ran out of memory."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import tempfile
import traceback
from typing import Any, Callable, Iterator, Optional

from . import _describe, _observe, _program
from ._client import Problem


class DoesNotFit(RuntimeError):
    """A run that was stopped before its first step, because it does not fit its card; ``result`` is the estimate."""

    def __init__(self, text: str, result: dict[str, Any]):
        super().__init__(text)
        self.result = result


def quietly(method: Callable[..., Any]) -> Callable[..., Any]:
    """A fault of this package is one line, and the run goes on without it; only a run that does not fit is stopped."""

    @functools.wraps(method)
    def run(self: "Run", *args: Any, **kwargs: Any) -> Any:
        if self.broken:
            return None
        try:
            return method(self, *args, **kwargs)
        except DoesNotFit:
            raise
        except Exception as fault:
            self.broken = True
            first = (str(fault).strip() or repr(fault)).partition("\n")[0]
            self.say(f"this run is not watched any further: {type(fault).__name__}: {first}")
            return None

    return run


def gib(n: float) -> str:
    """Bytes as the program prints them."""
    return f"{n / 2**30:.2f} GiB" if n >= 2**30 else f"{n / 2**20:.1f} MiB"


def is_out_of_memory(error: Optional[BaseException]) -> bool:
    """Whether an error says that a device has no memory left."""
    if error is None:
        return False
    text = str(error)
    return type(error).__name__ == "OutOfMemoryError" or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "ALLOC_FAILED" in text)
    )


class Run:
    """What the loops' own fronts (hf, lightning, watch) have in common; they say when something happens."""

    def __init__(
        self,
        job: Optional[dict[str, Any]] = None,
        training: Optional[dict[str, Any]] = None,
        gpu: Any = None,
        refuse: bool = False,
        steps: int = 3,
        service: Optional[str] = None,
        key: Optional[str] = None,
        name: Optional[str] = None,
    ):
        self.given, self.training, self.gpu = job, dict(training or {}), gpu
        self.refuse, self.after, self.service, self.key, self.name = refuse, max(1, steps), service, key, name
        self.framework = "pytorch"
        self.autocast: Optional[str] = None
        self.unclear: list[str] = []  # what a loop knows that no document says
        # Where no document is the loop's, one that takes more stands for it: what makes the job one that takes less, and why.
        self.least: dict[str, Any] = {}
        self.bound = ""
        self.job: Optional[dict[str, Any]] = None
        self.result: Optional[dict[str, Any]] = None
        self.batch: Optional[_describe.Batch] = None
        self.parameters: Optional[list[tuple[str, Any]]] = None  # where they are others in the middle of a forward
        self.steps = 0
        self.broken = self.reported = self.explained = self.sent = False
        self.evaluated = False

    # ---- what is said

    def say(self, text: str) -> None:
        """A line of the first process."""
        if _rank() == 0:
            _observe.say(text)

    @quietly
    def predict(self, model: Any, batch: Optional[_describe.Batch], optimizer: Any) -> None:
        """Says what the run will take. A run that does not fit is stopped where that was asked for."""
        self.batch = batch
        job = self._job(model, batch, optimizer)
        if job is None:
            return
        self.job = job
        self.result = result = self._estimate(job)
        peak, verdict, training = result["peak"], result["gpus"][0] if result.get("gpus") else None, job["training"]
        shape = f"{training.get('micro_batch', 1)} × {training['sequence_length']} tokens" if "sequence_length" in training else "its batch"
        self.say(
            f"{result['model']['name']}, {shape}: {gib(peak['allocated_bytes'])} allocated, {gib(peak['reserved_bytes'])} reserved, "
            f"{gib(peak['device_bytes'])} on the card ({gib(peak['low_bytes'])} to {gib(peak['high_bytes'])}), at most in the {peak['phase']} phase"
        )
        self.say("assumed: " + "; ".join(_assumed(result["assumed"])))
        if self.bound:
            self.say(self.bound)
        if verdict is None:
            return
        if self.least and verdict["verdict"] == "does_not_fit":
            verdict = self._estimate({**job, "training": {**training, **self.least}})["gpus"][0]
        words = f"{verdict['verdict'].replace('_', ' ')}: {verdict['gpu']} has {gib(verdict['usable_bytes'])} for it"
        if verdict["verdict"] in ("does_not_fit", "unlikely"):
            words += self._way_out(job)
        self.say(words)
        if self.refuse and verdict["verdict"] == "does_not_fit":
            raise DoesNotFit(words, result)

    @quietly
    def stepped(self) -> None:
        """An optimizer step is over."""
        self.steps += 1
        if self.steps == self.after and not self.reported:
            self.reported = True
            self._compare(f"after {self.steps} steps")

    @quietly
    def grown(self, model: Any, batch: _describe.Batch, optimizer: Any) -> None:
        """A batch is larger than the one that was predicted: the comparison is with it."""
        if self.job is None or self.given is not None or not batch.larger(self.batch):
            return
        self.batch = batch
        job = self._job(model, batch, optimizer)
        if job is not None and job != self.job:
            self.job, self.result = job, None

    def failed(self, error: Optional[BaseException]) -> None:
        """The run ended with an error: one that says that memory ran out is explained. The caller raises it again."""
        if is_out_of_memory(error) and not self.explained:
            self.explained = True
            self._explain(error)

    @quietly
    def ended(self, error: Optional[BaseException] = None) -> None:
        """The run is over: a service that was named gets what it took."""
        if self.sent or not (self.service or os.environ.get("VRAMPLAN_SERVER")) or _rank() != 0:
            return
        self.sent = True
        if self.job is None:
            self.say("the run was not reported: there is no job document of it")
            return
        if self.bound:
            self.say("the run was not reported: its document is that of one that takes more")
            return
        measured = _measure(is_out_of_memory(error))
        if not measured:
            self.say("the run was not reported: it ran on no GPU of PyTorch's CUDA backend, and nothing was measured")
            return
        job = self._judged(self.job)
        _observe.report(job, measured=measured, url=self.service, key=self.key, source="python-" + self.framework, run=self.name)

    # ---- how it is found

    def _job(self, model: Any, batch: Optional[_describe.Batch], optimizer: Any) -> Optional[dict[str, Any]]:
        """The document, or None after a line that says why there is none."""
        if self.given is not None:
            return {**self.given, "training": {**self.given.get("training", {}), **self.training}}
        if batch is None:
            self.say("not estimated: no batch was seen; say training={'micro_batch': …, 'sequence_length': …}")
            return None
        found = _describe.describe(model, batch, optimizer, self.autocast, self.framework, self.training, self.parameters)
        unclear = found.unclear + self.unclear
        if unclear:
            self.say("not estimated, since no job document says it exactly: " + "; ".join(dict.fromkeys(unclear)))
            return None
        versions = {n: v for n, v in _observe.versions().items() if n in ("torch", "transformers", "peft", "trl")}
        found.job["training"].setdefault("versions", versions)
        self.counts = found.parameters, found.trained
        return found.job

    def _estimate(self, job: dict[str, Any]) -> dict[str, Any]:
        answer = self._asked(job, "estimate")
        counts = getattr(self, "counts", None)
        said = (answer["model"]["parameters"], answer["model"]["trainable_parameters"])
        if counts and counts != said and "distributed" not in job["training"]:
            self.job = None
            raise RuntimeError(
                f"the model has {counts[0]:,} parameters of which {counts[1]:,} are trained, its document {said[0]:,} and {said[1]:,}: not estimated"
            )
        return answer

    def _asked(self, job: dict[str, Any], *command: str) -> dict[str, Any]:
        """The program's answer of a job on its card; a card that the catalog does not name is given by its memory."""
        document = self._judged(job)
        answer = _program.ask(*command, "-f", "-", given=json.dumps(document))
        card = _card()
        if "type" in answer and self.gpu is None and card and all(e["pointer"].startswith("/gpus") for e in answer.get("errors", [{"pointer": ""}])):
            self.gpu = {"name": card[0], "memory_bytes": card[1]}
            answer = _program.ask(*command, "-f", "-", given=json.dumps(self._judged(job)))
        if "type" in answer and "status" in answer:
            raise Problem(answer)
        return answer

    def _judged(self, job: dict[str, Any]) -> dict[str, Any]:
        """The job with the card that it runs on."""
        card = _card()
        gpu = self.gpu or (card and card[0])
        return {**job, "gpus": [gpu]} if gpu else job

    def _way_out(self, job: dict[str, Any]) -> str:
        try:
            return _first_way(self._asked(job, "plan"))
        except Exception:  # a plan is more than an estimate, and some jobs have none
            return ""

    @quietly
    def _compare(self, when: str) -> None:
        measured = _measure(False)
        if self.job is None:
            if measured:
                self.say(f"{when}: {_figures(measured)} measured")
            return
        if not measured:
            self.say(f"{when}: nothing is measured, since this run is on no GPU of PyTorch's CUDA backend")
            return
        if self.result is None:  # a larger batch has come
            self.result = self._estimate(self.job)
            self.say(f"the largest batch so far has {self.batch.rows} × {self.batch.tokens} tokens, and is what is compared") if self.batch else None
        peak = self.result["peak"]
        parts = []
        for name, word in (("allocated_bytes", "allocated"), ("reserved_bytes", "reserved"), ("device_bytes", "process")):
            if name in measured:
                off = 100 * (peak[name] / measured[name] - 1)
                most = " at most" if self.bound else ""
                parts.append(f"{word} {gib(measured[name])} measured, {gib(peak[name])} predicted{most} ({off:+.2f} %)")
        self.say(f"{when}: " + "; ".join(parts))
        if peak["phase"] == "evaluation" and not self.evaluated:
            self.say("the predicted peak is in the evaluation, which has not run yet")

    @quietly
    def _explain(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        arguments = ["diagnose"]
        with contextlib.ExitStack() as stack:
            if self.job is not None:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vramplan-"))
                path = os.path.join(folder, "job.json")
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(self._judged(self.job), f)
                arguments.append(path)
            answer = _program.ask(*arguments, given=text)
        if "causes" not in answer:
            raise Problem(answer)
        cause = answer["causes"][0]
        _observe.say(f"out of memory: {cause['class'].replace('-', ' ')}: {cause['summary']}")
        for line in cause.get("evidence", [])[:2]:
            _observe.say("  " + line)
        way = _first_way(answer.get("plan") or {})
        helps = [a["text"] for a in cause.get("actions") or []]
        if way:
            _observe.say(way.lstrip("; "))
        elif helps:
            _observe.say("first way out: " + helps[0])


def _first_way(plan: dict[str, Any]) -> str:
    """The first option of a plan that fits, with its bytes."""
    for option in plan.get("options") or []:
        if option.get("verdict") == "fits":
            settings = ", ".join(option.get("settings") or [])
            return f"; first way out: {option['title']}: {gib(option['device_bytes'])}" + (f" ({settings})" if settings else "")
    cards = plan.get("smallest_gpus") or []
    return f"; no setting makes it fit; it fits on {cards[0]}" if cards else ""


def _assumed(assumed: dict[str, Any]) -> list[str]:
    """Each field that the answer names, in its words. Its field training is a document of the same, and of more."""
    lines = []
    for name, value in assumed.items():
        if name == "training":
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v}" for k, v in value.items())
        lines.append(f"{name.replace('_', ' ')} {value}")
    return lines


def _figures(measured: dict[str, Any]) -> str:
    return ", ".join(f"{gib(v)} {n.partition('_')[0]}" for n, v in measured.items() if n.endswith("_bytes"))


def _torch() -> Any:
    """PyTorch where it is loaded and has begun a GPU of its CUDA backend; else None."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return torch if cuda is not None and cuda.is_available() and cuda.is_initialized() else None


def _rank() -> int:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return 0


def _card() -> Optional[tuple[str, int]]:
    """The name and the memory of the GPU that this process uses."""
    torch = _torch()
    if torch is None:
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return str(properties.name), int(properties.total_memory)


def _measure(out_of_memory: bool) -> dict[str, Any]:
    return _observe.measure(out_of_memory) if _torch() is not None else {}


class Watched(Run):
    """A run of which forwards and optimizer steps are seen by hooks of PyTorch: a plain loop, and what Lightning does."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.model: Any = None
        self.optimizer: Any = None
        self.pending: Optional[_describe.Batch] = None
        self.predicted = False
        self.handles: list[Any] = []

    @quietly
    def attach(self, model: Any, optimizer: Any) -> None:
        """Asks to be called before forwards of the model. Nothing stays in the graph of a model that is compiled: its wrapper is asked."""
        self.model, self.optimizer = model, optimizer
        self.parameters = _describe.shards(model)
        if self.given is not None or {"micro_batch", "sequence_length"} <= self.training.keys():
            if self.given is None:
                self.pending = _describe.Batch(int(self.training["micro_batch"]), int(self.training["sequence_length"]), self.training.get("target_sequence_length"))
            if self.given is not None or self.autocast is not None:
                self.predicted = True
                self.predict(model, self.pending, optimizer)
                return
        self.handles.append(model.register_forward_pre_hook(self._forward, with_kwargs=True))
        # accelerate enters autocast inside of the model's forward: what is computed in is asked where its first layer begins
        whole = _describe.unwrapped(model)
        first = whole.get_input_embeddings() if hasattr(whole, "get_input_embeddings") and not hasattr(model, "_orig_mod") else None
        if first is not None:
            self.handles.append(first.register_forward_pre_hook(self._began))
        self.has_first = first is not None

    @quietly
    def _forward(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not model.training:
            self.evaluated = True
            return
        if self.pending is None or not {"micro_batch", "sequence_length"} <= self.training.keys():
            batch = _describe.batch_of(args, kwargs, looks=False)
            if batch.larger(self.batch):
                self.pending = _describe.batch_of(args, kwargs)
        if not self.has_first:
            self._began()

    @quietly
    def _began(self, *_: Any) -> None:
        if self.pending is None:
            return
        batch, self.pending = self.pending, None
        if self.predicted:
            self.grown(self.model, batch, self.optimizer)
            return
        self.predicted = True
        if self.autocast is None:
            self.autocast = _autocast()
        self.predict(self.model, batch, self.optimizer)

    def detach(self) -> None:
        """No call any more."""
        for handle in self.handles:
            handle.remove()
        self.handles = []


def _autocast() -> Optional[str]:
    """What operations on this process's device are computed in here; None where that is the weights' own type."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    device = "cuda" if _torch() is not None else "cpu"
    try:
        on = torch.is_autocast_enabled(device)
        kind = torch.get_autocast_dtype(device)
    except TypeError:  # before torch 2.4 there are functions for each device
        on = torch.is_autocast_enabled() if device == "cuda" else torch.is_autocast_cpu_enabled()
        kind = torch.get_autocast_gpu_dtype() if device == "cuda" else torch.get_autocast_cpu_dtype()
    return _describe.HALVES.get(str(kind)) if on else None


@contextlib.contextmanager
def watch(
    model: Any,
    optimizer: Any,
    job: Optional[dict[str, Any]] = None,
    training: Optional[dict[str, Any]] = None,
    gpu: Any = None,
    refuse: bool = False,
    steps: int = 3,
    service: Optional[str] = None,
    key: Optional[str] = None,
    name: Optional[str] = None,
) -> Iterator[Run]:
    """Watches a loop of your own: says what it will take before the first layer runs, and what it took after so many steps.

    ``training`` are fields of the job document that only the loop knows (``gradient_accumulation``, ``clip_grad_norm``,
    ``hold_logits``), ``job`` the whole document where the model is none of transformers. ``refuse`` raises
    :class:`DoesNotFit` before the first step of a run that does not fit. ``service`` is a URL that gets what the run took.
    """
    run = Watched(job=job, training=training, gpu=gpu, refuse=refuse, steps=steps, service=service, key=key, name=name)
    run.attach(model, optimizer)
    with contextlib.suppress(Exception):
        run.handles.append(optimizer.register_step_post_hook(lambda *_: run.stepped()))
    error: Optional[BaseException] = None
    try:
        yield run
    except BaseException as raised:
        error = raised
        run.failed(raised)
        raise
    finally:
        run.detach()
        run.ended(error)
