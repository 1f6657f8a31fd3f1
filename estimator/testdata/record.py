"""Record every allocation and free of a training job, in the form of testdata/traces/*.jsonl.gz.

    python record.py jobs.ndjson | gzip -9n > traces/mine.jsonl.gz

A line of jobs.ndjson is {"id": "...", "job": {a job document with model.hf_config}}. Needs torch 2.9.1, transformers 4.57.6 and a CUDA
device; nothing is downloaded, weights are random. What a job may say here: micro_batch, sequence_length, gradient_accumulation,
precision, optimizer (adamw with foreach, fused or for-loop), attention, gradient_checkpointing none or full, framework hf-trainer
(the loss alone is kept) or pytorch (the outputs are held). Use small models: a few layers show all there is.
"""
import contextlib
import gc
import json
import sys

import torch
import transformers

STORED = {"bf16": torch.bfloat16, "fp16": torch.float16}
AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
IMPLEMENTATION = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for-loop": {"foreach": False}}


def build(config, training):
    """The model on the CPU, in the type that the precision stores."""
    config = dict(config)
    head = (config.pop("architectures", None) or [None])[0]
    conf = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    conf._attn_implementation = training.get("attention", "sdpa")
    torch.set_default_dtype(STORED.get(training.get("precision"), torch.float32))
    try:
        model = getattr(transformers, head)(conf) if head else transformers.AutoModelForCausalLM.from_config(conf)
    finally:
        torch.set_default_dtype(torch.float32)
    if training.get("gradient_checkpointing") == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    return model.train()


def train(model, training, steps):
    """Optimizer steps as the loop of the framework makes them."""
    accumulation = training.get("gradient_accumulation", 1)
    holds = training.get("framework", "hf-trainer") == "pytorch"
    half = AUTOCAST.get(training.get("precision", "amp-bf16"))
    optimizer = training.get("optimizer") or {}
    optimizer = {"name": optimizer} if isinstance(optimizer, str) else optimizer
    if optimizer.get("name", "adamw") != "adamw":
        raise SystemExit("this recorder knows adamw")
    model.to("cuda")
    step = torch.optim.AdamW(model.parameters(), **IMPLEMENTATION[optimizer.get("implementation", "foreach")])
    scaler = torch.amp.GradScaler("cuda", enabled=half == torch.float16)
    shape = (training["micro_batch"], training["sequence_length"])

    def fetch():
        def ids():
            return torch.zeros(shape, dtype=torch.long).to("cuda")
        return {"input_ids": ids(), "attention_mask": torch.ones(shape, dtype=torch.long).to("cuda"), "labels": ids()}

    def forward(batch):
        with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
            out = model(**batch)
            return (out.loss, out) if holds else (out.loss, None)

    batch, outputs, loss = fetch(), None, None
    for _ in range(steps):
        for _ in range(accumulation):
            if holds:
                loss, outputs = forward(batch)
            else:
                loss = forward(batch)[0]
            if accumulation > 1:
                loss = loss / accumulation
            batch = fetch() if holds else None
            scaler.scale(loss).backward()
            if not holds:
                loss = None
                batch = fetch()
        scaler.unscale_(step)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(step)
        scaler.update()
        step.zero_grad(set_to_none=True)
    return outputs, loss, batch, step, scaler  # alive until the trace has been read


def record(job):
    """The bytes of every allocation, and minus those of every free, in order."""
    training = job["training"]
    model = build(job["model"]["hf_config"], training)
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=10_000_000)
    held = train(model, training, 2 if training.get("gradient_accumulation", 1) > 1 else 3)
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    del held, model
    events, live = [], {}
    for e in trace:
        if e["action"] == "alloc":
            live[e["addr"]] = e["size"]
            events.append(e["size"])
        elif e["action"] == "free_completed" and e["addr"] in live:
            events.append(-live.pop(e["addr"]))
    return events


def main():
    with open(sys.argv[1]) as jobs:
        for line in jobs:
            entry = json.loads(line)
            entry["events"] = record(entry["job"])
            print(json.dumps({k: entry[k] for k in ("id", "job", "events")}, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
