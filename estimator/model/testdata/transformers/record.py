"""Count the parameters of every causal language model of transformers, without weights.

    python record.py | gzip -9n > causal.jsonl.gz               the default configuration of every model_type, and published sizes
    python record.py --keys | gzip -9n > keys.jsonl.gz          and each key of it changed, one at a time, on few layers
    python record.py --types > ../../transformers_types.txt

A line is {"model_type", "class", "config", "parameters"}: the configuration as save_pretrained writes it, and the
elements of the distinct parameters of the class that AutoModelForCausalLM takes for it, built on the meta device.
Where it does not build, "error" says why. With --keys, each of "changed" is a key, what it changes in the file, and the count.
Needs torch and transformers 5.23.0; nothing is downloaded.
"""
import json
import signal
import sys

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

transformers.logging.set_verbosity_error()
# Keys that never reach a module's shape: they are not changed one by one.
SKIPPED = {"model_type", "transformers_version", "architectures", "dtype", "torch_dtype"}
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")


def build(config):
    signal.alarm(120)
    try:
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        return type(model).__name__, sum(p.numel() for p in model.parameters())
    finally:
        signal.alarm(0)


def plain(value):
    """The value as JSON has it; it has no infinity."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


def written(config):
    """What save_pretrained writes."""
    return plain(json.loads(config.to_json_string(use_diff=True)))


def line(config):
    out = {"model_type": config.model_type, "config": written(config)}
    try:
        out["class"], out["parameters"] = build(config)
    except Exception as e:  # whatever the library raises is the finding
        out["error"] = f"{type(e).__name__}: {e}"[:200]
    return out


ACTIVATIONS = {"hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act"}


def other(key, value):
    """Values to try in place of one, the likeliest first."""
    if key in ACTIVATIONS and isinstance(value, str):
        return ["gelu_new" if value == "relu2" else "relu2", "gelu"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2, value // 2, value + 1] if value > 1 else [2, 4, 0]
    if isinstance(value, float):
        return [value / 2, 0.5]
    return []


def shallow(cls, size):
    """The configuration with few layers, where the class can be had with few."""
    whole = cls(**size).to_dict()
    for few in ({k: 4 for k in LAYERS if isinstance(whole.get(k), int) and whole[k] > 4}, {}):
        try:
            build(cls(**{**size, **few}))
            return {**size, **few}
        except Exception:
            continue
    return None


def keys(cls, size):
    """The count with each key changed; a row is [key, what differs in the file, the count]."""
    few = shallow(cls, size)
    if few is None:
        return None
    base = cls(**few)
    start, rows = written(base), []
    for key, value in plain(base.to_dict()).items():
        if key in SKIPPED or key in LAYERS or key.startswith("_"):
            continue
        for changed in other(key, value):
            try:
                config = cls(**{**few, key: changed})
                n = build(config)[1]
            except Exception:
                continue
            now = written(config)
            rows.append([key, {k: v for k, v in now.items() if k not in start or start[k] != v}, n])
            break
    return {**line(base), "changed": rows}


# Sizes as they are published, of classes whose default cannot be built or is nobody's.
SIZES = [
    ("nemotron", {"num_key_value_heads": 8, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32,
                  "num_attention_heads": 32}),
    ("hunyuan_v1_dense", {"head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 16,
                          "num_key_value_heads": 4, "vocab_size": 120818, "tie_word_embeddings": True}),
    ("hunyuan_v1_moe", {"head_dim": 128, "num_experts": 8, "moe_topk": 2}),
    ("ministral", {"head_dim": 128, "num_hidden_layers": 36, "intermediate_size": 12288, "vocab_size": 131072}),
    ("exaone4", {"hidden_size": 2048, "intermediate_size": 4096, "num_hidden_layers": 30, "num_key_value_heads": 8, "tie_word_embeddings": True}),
    ("ernie4_5", {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 18, "num_attention_heads": 16,
                  "num_key_value_heads": 2, "vocab_size": 103424, "tie_word_embeddings": True}),
    ("granitemoe", {"hidden_size": 1024, "intermediate_size": 512, "num_hidden_layers": 24, "num_attention_heads": 16,
                    "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 8, "vocab_size": 49155,
                    "tie_word_embeddings": True, "embedding_multiplier": 12.0, "logits_scaling": 6.0, "residual_multiplier": 0.22}),
    ("codegen", {"n_embd": 1024, "n_layer": 20, "n_head": 16, "rotary_dim": 32, "vocab_size": 51200}),
    ("dots1", {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1}),
    ("phi", {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "vocab_size": 51200,
             "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.4}}),
    ("gemma4_text", {"hidden_size": 1536, "num_hidden_layers": 35, "num_kv_shared_layers": 20, "use_double_wide_mlp": True,
                     "intermediate_size": 6144, "num_key_value_heads": 1}),
    ("gpt_oss", {"num_hidden_layers": 24, "num_local_experts": 32}),
    ("qwen3_moe", {"hidden_size": 2048, "num_hidden_layers": 48, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True}),
]


def main():
    if "--types" in sys.argv:
        print("\n".join(sorted(CONFIG_MAPPING_NAMES)))
        return
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    classes = {c.model_type: c for c in MODEL_FOR_CAUSAL_LM_MAPPING}
    for kind, size in [(m, {}) for m in sorted(classes)] + SIZES:
        if only and kind not in only:
            continue
        print(kind, file=sys.stderr, flush=True)
        try:
            out = keys(classes[kind], size) if "--keys" in sys.argv else line(classes[kind](**size))
        except Exception as e:
            out = {"model_type": kind, "error": f"{type(e).__name__}: {e}"[:200]}
        if out is not None:
            print(json.dumps(out, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
