"""A callback for Lightning's Trainer.

    trainer = lightning.Trainer(..., callbacks=[vramplan.lightning.Callback()])
"""

from __future__ import annotations

from typing import Any, Optional

try:
    from lightning.pytorch.callbacks import Callback as _Callback
except ImportError:  # the older of its two names
    from pytorch_lightning.callbacks import Callback as _Callback

from . import _describe
from ._run import Watched, quietly


class _Fitted(Watched):
    """A run whose arguments are those of Lightning's Trainer."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.framework = "lightning"
        self.asked = dict(self.training)

    @quietly
    def begun(self, trainer: Any, module: Any) -> None:
        """The strategy has set up the model and the optimizers."""
        self.unclear = []
        said: dict[str, Any] = {
            "gradient_accumulation": int(trainer.accumulate_grad_batches),
            "clip_grad_norm": bool(trainer.gradient_clip_val) and getattr(trainer, "gradient_clip_algorithm", None) != "value",
        }
        strategy, world = type(trainer.strategy).__name__, int(trainer.world_size)
        if world > 1 or strategy not in ("SingleDeviceStrategy", "DDPStrategy"):
            # Nobody has held the document of several processes against what Lightning's take.
            self.unclear.append(f"the strategy is {strategy} on {world} GPUs: give job=")
        if trainer.gradient_clip_val and getattr(trainer, "gradient_clip_algorithm", None) == "value":
            self.unclear.append("gradients are clipped by value")
        optimizers = trainer.optimizers
        if len(optimizers) != 1:
            self.unclear.append(f"{len(optimizers)} optimizers")
        model = self._model(module)
        self.training = {**said, **self.asked}
        if self.training["gradient_accumulation"] == 1 and module.automatic_optimization:
            # Source: lightning 2.6 pytorch/loops/optimization/automatic.py (Closure.closure).
            self.training["gradient_accumulation"], self.least = 2, {"gradient_accumulation": 1}
            self.bound = (
                "Lightning lets go of gradients after the next forward, and the document's loop before it: "
                "what is said is for two micro-steps, through whose second forward gradients stay, and is the most"
            )
        self.attach(model, optimizers[0] if optimizers else None)

    def _model(self, module: Any) -> Any:
        """The model of transformers that the module trains. Whatever has parameters beside it is more than a document says."""
        found = [m for m in module.children() if _describe.is_described(_describe.unwrapped(m))]
        if len(found) != 1:
            self.unclear.append(f"the module has {len(found)} models of transformers as its attributes")
            return module
        own = {id(p) for p in found[0].parameters()}
        if any(id(p) not in own for p in module.parameters()):
            self.unclear.append("the module has parameters beside its model of transformers")
        return found[0]


class Callback(_Callback):  # type: ignore[misc]
    """Says what fit() will take before its first step, what it took after ``steps``, and why memory ran out; settings as those of
    :class:`vramplan.hf.Callback`."""

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
        super().__init__()
        self.run = _Fitted(job=job, training=training, gpu=gpu, refuse=refuse, steps=steps, service=service, key=key, name=name)
        self._global = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The loop begins."""
        self._global = trainer.global_step
        self.run.begun(trainer, pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        """A micro-step is over, and now and then a step of the optimizer."""
        if trainer.global_step > self._global:
            self._global = trainer.global_step
            self.run.stepped()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """fit() fails; Lightning raises the error again."""
        self.run.failed(exception)
        self.run.detach()
        self.run.ended(exception)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The loop is over."""
        self.run.detach()
        self.run.ended()


__all__ = ["Callback"]
