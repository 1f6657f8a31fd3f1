"""Job documents as the settings of a run. Models are what transformers builds of model.hf_config, from random weights: nothing is downloaded."""

import re

PRECISION = {"amp-bf16": "amp_bf16", "amp-fp16": "amp_fp16", "fp32": "fp32", "tf32": "fp32", "bf16": "pure_bf16", "fp16": "pure_fp16"}
DTYPE = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
FRAMEWORKS = ("nanogpt", "hf-trainer", "pytorch", "accelerate", "deepspeed", "torchtitan")
# catalogue id -> compute capability x 10, streaming multiprocessors (the two facts of a GPU that decide what PyTorch allocates)
GPUS = {
    "a100-sxm4-80gb": (80, 108),
    "a100-sxm4-40gb": (80, 108),
    "a100-pcie-80gb": (80, 108),
    "a100-pcie-40gb": (80, 108),
    "h100-sxm5": (90, 132),
    "h200-sxm": (90, 132),
    "h100-pcie": (90, 114),
    "v100-sxm2-16gb": (70, 80),
    "v100-sxm2-32gb": (70, 80),
    "t4": (75, 40),
    "a10g": (86, 80),
    "rtx-3060": (86, 28),
    "rtx-3090": (86, 82),
    "rtx-a6000": (86, 84),
    "rtx-4060-ti": (89, 34),
    "rtx-4070": (89, 46),
    "rtx-4090": (89, 128),
    "l4": (89, 58),
    "l40s": (89, 142),
}


class Unsupported(ValueError):
    """The job asks for something that this tool cannot build."""


def optimizer_key(o, framework):
    o = {"name": o} if isinstance(o, str) else dict(o or {"name": "adamw"})
    name, impl = o.get("name", "adamw"), o.get("implementation")
    if name in ("adamw", "adam"):
        return f"{name}_{({None: 'foreach', 'foreach': 'foreach', 'fused': 'fused', 'for-loop': 'loop'})[impl]}"
    if name in ("sgd", "sgd-momentum"):
        return name.replace("-", "_") + ("_fused" if impl == "fused" else "")
    if name == "adafactor":
        return "adafactor_torch" if impl == "torch" else "adafactor"
    if name == "adamw-8bit":
        return "adamw8bit"
    raise Unsupported(f"optimizer {o}")


def config_of(job, name="job"):
    """The job document as the flat settings that trace.run takes."""
    m, t = job["model"], dict(job.get("training") or {})
    nano = "nanogpt" in m
    fw = t.get("framework", "nanogpt" if nano else "hf-trainer")
    hold = t.get("hold_logits", fw != "hf-trainer")
    if fw not in FRAMEWORKS:
        raise Unsupported(f"framework {fw}")
    if t.get("precision", "amp-bf16") not in PRECISION:
        raise Unsupported(f"precision {t.get('precision')}")
    if t.get("loss", "standard") != "standard" and not t.get("distributed"):
        raise Unsupported("loss other than standard")
    if t.get("gradient_checkpointing", "none") not in ("none", "full") and fw != "torchtitan":
        raise Unsupported("gradient_checkpointing other than none or full")
    c = dict(
        name=name,
        batch=t["micro_batch"],
        accum=t.get("gradient_accumulation", 1),
        precision=PRECISION[t.get("precision", "amp-bf16")],
        optimizer=optimizer_key(t.get("optimizer"), fw),
        attn={"flash": "sdpa"}.get(t.get("attention", "sdpa"), t.get("attention", "sdpa")),
        loop="nanogpt" if nano and hold else ("trainer" if not hold else ("accelerate_hold" if fw == "accelerate" else "hold")),
        ckpt=t.get("gradient_checkpointing", "none") == "full",
        compile=bool(t.get("compile")),
        clip=t.get("clip_grad_norm", True) is not False,
    )
    if nano:
        n = m["nanogpt"]
        c.update(
            family="nanogpt",
            seq=t.get("sequence_length", n["block_size"]),
            model=dict(
                L=n["n_layer"],
                h=n["n_head"],
                d=n["n_embd"],
                block=n["block_size"],
                V=n["vocab_size"],
                bias=n.get("bias", False),
                dropout=t.get("dropout", n.get("dropout", 0.0)),
            ),
        )
    elif "hf_config" in m:
        hc = m["hf_config"]
        c.update(family="hf", hf_config=hc, seq=t.get("sequence_length") or hc.get("max_position_embeddings") or hc.get("n_positions") or 1)
        if t.get("target_sequence_length"):
            c["tgt"] = t["target_sequence_length"]
    else:
        raise Unsupported("model has to be hf_config or nanogpt here")
    lo = t.get("lora")
    if lo:
        if lo.get("base_precision", "bf16") not in DTYPE:
            raise Unsupported("quantised base")
        tm = lo["target_modules"]
        c["lora"] = dict(r=lo["rank"], targets=tm, dropout=lo.get("dropout", 0.0), fp32_adapters=lo.get("adapter_dtype", "fp32") == "fp32")
        c["base_dtype"] = DTYPE[lo.get("base_precision", "bf16")]
    return c


