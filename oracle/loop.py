"""One run of a job on the device: the model is loaded, two or three optimizer steps follow, and the allocator is watched."""

import contextlib
import gc
import re

import models
import optimizers
import passes
import standin
import torch
import values

AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


class Watcher:
    """What a run tells of itself while it goes on. This one listens to nothing; recording.Recorder writes it down."""

    def phase(self, name):
        """A part of the step begins."""

    def found(self, kind, tensors):
        """These tensors are of that kind."""

    def ended(self):
        """The last step is over, and what its loop holds is still alive: what follows is not the job's."""

    def watching(self, model):
        """A context around all that is done on the device once the model is there."""
        return contextlib.nullcontext()


def statistics():
    """PyTorch's own counters."""
    return torch._C._cuda_memoryStats(0)


def clean():
    """Give back everything that a run left on the device."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.clear_autocast_cache()
    gc.collect()
    torch.cuda.empty_cache()


def freeze(model, patterns):
    """Parameters in whose name a pattern stands as whole parts are not trained: words with stars, numbers, ranges of numbers."""

    def part(word):
        if ends := re.fullmatch(r"(\d+)-(\d+)", word):
            return "(?:" + "|".join(map(str, range(int(ends[1]), int(ends[2]) + 1))) + ")"
        return r"[^.]*".join(map(re.escape, word.split("*")))

    whole = (r"\.".join(map(part, p.split("."))) for p in patterns)
    found = re.compile("|".join(rf"(?:^|\.)(?:{p})(?:\.|$)" for p in whole))
    for name, parameter in model.named_parameters():
        if found.search(name):
            parameter.requires_grad_(False)


def load(job):
    """The model of the job, with adapters and checkpointing, still on the CPU; what is called for its forward; its batches."""
    model, batch, *own = models.build(job)
    training = job["training"]
    checkpoints, lora = models.checkpoints(job), training.get("lora")
    checkpointing = checkpoints is not None
    if checkpointing and not own and "nanogpt" not in job["model"]:
        reentrant = checkpoints.get("reentrant")
        if model.config.model_type == "whisper":
            # The decoder gets the encoder's output as a keyword, which reentrant checkpointing would run backward through twice.
            reentrant = False
        given = {} if reentrant is None else dict(gradient_checkpointing_kwargs=dict(use_reentrant=reentrant))
        model.gradient_checkpointing_enable(**given)
    if training.get("freeze"):
        freeze(model, training["freeze"])
    if lora:
        import peft

        if checkpointing:
            model.enable_input_require_grads()
        adapters = peft.LoraConfig(
            r=lora["rank"],
            lora_alpha=lora.get("alpha", 2 * lora["rank"]),
            target_modules=lora["target_modules"],
            lora_dropout=lora.get("dropout", 0.0),
            use_dora=lora.get("dora", False),
            modules_to_save=lora.get("modules_to_save"),
            **{name: lora[name] for name in passes.OF_PEFT if name in lora},
        )
        model = peft.get_peft_model(model, adapters, autocast_adapter_dtype=lora.get("adapter_dtype", "fp32") == "fp32")
    if own:
        return model.train(), own[0], batch
    if training.get("compile"):
        torch._dynamo.reset()  # the wrappers of transformers are the same code for all models, and few graphs of one are kept
    return model.train(), torch.compile(model) if training.get("compile") else model, batch


def framework(job):
    """The loop that the job means: what it holds while backward runs."""
    return job["training"].get("framework", "nanogpt" if "nanogpt" in job["model"] else "hf-trainer")


def holds(job):
    """Whether a variable of the loop keeps the model's outputs: nanoGPT's and plain loops do, the Trainer keeps the loss alone."""
    return job["training"].get("hold_logits", framework(job) != "hf-trainer")


def steps(job):
    """After how many optimizer steps nothing new happens."""
    return 3 if job["training"].get("gradient_accumulation", 1) == 1 else 2


def run(job, loaded=None, watcher=None):
    """Runs the job's steps and returns the allocator's peaks; loaded is what load returned, to be used again."""
    watcher = watcher or Watcher()
    training = job["training"]
    standin.padding = training.get("attention_mask") == "explicit"
    left = statistics()["allocated_bytes"]["all"]["current"]
    if left:
        raise RuntimeError(f"{left} bytes are left of the run before")
    torch.cuda.reset_peak_memory_stats()
    torch.backends.cuda.matmul.allow_tf32 = True
    model, forward, batch = loaded or load(job)
    model.to("cuda")
    trained = [p for p in model.parameters() if p.requires_grad]
    watcher.found("parameter", list(model.parameters()))
    watcher.found("buffer", list(model.buffers()))
    optimizer = optimizers.make(training.get("optimizer"), [(n, p) for n, p in model.named_parameters() if p.requires_grad])
    known = values.Values() if models.sees(job) else None
    if known:
        known.follow(model)
    with watcher.watching(model), known or contextlib.nullcontext():
        steady = _steps(job, model, forward, batch, trained, optimizer, watcher, known)
    peaks = statistics()
    counted = dict(
        parameters=sum(p.numel() for p in model.parameters()),
        trainable_parameters=sum(p.numel() for p in trained),
        allocated_bytes=peaks["allocated_bytes"]["all"]["peak"],
        requested_bytes=peaks["requested_bytes"]["all"]["peak"],
        reserved_bytes=peaks["reserved_bytes"]["all"]["peak"],
        steady_bytes=steady,
    )
    if loaded:
        for p in trained:
            p.grad = None
        model.to("cpu")
    return counted


def _evaluate(model, fetch, call, keeps):
    """Two batches between optimizer steps: the second finds what the first has left."""
    model.eval()
    logits = None
    with torch.no_grad():
        for _ in range(2):
            args, kwargs = fetch()
            loss, out = call(args, kwargs)
            if keeps:
                logits = out if torch.is_tensor(out) else out.get("logits", out[1])
            del loss, out, args, kwargs
    del logits
    model.train()


def _steps(job, model, forward, batch, trained, optimizer, watcher, known=None):
    training, keeps = job["training"], holds(job)
    accumulation, half = training.get("gradient_accumulation", 1), AUTOCAST.get(training.get("precision", "amp-bf16"))
    scaler = torch.amp.GradScaler("cuda", enabled=half == torch.float16)
    clips = training.get("clip_grad_norm", True) is not False

    evaluation = training.get("evaluation")

    def fetch(*rows):
        args, kwargs = batch(*rows)
        watcher.found("input", [*args, *(v for v in kwargs.values() if isinstance(v, torch.Tensor))])
        return args, kwargs

    def call(args, kwargs, keeps=keeps):
        with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
            out = forward(*args, **kwargs)
            if not keeps:
                return out.loss, None
        if framework(job) == "accelerate":  # which makes all outputs float32
            from accelerate.utils.operations import convert_to_fp32

            out = convert_to_fp32(out)
        return (out[1], out[0]) if isinstance(out, tuple) else (out.loss, out)

    watcher.phase("load")
    args, kwargs = fetch()
    held = loss = None
    for step in range(steps(job)):
        for micro in range(accumulation):
            watcher.phase(f"{step}.{micro}.forward")
            if keeps:
                loss, held = call(args, kwargs)
            else:
                loss = call(args, kwargs)[0]
            if accumulation > 1:
                loss = loss / accumulation
            if keeps:
                args, kwargs = fetch()  # nanoGPT fetches the next batch while the forward runs
            else:
                del args, kwargs
            watcher.phase(f"{step}.{micro}.backward")
            if known:
                known.backward()
            scaler.scale(loss).backward()
            if known:
                known.backward_ended()
            watcher.found("gradient", [p.grad for p in trained if p.grad is not None])
            if not keeps:
                del loss
                loss = None
                args, kwargs = fetch()
        watcher.phase(f"{step}.optimizer")
        if clips:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
        scaler.step(optimizer)
        scaler.update()
        watcher.found("optimizer_state", [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)])
        optimizer.zero_grad(set_to_none=True)
        steady = statistics()["allocated_bytes"]["all"]["current"]
        if evaluation is not None:
            watcher.phase(f"{step}.evaluation")
            rows = evaluation.get("micro_batch", training["micro_batch"])
            _evaluate(model, lambda: fetch(rows), lambda *given: call(*given, keeps=True), evaluation.get("keep_logits", False))
    watcher.ended()
    return steady
