#!/usr/bin/env python3
"""Write memory snapshots of a small plain loop on the stand-in driver, as torch.cuda.memory._dump_snapshot does.

    STANDIN_TOTAL_MIB=… python snapshots.py KIND FOLDER     plain, leak or oom: KIND.pickle.gz and its job, KIND.json

In the environment that trace.py makes (LD_PRELOAD of the driver). leak keeps a float32 copy of the logits and a tensor of its own from each
step; oom is a batch that a small card has no room for. Paths before site-packages are cut; nothing else is changed.
"""

import gzip
import json
import os
import pickle
import sys

import standin  # noqa: F401 the device, before a model is built
import torch
import transformers

SIZES = dict(vocab_size=3200, hidden_size=256, intermediate_size=704, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=512)


def step(model, optimizer, rows, tokens, kept):
    ids = torch.full((rows, tokens), 3, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(input_ids=ids, labels=ids)
    if kept is not None:
        kept += [out.logits.float(), torch.empty(12345, 77, device="cuda")]
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def shortened(snapshot):
    """The snapshot with the paths of no machine."""
    seen = {}

    def frames(list_of_frames):
        for frame in list_of_frames:
            if id(frame) not in seen:
                seen[id(frame)] = frame
                name = frame["filename"]
                frame["filename"] = sys.intern("site-packages/" + name.split("site-packages/")[1] if "site-packages/" in name else "/home/user/" + os.path.basename(name))

    for segment in snapshot["segments"]:
        frames(segment["frames"])
        for block in segment["blocks"]:
            frames(block.get("frames", ()))
    for trace in snapshot["device_traces"]:
        for event in trace:
            frames(event.get("frames", ()))
    return snapshot


def main(kind, folder):
    rows, tokens = (64, 512) if kind == "oom" else (4, 128)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    try:
        kept = [] if kind == "leak" else None
        for _ in range(3):
            step(model, optimizer, rows, tokens, kept)
    except torch.OutOfMemoryError as failure:
        print(failure)
    config = json.loads(model.config.to_json_string(use_diff=False)) | {"architectures": ["LlamaForCausalLM"]}
    job = {"model": {"hf_config": config}, "training": {"framework": "pytorch", "micro_batch": rows, "sequence_length": tokens}}
    with open(os.path.join(folder, kind + ".json"), "w") as f:
        json.dump(job, f)
    with gzip.GzipFile(os.path.join(folder, kind + ".pickle.gz"), "wb", mtime=0) as f:
        pickle.dump(shortened(torch.cuda.memory._snapshot()), f)  # as _dump_snapshot does
    print(kind, torch.cuda.max_memory_allocated())


main(*sys.argv[1:])