def card(job):
    """Compute capability times ten and multiprocessors of the job's first GPU, an A100 where it names none that is known here."""
    g = (job.get("gpus") or ["a100-sxm4-80gb"])[0]
    return GPUS.get(g, GPUS["a100-sxm4-80gb"])


def gpu_env(job):
    """Environment of the stand-in driver for the job's first GPU."""
    cc, sms = card(job)
    return dict(STANDIN_CC=str(cc), STANDIN_SMS=str(sms))


def phase_of(peak_phase):
    """'s1.m3.backward' -> ('backward', step 1, micro-step 3)"""
    m = re.match(r"s(\d+)(?:\.m(\d+))?\.(\w+)$", peak_phase or "")
    if not m:
        return "load", None, None
    p = {"endfwd": "forward", "endbwd": "backward", "clip": "optimizer", "zero": "optimizer", "end": "optimizer"}.get(
        m.group(3), m.group(3)
    )
    return p, int(m.group(1)), int(m.group(2)) if m.group(2) else None


def tags_of(job):
    m, t = job["model"], job["training"]
    nano = "nanogpt" in m
    o = t.get("optimizer") or {"name": "adamw", "implementation": "foreach"}
    if isinstance(o, str):
        o = {"name": o}
    lo = t.get("lora")
    return [
        "family:" + ("nanogpt" if nano else m["hf_config"]["model_type"]),
        "precision:" + t.get("precision", "amp-bf16"),
        "optimizer:" + o["name"] + ("-" + o["implementation"] if o.get("implementation") else ""),
        "checkpointing:" + str(t.get("gradient_checkpointing", "none")),
        "attention:" + t.get("attention", "sdpa"),
        "lora:" + (lo.get("base_precision", "bf16") + "-base" if lo else "no"),
        "compile:" + ("yes" if t.get("compile") else "no"),
        "accumulation:" + ("yes" if t.get("gradient_accumulation", 1) > 1 else "no"),
        "framework:" + t.get("framework", "nanogpt" if nano else "hf-trainer"),
        "gpu:" + (job.get("gpus") or ["a100-sxm4-80gb"])[0],
    ]


def model_class(hc):
    import transformers

    a = (hc.get("architectures") or [None])[0]
    if a:
        return getattr(transformers, a)
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as names

    if hc["model_type"] not in names:
        raise Unsupported(f"no architectures, and no causal LM class for {hc['model_type']}")
    return getattr(transformers, names[hc["model_type"]])


def hf_config_object(hc, attn):
    from transformers import CONFIG_MAPPING

    hc = {k: v for k, v in hc.items() if k not in ("quantization_config", "auto_map", "attn_implementation", "_attn_implementation")}
    return CONFIG_MAPPING[hc["model_type"]].from_dict(hc, attn_implementation=attn)
