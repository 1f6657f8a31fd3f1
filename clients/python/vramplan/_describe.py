"""The job document of what is about to run, made from its objects: the model, its configuration, its optimizer and a batch.

Nothing is read off a text, and nothing is guessed: what the document has no words for is a line of Described.unclear, and then
there is no estimate. No library is imported here: objects are known by their classes' names and modules.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional

HALVES = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}
ATTENTION = {"sdpa": "sdpa", "eager": "eager", "flash_attention_2": "flash", "flash_attention_3": "flash"}

# What models of text are given, and what changes nothing of the memory or is described by its shape.
KNOWN_INPUTS = frozenset(
    "input_ids attention_mask labels token_type_ids decoder_input_ids decoder_attention_mask decoder_labels "
    "num_items_in_batch use_cache return_dict start_positions end_positions".split()
)

# Of torch.optim; those of other packages are below.
TORCH_OPTIMIZERS = {
    "AdamW": "adamw",
    "Adam": "adam",
    "SGD": "sgd",
    "NAdam": "nadam",
    "RAdam": "radam",
    "Adamax": "adamax",
    "Adadelta": "adadelta",
    "Adagrad": "adagrad",
    "RMSprop": "rmsprop",
    "Adafactor": "adafactor",
    "Muon": "muon",
}
BITSANDBYTES = {
    "AdamW8bit": "adamw-8bit",
    "Adam8bit": "adamw-8bit",
    "PagedAdamW": "paged-adamw",
    "PagedAdamW32bit": "paged-adamw",
    "PagedAdamW8bit": "paged-adamw-8bit",
    "Lion8bit": "lion-8bit",
}


@dataclass
class Described:
    """A job document, and why it would not be exactly what runs."""

    job: dict[str, Any]
    unclear: list[str] = field(default_factory=list)
    # What the model has: held against what the document's has.
    parameters: int = 0
    trained: int = 0


@dataclass
class Batch:
    """What a forward was given, as far as it matters to the memory."""

    rows: int
    tokens: int
    targets: Optional[int] = None
    padded: bool = False
    unclear: tuple[str, ...] = ()

    def larger(self, other: Optional["Batch"]) -> bool:
        """Whether more tokens go through the model than in another."""
        return other is None or self.rows * (self.tokens + (self.targets or 0)) > other.rows * (other.tokens + (other.targets or 0))


def batch_of(args: tuple[Any, ...], kwargs: dict[str, Any], looks: bool = True) -> Batch:
    """The batch of a call of a model. The mask is only looked at where it has to be: on a GPU that waits for it."""
    ids = kwargs.get("input_ids", args[0] if args else None)
    shape = tuple(getattr(ids, "shape", ()))
    if len(shape) != 2:
        raise ValueError("the model is not given input_ids of two dimensions: say training={'micro_batch': …, 'sequence_length': …}")
    unclear = [f"the model is given {name}" for name, v in sorted(kwargs.items()) if v is not None and name not in KNOWN_INPUTS]
    if len(args) > 1:
        unclear.append("the model is given more than input_ids without names")
    targets = next((kwargs[n] for n in ("decoder_input_ids", "labels") if kwargs.get(n) is not None), None)
    target_shape = tuple(getattr(targets, "shape", ()))
    mask = kwargs.get("attention_mask")
    if len(tuple(getattr(mask, "shape", ()))) > 2:
        unclear.append("the model is given a mask of its own")
    return Batch(
        rows=int(shape[0]),
        tokens=int(shape[1]),
        targets=int(target_shape[1]) if len(target_shape) == 2 else None,
        padded=bool(looks and mask is not None and not bool((mask != 0).all())),
        unclear=tuple(unclear),
    )


def unwrapped(model: Any) -> Any:
    """The model within torch.compile's and DistributedDataParallel's wrappers."""
    for _ in range(8):
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel"):
            inner = model.module
        if inner is None:
            return model
        model = inner
    return model


def shards(model: Any) -> Optional[list[tuple[str, Any]]]:
    """The parameters of a model that fully_shard has cut: while a layer runs, whole ones in another type stand in their places."""
    named = list(unwrapped(model).named_parameters())
    return named if any("DTensor" in (type(p).__name__, type(getattr(p, "data", p)).__name__) for _, p in named) else None


def is_described(model: Any) -> bool:
    """Whether a module is a model of transformers, with or without peft's adapters."""
    return hasattr(getattr(_base(model), "config", None), "model_type")


