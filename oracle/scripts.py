#!/usr/bin/env python3
"""Trace diffusers' own training scripts on the stand-in driver.

    EXAMPLES=…/diffusers/examples python scripts.py jobs.ndjson --out rows.jsonl      a case a line

The scripts (those of tag v0.39.0) run as they are. `from_pretrained` makes the models of the job's configurations, tokenizers give ids of
their longest, the pictures are blank, and the run ends after two optimizer steps. training.arguments are further ones of the script's.
`pip install diffusers==0.39.0 datasets torchvision pillow sentencepiece protobuf` beside a stack's releases.
"""

import json
import os
import runpy
import sys
import tempfile

import passes

STEPS = 3  # zero_grad of the third would come after what the second leaves
MIXED = {"amp-bf16": "bf16", "amp-fp16": "fp16", "fp32": "no"}
CLIP_TOKENS, T5_TOKENS = 77, 512
# Where a job leaves the scheduler out; nothing of it changes the memory.
SCHEDULERS = {
    "sd3": {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 3.0},
    "unet": {
        "_class_name": "DDPMScheduler",
        "beta_start": 0.00085,
        "beta_end": 0.012,
        "beta_schedule": "scaled_linear",
        "num_train_timesteps": 1000,
        "clip_sample": False,
    },
}


class Ids(dict):
    __getattr__ = dict.__getitem__


class Tokens:
    """What a tokenizer gives with padding to its longest."""

    def __init__(self, most):
        self.model_max_length = most

    def __call__(self, text, max_length=None, **_):
        import torch

        rows, columns = 1 if isinstance(text, str) else len(text), max_length or self.model_max_length
        ids = torch.ones(rows, columns, dtype=torch.long)
        return Ids(input_ids=ids, attention_mask=torch.ones_like(ids), length=[columns] * rows, overflowing_tokens=None)

    def batch_decode(self, ids, **_):
        return ["x"] * len(ids)

    def save_pretrained(self, *_, **__):
        pass


def made_of_configurations(base):
    """from_pretrained of a class makes the model of config.json, without weights."""

    def load(of, path, *_, subfolder="", torch_dtype=None, dtype=None, **__):
        import torch
        import transformers

        folder = os.path.join(path, subfolder)
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        stored = torch.bfloat16 if os.path.exists(os.path.join(folder, "frozen-bf16")) else torch.float32
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch_dtype or dtype or stored)
        try:
            if issubclass(of, transformers.PreTrainedModel):
                return of(of.config_class.from_dict(config)).eval()
            return of.from_config({k: v for k, v in config.items() if not k.startswith("_")}).eval()
        finally:
            torch.set_default_dtype(before)

    base.from_pretrained = classmethod(load)


def patch():
    """What a script would fetch is made."""
    import accelerate
    import accelerate.accelerator
    import diffusers
    import transformers

    for base in (diffusers.ModelMixin, transformers.PreTrainedModel, diffusers.AutoencoderKL):
        if "from_pretrained" in vars(base):
            made_of_configurations(base)

    def tokens(_, path, *args, subfolder="", **__):
        return Tokens(T5_TOKENS if os.path.exists(os.path.join(path, subfolder, "t5")) else CLIP_TOKENS)

    for name in ("AutoTokenizer", "CLIPTokenizer", "T5TokenizerFast", "T5Tokenizer"):
        getattr(transformers, name).from_pretrained = classmethod(tokens)
    accelerate.accelerator.filter_trackers = lambda *_, **__: []
    accelerate.Accelerator.init_trackers = accelerate.Accelerator.log = lambda *_, **__: None


def pipeline(parts):
    """The pipeline as a folder of configurations, as the hub has it."""
    top, frozen = tempfile.mkdtemp(), set(parts.get("_frozen_bf16", ()))

    def put(name, config, half, file="config.json"):
        os.makedirs(f"{top}/{name}")
        with open(f"{top}/{name}/{file}", "w") as f:
            json.dump(config, f)
        if half:
            open(f"{top}/{name}/frozen-bf16", "w").close()

    for name in ("unet", "transformer", "vae", "controlnet"):
        if name in parts:
            put(name, parts[name], name in frozen)
    for i, config in enumerate(parts["text_encoders"]):
        suffix = f"_{i + 1}" if i else ""
        put("text_encoder" + suffix, config, "text_encoders" in frozen)
        os.makedirs(f"{top}/tokenizer{suffix}")
        if config["model_type"] == "t5":
            open(f"{top}/tokenizer{suffix}/t5", "w").close()
    scheduler = parts.get("scheduler") or SCHEDULERS["sd3" if "transformer" in parts else "unet"]
    put("scheduler", scheduler, False, "scheduler_config.json")
    with open(f"{top}/model_index.json", "w") as f:
        json.dump(dict(scheduler=["diffusers", scheduler["_class_name"]]), f)
    return top


def pictures(number, size, script):
    """A folder of blank pictures, with a caption each where the script reads captions."""
    from PIL import Image

    folder, rows = tempfile.mkdtemp(), []
    for i in range(number):
        Image.new("RGB", (size, size)).save(f"{folder}/{i}.png")
        row = dict(file_name=f"{i}.png", text="a photo")
        if "controlnet" in script:
            row["conditioning_image_file_name"] = row["file_name"]
        rows.append(json.dumps(row) + "\n")
    if "dreambooth" not in script:
        with open(f"{folder}/metadata.jsonl", "w") as f:
            f.writelines(rows)
    return folder


def arguments(job):
    """The script's command line."""
    t = job["training"]
    o, script, cache = t["objective"], t["script"], tempfile.mkdtemp()
    accumulation = t.get("gradient_accumulation", 1)
    data = pictures(t["micro_batch"] * accumulation * STEPS, t["resolution"], script)
    given = [script]

    def add(name, value=None):
        given.extend(["--" + name] + ([] if value is None else [str(value)]))

    add("pretrained_model_name_or_path", pipeline(job["model"]["diffusion"]))
    add("output_dir", tempfile.mkdtemp())
    add("resolution", t["resolution"])
    add("train_batch_size", t["micro_batch"])
    add("gradient_accumulation_steps", accumulation)
    add("max_train_steps", STEPS)
    add("mixed_precision", MIXED[t.get("precision", "amp-bf16")])
    add("dataloader_num_workers", 0)
    add("checkpointing_steps", 100000)
    if "dreambooth" in script:
        add("instance_data_dir", data)
        add("instance_prompt", "a photo of sks dog")
    else:
        add("train_data_dir", data)
        add("cache_dir", cache)
    if "controlnet" in script:
        add("image_column", "image")
        add("caption_column", "text")
        add("conditioning_image_column", "conditioning_image")
    if t.get("gradient_checkpointing") == "full":
        add("gradient_checkpointing")
    if o.get("ema"):
        add("use_ema")
    if t.get("lora"):
        add("rank", t["lora"]["rank"])
    if o.get("train_text_encoder"):
        add("train_text_encoder")
    if o.get("latents") == "cached" and ("flux" in script or "lora_sd3" in script):
        add("cache_latents")
    return given + t.get("arguments", [])


def train(job):
    """Two optimizer steps of the script."""
    import standin  # noqa: F401 the device, before a model is built

    patch()
    sys.argv = arguments(job)
    runpy.run_path(os.path.join(os.environ["EXAMPLES"], job["training"]["script"]), run_name="__main__")


if __name__ == "__main__":
    # diffusers asks for the device when it is imported
    passes.run(("torch", "transformers", "datasets", "peft", "accelerate", "values"), train, __doc__, until=2)
