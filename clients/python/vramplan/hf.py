"""A callback for the Trainer of transformers, and for trl's SFTTrainer.

    trainer = Trainer(..., callbacks=[vramplan.hf.Callback()])
"""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, Optional

from transformers import TrainerCallback

from ._run import Watched, quietly

LIGER = {"loss": "fused-linear", "kernels": ["rope", "rmsnorm", "swiglu"]}


class _Trained(Watched):
    """A run whose arguments are the Trainer's."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        self.framework = "hf-trainer"
        self.asked = dict(self.training)

    @quietly
    def arguments(self, args: Any, trainer: Any) -> None:
        """What the Trainer does that neither the model nor a batch shows."""
        self.unclear = []
        said: dict[str, Any] = {
            "gradient_accumulation": int(args.gradient_accumulation_steps),
            "clip_grad_norm": bool(args.max_grad_norm and args.max_grad_norm > 0),
        }
        kind, place = type(args).__name__, type(args).__module__
        if place.startswith("trl."):
            self.framework = "trl"
            self._trl(args, kind, said)
        if getattr(args, "torch_compile", False):
            said["compile"] = True
        if getattr(args, "use_liger_kernel", False):
            if getattr(args, "liger_kernel_config", None):
                self.unclear.append("liger_kernel_config chooses kernels")
            said.update(LIGER)
        if getattr(args, "neftune_noise_alpha", None):
            self.unclear.append("neftune_noise_alpha adds noise to the embeddings")
        if getattr(args, "activation_offloading", False):
            self.unclear.append("activations are offloaded")
        if str(getattr(getattr(args, "eval_strategy", "no"), "value", getattr(args, "eval_strategy", "no"))) != "no":
            self._evaluation(args, trainer, said)
        self._spread(args, said)
        self.training = {**said, **self.asked}

    def _trl(self, args: Any, kind: str, said: dict[str, Any]) -> None:
        if kind != "SFTConfig":
            if "objective" not in self.asked:
                self.unclear.append(f"trl's {kind} is trained with, whose lengths no batch shows: give job=")
            return
        said["objective"] = objective = {"kind": "sft"}
        if getattr(args, "padding_free", False) or getattr(args, "packing", False):
            self.unclear.append("packed or unpadded batches, whose lengths are not the model's: give training={'objective': …}")
        if getattr(args, "loss_type", None) not in (None, "nll"):
            objective["loss_type"] = args.loss_type

    def _evaluation(self, args: Any, trainer: Any, said: dict[str, Any]) -> None:
        if trainer is None:
            self.unclear.append("an evaluation, of which the callback cannot see compute_metrics: give it to the Trainer as callbacks=[…]")
            return
        if getattr(trainer, "preprocess_logits_for_metrics", None) is not None:
            self.unclear.append("preprocess_logits_for_metrics, whose result nobody knows")
        keeps = not args.prediction_loss_only and getattr(trainer, "compute_metrics", None) is not None
        if keeps and getattr(args, "eval_accumulation_steps", None):
            self.unclear.append("eval_accumulation_steps moves logits to the host")
        said["evaluation"] = {"micro_batch": int(args.per_device_eval_batch_size), "keep_logits": keeps}

    def _spread(self, args: Any, said: dict[str, Any]) -> None:
        """How several GPUs share the work."""
        world = int(getattr(args, "world_size", 1))
        deepspeed = getattr(getattr(args, "hf_deepspeed_config", None), "config", None)
        fsdp = getattr(args, "fsdp", None) or ()
        words = [str(getattr(w, "value", w)) for w in (fsdp.split() if isinstance(fsdp, str) else fsdp if isinstance(fsdp, (list, tuple)) else [])]
        if fsdp is True:
            words = ["full_shard"]
        if int(getattr(args, "n_gpu", 1)) > 1:
            self.unclear.append("DataParallel on several GPUs of one process")
        if world <= 1 and not deepspeed and not words:
            return
        spread: dict[str, Any] = {"world_size": world}
        if deepspeed:
            # Nobody has held the document of a DeepSpeed run that this callback makes against what one takes.
            self.unclear.append("DeepSpeed: give job=")
            return
        if words:
            spread["data"] = "fsdp"
            config = getattr(args, "fsdp_config", None) or {}
            version = config.get("version", config.get("fsdp_version", os.environ.get("FSDP_VERSION")))
            if str(version) != "2":  # as for DeepSpeed
                self.unclear.append(f"FSDP of version {version or 'that the arguments do not name'}: give job=, or fsdp_config={{'version': 2}}")
                return
            spread["fsdp_version"] = 2
            for word in words:
                if word in ("full_shard", "shard_grad_op"):
                    spread["reshard_after_forward"] = word == "full_shard"
                elif word == "offload":
                    spread["offload_parameters"] = True
                elif word != "auto_wrap":
                    self.unclear.append(f"fsdp {word}")
            if config.get("activation_checkpointing"):
                said["gradient_checkpointing"] = "full"
        else:
            spread["data"] = "ddp"
            if getattr(args, "ddp_find_unused_parameters", None) is not None:
                spread["find_unused_parameters"] = bool(args.ddp_find_unused_parameters)
        said["distributed"] = spread


class Callback(TrainerCallback):
    """Says what a run of the Trainer will take before its first step, what it took after ``steps``, and why memory ran out.

    ``training`` are fields of the job document that win over what is found, ``job`` is the whole document. With ``refuse`` a run
    that does not fit raises :class:`vramplan.DoesNotFit`. ``service`` is a URL that gets what the run took, ``name`` the run's name
    there. Given to the Trainer as ``callbacks=[…]`` it sees errors as well, wherever they are caught; added later, those that nobody catches.
    """

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
        self.run = _Trained(job=job, training=training, gpu=gpu, refuse=refuse, steps=steps, service=service, key=key, name=name)
        self._trainer: Any = lambda: None

    def on_init_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The Trainer is made: its train() is watched for errors, of which callbacks are not told."""
        trainer = self._owner()
        if trainer is None:
            return
        self._trainer = weakref.ref(trainer)
        train, run = trainer.train, self.run

        def watched(*args: Any, **kwargs: Any) -> Any:
            try:
                return train(*args, **kwargs)
            except BaseException as error:
                run.failed(error)
                run.detach()
                run.ended(error)
                raise

        trainer.train = watched

    def _owner(self) -> Any:
        """The Trainer that calls: callbacks are not given it, but it is the one up the stack that has this callback."""
        frame = sys._getframe(1)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if self in getattr(getattr(owner, "callback_handler", None), "callbacks", ()):
                return owner
            frame = frame.f_back
        return None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        """The optimizer is there, and the first batch is not yet."""
        run = self.run
        run.detach()
        if self._trainer() is None:
            _uncaught(run)
        run.arguments(args, self._trainer())
        run.autocast = "bf16" if args.bf16 else "fp16" if args.fp16 else None
        if run.training.get("compile") and not {"micro_batch", "sequence_length"} <= run.training.keys() and run.given is None:
            run.say("not estimated: a hook would be compiled with the model; say training={'micro_batch': …, 'sequence_length': …}")
            return
        run.attach(model, optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A step of the optimizer is over."""
        self.run.stepped()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The run is over."""
        self.run.detach()
        self.run.ended()


def _uncaught(run: Watched) -> None:
    """Explains an error that ends the program, before Python prints it."""
    before = sys.excepthook

    def hook(kind: Any, error: BaseException, trace: Any) -> None:
        run.failed(error)
        run.ended(error)
        before(kind, error, trace)

    sys.excepthook = hook


__all__ = ["Callback"]
