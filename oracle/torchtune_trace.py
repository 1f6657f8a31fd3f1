#!/usr/bin/env python3
"""Trace torchtune's own models under what its recipes for one GPU do, on the stand-in driver.

    python torchtune_trace.py jobs.ndjson --out rows.jsonl     a case a line: id, job, truth
    python torchtune_trace.py jobs.ndjson --out texts --events a text a job: every allocation and free of an undisturbed run

Besides the stack it needs `pip install --no-deps torchtune==0.6.1 torchao==0.14.1 torchdata omegaconf antlr4-python3-runtime==4.9.3
blobfile tiktoken sentencepiece kagglehub pycryptodomex lxml datasets`. The process runs in the environment that trace.py makes: LD_PRELOAD of the
driver, TRITON_LIBCUDA_PATH, STANDIN_CC, STANDIN_SMS. Jobs are documents with framework torchtune and model.hf_config of llama.
"""

import contextlib

import loop
import single
import standin  # noqa: F401 (first of all: it is what makes models run)
import torch
from torchtune import modules, training
from torchtune.models.llama3_2 import _component_builders as builders
from torchtune.modules.attention_utils import packed_block_causal_mask
from torchtune.modules.loss import CEWithChunkedOutputLoss
from torchtune.modules.peft import get_adapter_params, set_trainable_params

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
# What a job calls the modules that get adapters, as torchtune's builders are told.
ATTENTION = {"q_proj": "q_proj", "k_proj": "k_proj", "v_proj": "v_proj", "o_proj": "output_proj"}


def build(job):
    """The model, whose parameters are made on the device in the job's type."""
    hf, lora = job["model"]["hf_config"], job["training"].get("lora")
    sizes = dict(
        vocab_size=hf["vocab_size"],
        num_layers=hf["num_hidden_layers"],
        num_heads=hf["num_attention_heads"],
        num_kv_heads=hf.get("num_key_value_heads", hf["num_attention_heads"]),
        embed_dim=hf["hidden_size"],
        intermediate_dim=hf["intermediate_size"],
        max_seq_len=hf["max_position_embeddings"],
        tie_word_embeddings=hf.get("tie_word_embeddings", False),
    )
    if not lora:
        return builders.llama3_2(**sizes)
    targets = lora["target_modules"]
    return builders.lora_llama3_2(
        [ATTENTION[name] for name in targets if name in ATTENTION],
        apply_lora_to_mlp="up_proj" in targets,
        lora_rank=lora["rank"],
        lora_alpha=2 * lora["rank"],
        lora_dropout=lora.get("dropout", 0.0),
        quantize_base=lora.get("base_precision") == "nf4",
        **sizes,
    )


def load(model):
    """The published weights."""
    model.load_state_dict({name: torch.empty_like(p, device="cpu") for name, p in model.state_dict().items()}, assign=False)


def make_optimizer(asked, parameters):
    """That of the recipe's configuration."""
    if asked.get("name") == "adamw-8bit":
        from torchao.optim import AdamW8bit

        return AdamW8bit(parameters, lr=1e-4)
    return torch.optim.AdamW(parameters, lr=1e-4, fused=asked.get("implementation") == "fused" or None)


def run(job, watcher):
    """Two or three optimizer steps of recipes/full_finetune_single_device.py or lora_finetune_single_device.py, 0.6.1."""
    asked = job["training"]
    batch, tokens = asked["micro_batch"], asked["sequence_length"]
    accumulation = asked.get("gradient_accumulation", 1)
    compiled = asked.get("compile") or {}
    compiled = compiled if isinstance(compiled, dict) else {"model": True, "loss": True}
    checkpoints = asked.get("gradient_checkpointing") or "none"
    checkpoints = checkpoints if isinstance(checkpoints, dict) else {"mode": checkpoints}
    in_backward = (asked.get("optimizer") or {}).get("in_backward", False)
    torch.cuda.reset_peak_memory_stats()
    torch._dynamo.reset()
    with training.set_default_dtype(DTYPES[asked["precision"]]), torch.device("cuda"):
        model = build(job)
    if asked.get("lora"):
        set_trainable_params(model, get_adapter_params(model))
    if compiled.get("model"):
        training.compile_model(model, verbose=False)
    if checkpoints["mode"] == "full":
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    if (asked.get("lora") or {}).get("base_precision") != "nf4":
        load(model)
    trained = [p for p in model.parameters() if p.requires_grad]
    watcher.found("parameter", list(model.parameters()))
    watcher.found("buffer", list(model.buffers()))
    offloads = training.get_act_offloading_ctx_manager(model, bool(checkpoints.get("offload")))
    if in_backward:
        each = {p: make_optimizer(asked["optimizer"], [p]) for p in model.parameters()}
        training.register_optim_in_bwd_hooks(model=model, optim_dict=each)
        optimizer = None
    else:
        optimizer = make_optimizer(asked.get("optimizer") or {}, trained)
        optimizer.zero_grad()
    loss_of = asked.get("loss", "standard")
    if isinstance(loss_of, dict) and loss_of["kind"] == "chunked":
        loss_of = CEWithChunkedOutputLoss(num_output_chunks=loss_of.get("chunks", 8))
        model.set_num_output_chunks(loss_of.num_output_chunks)
    else:
        loss_of = torch.nn.CrossEntropyLoss(ignore_index=-100)
    if compiled.get("loss"):
        # nn.CrossEntropyLoss is a module, of which compile_loss returns a compiled one that the recipe lets go of.
        training.compile_loss(loss_of, verbose=False)
    ignored = torch.full((batch, 1), -100, device="cuda")

    def fetch():
        given = {name: torch.zeros((batch, tokens), dtype=torch.int64, device="cuda") for name in ("tokens", "labels")}
        if asked.get("attention_mask") == "explicit":
            given["mask"] = packed_block_causal_mask([torch.tensor([tokens // 2, tokens - tokens // 2])] * batch)
            given["input_pos"] = torch.zeros((batch, tokens), dtype=torch.int64, device="cuda")
        return given

    running = count = 0
    with watcher.watching(model), contextlib.ExitStack():
        for step in range(loop.steps(job)):
            for micro in range(accumulation):
                watcher.phase(f"{step}.{micro}.forward")
                given = fetch()
                here = (given["labels"] != -100).sum()
                count += here
                labels = given.pop("labels")
                with offloads:
                    logits = model(**given)
                labels = torch.hstack((labels[..., 1:], ignored[: labels.shape[0]]))
                if not isinstance(logits, list):
                    labels = labels.reshape(-1)
                    logits = logits.reshape(-1, logits.size(-1))
                loss = loss_of(logits, labels)
                del logits, labels
                loss = loss * here
                running += loss
                watcher.phase(f"{step}.{micro}.backward")
                loss.backward()
            watcher.phase(f"{step}.optimizer")
            if optimizer:
                training.scale_grads(model, 1 / count)
                if asked.get("clip_grad_norm", True):
                    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            running = count = 0
    peaks = loop.statistics()
    watcher.ended()
    return {name + "_bytes": peaks[name + "_bytes"]["all"]["peak"] for name in ("allocated", "reserved")}


if __name__ == "__main__":
    single.main(run, __doc__)