def _base(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def _count(parameter: Any) -> int:
    """The elements of a parameter; one that bitsandbytes packed says its shape itself."""
    shape = getattr(getattr(parameter, "quant_state", None), "shape", None)
    if shape is None:
        return int(parameter.numel())
    n = 1
    for side in shape:
        n *= int(side)
    return n


def describe(
    model: Any,
    batch: Batch,
    optimizer: Any,
    autocast: Optional[str] = None,
    framework: str = "pytorch",
    given: Optional[dict[str, Any]] = None,
    parameters: Optional[list[tuple[str, Any]]] = None,
) -> Described:
    """The job of one process: autocast is the type that operations are computed in where that is not the weights', such as "bf16";
    given are fields of the document that a loop knows better, and win; parameters are the model's, where in the middle of a forward others stand
    in their places."""
    given, whole = given or {}, unwrapped(model)
    found = Described(job={})
    base = _base(whole)
    config = getattr(base, "config", None)
    if not hasattr(config, "model_type"):
        found.unclear.append(f"{type(base).__name__} is no model of transformers: record it (docs/recording.md) and give job=")
        return found
    found.unclear += batch.unclear
    training: dict[str, Any] = {"framework": framework, "micro_batch": batch.rows, "sequence_length": batch.tokens}
    if getattr(config, "is_encoder_decoder", False) and batch.targets:
        training["target_sequence_length"] = batch.targets
    if batch.padded:
        training["attention_mask"] = "explicit"
    if whole is not model and hasattr(model, "_orig_mod"):
        training["compile"] = True
    _attention(config, training, found.unclear)
    _checkpointing(base, training, found.unclear)
    named = parameters or list(whole.named_parameters())
    _parameters(whole, base, named, autocast, training, found)
    if optimizer is not None and "optimizer" not in given:
        _optimizer(optimizer, named, training, found.unclear)
    training.update(given)
    document = json.loads(json.dumps(config.to_dict(), default=str))
    document.pop("quantization_config", None)  # said by training.lora
    document["architectures"] = [type(base).__name__]
    found.job = {"model": {"hf_config": document}, "training": training}
    return found


def _attention(config: Any, training: dict[str, Any], unclear: list[str]) -> None:
    named = getattr(config, "_attn_implementation", None)
    if isinstance(named, str):
        if named in ATTENTION:
            training["attention"] = ATTENTION[named]
        else:
            unclear.append(f"attention is {named}")


def _checkpointing(base: Any, training: dict[str, Any], unclear: list[str]) -> None:
    """Layers of transformers carry what their model was told (modeling_utils.py, _set_gradient_checkpointing)."""
    layers = [m for m in base.modules() if isinstance(getattr(m, "gradient_checkpointing", None), bool)]
    on = [m for m in layers if m.gradient_checkpointing]
    if not on:
        training["gradient_checkpointing"] = "none"
        return
    said: dict[str, Any] = {"mode": "full"}
    keywords = getattr(getattr(on[0], "_gradient_checkpointing_func", None), "keywords", {})
    if isinstance(keywords.get("use_reentrant"), bool):
        said["reentrant"] = keywords["use_reentrant"]
    training["gradient_checkpointing"] = said


def _parameters(whole: Any, base: Any, named: list[tuple[str, Any]], autocast: Optional[str], training: dict[str, Any], found: Described) -> None:
    """What weights are stored and computed in, and the adapters."""
    adapters = getattr(whole, "peft_config", None) if whole is not base else None
    quantised = _quantised(base, found.unclear)
    kinds: set[str] = set()
    adapter_kinds: set[str] = set()
    for name, parameter in named:
        n = _count(parameter)
        found.parameters += n
        if parameter.requires_grad:
            found.trained += n
        kind = str(parameter.dtype)
        own = adapters is not None and any(word in name for word in ("lora_", "modules_to_save"))
        if kind not in HALVES:
            if not quantised:
                found.unclear.append(f"{name} is stored as {kind}")
            continue
        (adapter_kinds if own else kinds).add(HALVES[kind])
    if len(kinds) > 1 and not quantised:
        found.unclear.append("weights are stored in several types: " + ", ".join(sorted(kinds)))
    stored = sorted(kinds)[-1] if kinds else "fp32"
    if adapters is None:
        if quantised:
            found.unclear.append("a quantised model without adapters")
        if autocast is None:
            training["precision"] = stored
        else:
            training["precision"] = f"amp-{autocast}"
            if stored != "fp32":
                training["states"] = {"weights": stored}
        return
    training["precision"] = f"amp-{autocast}" if autocast else stored
    training["lora"] = lora = _lora(adapters, found.unclear)
    lora.update(quantised or {"base_precision": stored})
    if quantised:
        lora["upcast_base"] = kinds == {"fp32"}
        if len(kinds) > 1:
            found.unclear.append("what is not quantised is stored in several types: " + ", ".join(sorted(kinds)))
    if len(adapter_kinds) == 1:
        lora["adapter_dtype"] = adapter_kinds.pop()
    elif adapter_kinds:
        found.unclear.append("adapters are stored in several types: " + ", ".join(sorted(adapter_kinds)))


def _quantised(base: Any, unclear: list[str]) -> dict[str, Any]:
    """How bitsandbytes stores the layers; nothing where they are as they were."""
    said: dict[str, Any] = {}
    for module in base.modules():
        name, place = type(module).__name__, type(module).__module__
        if "bitsandbytes" in place and name == "Linear4bit":
            how = {"base_precision": getattr(module.weight, "quant_type", "nf4"), "double_quantization": bool(getattr(module.weight, "compress_statistics", False))}
            if how["base_precision"] != "nf4":
                unclear.append(f"the base is quantised as {how['base_precision']}")
        elif "bitsandbytes" in place and name == "Linear8bitLt":
            how = {"base_precision": "int8"}
        elif any(package in place for package in ("torchao", "gptq", "awq", "hqq", "quanto", "aqlm")):
            unclear.append(f"layers are {place}.{name}")
            return said
        else:
            continue
        if said and said != how:
            unclear.append("layers are quantised in several ways")
        said = how
    return said


# Settings of peft's LoraConfig that change what is trained or stored, beside those that the document has.
_OTHER_LORA = (
    "layers_to_transform layer_replication rank_pattern alpha_pattern target_parameters trainable_token_indices "
    "megatron_config layers_pattern exclude_modules use_qalora corda_config lora_bias arrow_config alora_invocation_tokens"
).split()


def _lora(adapters: dict[str, Any], unclear: list[str]) -> dict[str, Any]:
    if len(adapters) != 1:
        unclear.append(f"{len(adapters)} sets of adapters")
    config = next(iter(adapters.values()))
    kind = str(getattr(config, "peft_type", "")).rsplit(".", 1)[-1]
    if kind != "LORA":
        unclear.append(f"adapters are peft's {kind}")
        return {"rank": 1}
    for name in _OTHER_LORA:
        if getattr(config, name, None):
            unclear.append(f"adapters have {name}")
    if getattr(config, "bias", "none") != "none":
        unclear.append(f"adapters train biases ({config.bias})")
    said: dict[str, Any] = {"rank": int(config.r), "alpha": float(config.lora_alpha), "dropout": float(config.lora_dropout)}
    targets = config.target_modules
    said["target_modules"] = [targets] if isinstance(targets, str) else sorted(targets or ())
    if getattr(config, "use_dora", False):
        said["dora"] = True
    if getattr(config, "modules_to_save", None):
        said["modules_to_save"] = sorted(config.modules_to_save)
    return said


def _optimizer(optimizer: Any, named: list[tuple[str, Any]], training: dict[str, Any], unclear: list[str]) -> None:
    for _ in range(4):  # accelerate's and Lightning's wrappers
        if type(optimizer).__name__ in ("AcceleratedOptimizer", "LightningOptimizer", "_FabricOptimizer"):
            optimizer = getattr(optimizer, "optimizer", None) or getattr(optimizer, "_optimizer", None)
    kind, place, groups = type(optimizer).__name__, type(optimizer).__module__, optimizer.param_groups
    said: Optional[dict[str, Any]] = None
    if place.startswith("torch.optim") and kind in TORCH_OPTIMIZERS:
        said = {"name": TORCH_OPTIMIZERS[kind]}
        ways = {(bool(g.get("fused")), g.get("foreach")) for g in groups}
        if kind == "SGD" and any(g.get("momentum") for g in groups):
            said["name"] = "sgd-momentum"
        if any(g.get("amsgrad") for g in groups):
            said["name"] = "amsgrad"
        if kind == "RMSprop" and any(g.get("momentum") or g.get("centered") for g in groups):
            unclear.append("RMSprop has momentum or is centred")
        if len(ways) > 1:
            unclear.append("groups of the optimizer run in several ways")
        fused, foreach = ways.pop()
        if kind == "Adafactor":
            said["implementation"] = "torch"
        elif fused:
            said["implementation"] = "fused"
        elif foreach is False:
            said["implementation"] = "for-loop"
        elif foreach:
            said["implementation"] = "foreach"
    elif place.startswith("transformers") and kind == "Adafactor":
        said = {"name": "adafactor", "implementation": "transformers"}
    elif "bitsandbytes" in place:
        bits = getattr(getattr(optimizer, "args", None), "optim_bits", 32)
        name = BITSANDBYTES.get(kind)
        if kind in ("AdamW", "Adam") and bits == 8:
            name = "paged-adamw-8bit" if getattr(optimizer, "is_paged", False) else "adamw-8bit"
        elif kind in ("AdamW", "Adam", "AdamW32bit") and bits == 32:
            name = "paged-adamw" if getattr(optimizer, "is_paged", False) else None
        elif kind == "Lion" and bits == 8:
            name = "lion-8bit"
        if name:
            said = {"name": name}
    if said is None:
        unclear.append(f"the optimizer is {place}.{kind}")
        return
    training["optimizer"] = said
    updated = {id(p) for g in groups for p in g["params"]}
    left = sum(1 for _, p in named if p.requires_grad and id(p) not in updated)
    if left:
        unclear.append(f"{left} parameters get gradients and are not the optimizer's")
