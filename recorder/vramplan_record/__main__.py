"""python -m vramplan_record mymodule:build --inputs mymodule:batch -o model.json"""

import argparse
import gc
import importlib
import json
import os
import sys
import traceback

import torch

from . import huggingface, libraries, recording
from .sizes import Unexpressed
from .values import Unanswered


def named(text):
    """the function that module:function names"""
    module, _, function = text.partition(":")
    sys.path.insert(0, os.getcwd())
    found = getattr(importlib.import_module(module), function or "build", None)
    if not callable(found):
        raise SystemExit(f"vramplan_record: {text} is no function of a module: module:function names one")
    return found


def place(error):
    """the line of the module that raised error"""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if os.sep + "torch" + os.sep not in f.filename and os.path.dirname(__file__) != os.path.dirname(f.filename)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "the module"


def refusal(error):
    """what is said of whatever a module does that cannot be written down: the line of the module, where one did it, and why"""
    where, why = place(error), " ".join(str(error).split())
    where = "" if where == "the module" else where + ": "
    return f"vramplan_record: this cannot be written down: {where}{why}"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="vramplan_record", description=recording.record.__doc__)
    parser.add_argument("build", nargs="?", help="module:function that makes the module")
    parser.add_argument("--inputs", help="module:function of a batch size and a length that makes the forward's arguments")
    parser.add_argument("--loss", help="module:function of the forward's output and the batch")
    parser.add_argument("--hf-config", metavar="FILE", help="a config.json of transformers instead")
    parser.add_argument("--timm", metavar="NAME", help="a model of timm instead, such as resnet50")
    parser.add_argument("--diffusers", metavar="CLASS", help="a model of diffusers instead: a class, such as UNet2DModel, or its config.json")
    parser.add_argument("--picture-size", type=int, help="with --timm and --diffusers: the side of pictures (latents), else the model's own")
    parser.add_argument("--head", choices=sorted(huggingface.HEADS), help="with --hf-config, where it names no class")
    parser.add_argument("--attention", choices=["sdpa", "eager"], help="with --hf-config")
    parser.add_argument("--no-cache", action="store_true", help="with --hf-config: no key/value cache, as gradient checkpointing has it")
    parser.add_argument("--beyond-window", action="store_true", help="with --hf-config: sequences are longer than the window of attention")
    parser.add_argument("--padded", action="store_true", help="with --hf-config: some tokens of a batch are padding, as attention_mask explicit means")
    parser.add_argument("--fixed-length", action="store_true", help="the inputs have no length, such as pictures")
    parser.add_argument("--length", type=int, help="record at this length alone: for modules that loop over their sequences")
    parser.add_argument("--target-length", type=int, help="with --hf-config of an encoder-decoder: the length of the labels, else that of the inputs")
    parser.add_argument("--precisions", default=",".join(recording.PRECISIONS), help="of amp, half, fp32 and mixed (all), and packed: a quantised base under autocast")
    parser.add_argument("--float16", action="store_true", help="half precision is float16, for modules that do something else then")
    parser.add_argument("--batch", type=int, help="record batches of so many samples alone: for modules that loop over them")
    parser.add_argument("--one-sample", action="store_true", help="for micro-batches of one sample alone, in which some tensors lie otherwise")
    parser.add_argument("--name")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    a = parser.parse_args(arguments)
    if sum(x is not None for x in (a.build, a.hf_config, a.timm, a.diffusers)) != 1:
        parser.error("give one of module:function, --hf-config, --timm and --diffusers")
    precisions = a.precisions.split(",")
    if set(precisions) - {*recording.PRECISIONS, recording.PACKED}:
        parser.error("--precisions are of amp, half, fp32, mixed and packed")
    loss = None
    gc.disable()  # until libraries are imported, as in __init__.py
    if a.hf_config:
        with open(a.hf_config) as f:
            written = json.load(f)
        model, batch, name = huggingface.from_config(written, a.head, a.attention, a.no_cache, a.target_length, a.padded,
                                                     a.beyond_window)
        source = "transformers." + name
        length = False if getattr(batch, "fixed", False) else a.length or recording.below(batch.longest, batch.window)
    elif a.timm or a.diffusers:
        make, named_by, library = (libraries.from_timm, a.timm, "timm.") if a.timm else (libraries.from_diffusers, a.diffusers, "diffusers.")
        try:
            model, batch, name = make(named_by, a.picture_size)
        except (ImportError, RuntimeError, ValueError) as e:
            raise SystemExit(f"vramplan_record: {e}") from None
        source, length = library + name, False
    else:
        if not a.inputs:
            parser.error("--inputs is missing: a function of a batch size and a length that makes the forward's arguments")
        model, batch, name, source, length = named(a.build), named(a.inputs), a.build, a.build, not a.fixed_length and (a.length or True)
        loss = named(a.loss) if a.loss else None
    gc.enable()
    try:
        made = recording.record(model, batch, loss, name=a.name or name, source=source, precisions=precisions, length=length,
                                half=torch.float16 if a.float16 else torch.bfloat16, one_sample=a.one_sample, samples=a.batch)
    except (Unexpressed, Unanswered) as e:
        raise SystemExit(refusal(e)) from None
    except RuntimeError as e:
        if not any(word in str(e) for word in ("CUDA", "NVIDIA", "PrimaryContext")):
            raise
        raise SystemExit(f"vramplan_record: this cannot be written down: {place(e)} asks a card, and none is there: {str(e).splitlines()[0]}") from None
    except KeyError as e:
        raise SystemExit(f"vramplan_record: this cannot be written down: a tensor or a node of autograd's graph ({e}) is used whose making was not "
                         "seen") from None
    with open(a.output, "w") as f:
        json.dump(made, f, indent=0)
        f.write("\n")
    layers = made["layers"]
    print(f"{made['name']}: {layers['count']} layers that repeat ({layers['name']})" if layers["count"] else f"{made['name']}: no layers that repeat")
    for line in made["unfolded"] + made["unexpressed"]:
        print("  " + line)


if __name__ == "__main__":
    main()
