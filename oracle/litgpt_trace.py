#!/usr/bin/env python3
"""Trace litgpt's own models and loops under Lightning's Fabric on the stand-in driver.

    python litgpt_trace.py jobs.ndjson --out rows.jsonl        a case a line: id, job, truth
    python litgpt_trace.py jobs.ndjson --out texts --events    a text a job: every allocation and free of an undisturbed run

Besides the stack it needs `pip install --no-deps litgpt lightning lightning-utilities torchmetrics jsonargparse docstring-parser
bitsandbytes`; estimator/testdata/litgpt.jsonl was made with litgpt 0.5.13, lightning 2.6.6, bitsandbytes 0.45.5 and torch 2.9.1.
The process runs in the environment that trace.py makes: LD_PRELOAD of the driver, STANDIN_CC, STANDIN_SMS; for bitsandbytes
BNB_CUDA_VERSION too. Jobs are documents with model.hf_config of llama, mistral, qwen2, phi, phi3, gemma or gpt_neox.
"""

import gc

import lightning
import litgpt
import litgpt.lora
import loop
import single
import standin  # noqa: F401 (first of all: it is what makes models run)
import torch
from lightning.fabric.plugins import BitsandbytesPrecision
from litgpt.utils import chunked_cross_entropy

PRECISIONS = {"bf16": "bf16-true", "fp16": "16-true", "fp32": "32-true", "amp-bf16": "bf16-mixed"}
LIST_TOKENS = 128  # litgpt/finetune/lora.py, lm_head_chunk_size


def config(job):
    """litgpt's configuration of a model of transformers; the vocabulary is not padded."""
    hf, lora = job["model"]["hf_config"], job["training"].get("lora")
    heads = hf["num_attention_heads"]
    numbers = dict(
        name="traced",
        block_size=hf.get("max_position_embeddings", 4096),
        vocab_size=hf["vocab_size"],
        padded_vocab_size=hf["vocab_size"],
        n_layer=hf["num_hidden_layers"],
        n_head=heads,
        n_embd=hf["hidden_size"],
        intermediate_size=hf["intermediate_size"],
        n_query_groups=hf.get("num_key_value_heads", heads),
        head_size=hf.get("head_dim") or hf["hidden_size"] // heads,
    )
    llama = dict(
        rotary_percentage=1.0, parallel_residual=False, bias=False, norm_class_name="RMSNorm", mlp_class_name="LLaMAMLP"
    )
    kind = hf["model_type"]
    if kind in ("llama", "mistral", "phi3"):
        numbers.update(llama)
    elif kind == "qwen2":
        numbers.update(llama, attn_bias=True)
    elif kind == "gemma":
        numbers.update(llama, mlp_class_name="GemmaMLP", scale_embeddings=True, gelu_approximate="tanh")
    elif kind == "gpt_neox":
        numbers.update(
            rotary_percentage=hf.get("rotary_pct", 0.25), parallel_residual=hf.get("use_parallel_residual", True), bias=True
        )
    elif kind == "phi":
        numbers.update(
            rotary_percentage=hf.get("partial_rotary_factor", 0.5),
            parallel_residual=True,
            shared_attention_norm=True,
            bias=True,
            lm_head_bias=True,
            gelu_approximate="tanh",
        )
    else:
        raise ValueError(f"no configuration of litgpt for {kind}")
    if not lora:
        return litgpt.Config(**numbers)
    asked = {
        "lora_query": "q_proj",
        "lora_key": "k_proj",
        "lora_value": "v_proj",
        "lora_projection": "o_proj",
        "lora_mlp": "up_proj",
        "lora_head": "lm_head",
    }
    numbers.update({word: name in lora["target_modules"] for word, name in asked.items()})
    return litgpt.lora.Config(
        **numbers, lora_r=lora["rank"], lora_alpha=2 * lora["rank"], lora_dropout=lora.get("dropout", 0.0)
    )


def fabric(training):
    """Lightning's Fabric as litgpt's setup makes it."""
    if (training.get("lora") or {}).get("base_precision") != "nf4":
        return lightning.Fabric(accelerator="cuda", devices=1, precision=PRECISIONS[training["precision"]])
    mode = "nf4-dq" if training["lora"].get("double_quantization") else "nf4"
    return lightning.Fabric(accelerator="cuda", devices=1, plugins=BitsandbytesPrecision(mode, torch.bfloat16))


def optimizer(training, parameters):
    """The optimizer that litgpt makes: bitsandbytes' paged one beside its weights, torch's otherwise."""
    if (training.get("lora") or {}).get("base_precision") == "nf4":
        import bitsandbytes

        return bitsandbytes.optim.PagedAdamW(parameters)
    fused = (training.get("optimizer") or {}).get("implementation") == "fused"
    return torch.optim.AdamW(parameters, **({"fused": True} if fused else {}))


def load(model):
    """The published weights, which are quantised as they come."""
    state = {
        name: torch.empty(p.shape if p.dtype != torch.uint8 else p.quant_state.shape, dtype=torch.bfloat16)
        for name, p in model.named_parameters()
        if "lora" not in name
    }
    model.load_state_dict(state, strict=False)
    # What Block.__init__ of lora.py makes and replaces is in cycles; in a large model the collector has long been there.
    gc.collect()


def run(job, watcher):
    """Two or three optimizer steps of finetune/lora.py or finetune/full.py."""
    training = job["training"]
    batch, tokens = training["micro_batch"], training["sequence_length"]
    accumulation = training.get("gradient_accumulation", 1)
    torch.cuda.reset_peak_memory_stats()
    engine, settings = fabric(training), config(job)
    adapters = bool(training.get("lora"))
    with engine.init_module(empty_init=False):
        plain = (litgpt.lora if adapters else litgpt.model).GPT(settings)
    if adapters:
        litgpt.lora.mark_only_lora_as_trainable(plain)
    model = engine.setup_module(plain) if adapters else engine.setup(plain)
    watcher.found("parameter", list(plain.parameters()))
    watcher.found("buffer", list(plain.buffers()))
    steps = engine.setup_optimizers(optimizer(training, model.parameters()))
    load(plain)
    plain.max_seq_length = min(tokens, settings.block_size)

    def fetch():
        return [torch.zeros((batch, tokens), dtype=torch.int64, device="cuda") for _ in range(2)]

    with watcher.watching(plain):
        ids, targets = fetch()
        for step in range(loop.steps(job)):
            for micro in range(accumulation):
                ids, targets = fetch()
                watcher.phase(f"{step}.{micro}.forward")
                if adapters:
                    logits = model(ids, lm_head_chunk_size=LIST_TOKENS)
                    logits[-1] = logits[-1][..., :-1, :]
                    loss = chunked_cross_entropy(logits, targets[..., 1:])
                else:
                    logits = model(ids)
                    loss = chunked_cross_entropy(logits[..., :-1, :], targets[..., 1:])
                watcher.phase(f"{step}.{micro}.backward")
                engine.backward(loss / accumulation)
            watcher.phase(f"{step}.optimizer")
            steps.step()
            steps.zero_grad()
    peaks = loop.statistics()
    watcher.ended()
    return {name + "_bytes": peaks[name + "_bytes"]["all"]["peak"] for name in ("allocated", "reserved")}


if __name__ == "__main__":
    single.main(run, __doc__)
