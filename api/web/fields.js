// The fields of the form, by section. A field that a job does not give is left to the framework's own default.

import { read } from "./job.js";

const number = (pointer, label, more = {}) => ({ pointer, label, kind: "number", ...more });
const choice = (pointer, label, options, more = {}) => ({ pointer, label, kind: "choice", options, ...more });
const check = (pointer, label, more = {}) => ({ pointer, label, kind: "check", ...more });

const lora = (job) => read(job, "/training/lora") !== undefined;
const several = (job) => (read(job, "/training/distributed/world_size") ?? 1) > 1;
const states = ["fp32", "bf16", "fp16"];

// batch comes first: what people change most.
export const batch = [
  number("/training/micro_batch", "Micro-batch", { hint: "sequences per pass and GPU", required: true }),
  number("/training/sequence_length", "Sequence", { hint: "tokens; empty: the model's context" }),
  number("/training/gradient_accumulation", "Accumulation", { hint: "passes per step", placeholder: "1" }),
];

export const training = [
  choice("/training/precision", "Precision", {
    "amp-bf16": "bf16 autocast", "amp-fp16": "fp16 autocast", bf16: "bf16, pure", fp16: "fp16, pure", tf32: "tf32", fp32: "fp32", fp8: "fp8",
  }),
  choice("/training/optimizer/name", "Optimizer", [
    "adamw", "adam", "sgd", "sgd-momentum", "adafactor", "lion", "adamw-8bit", "paged-adamw", "paged-adamw-8bit", "adamw-4bit", "lion-8bit",
    "muon", "galore-adamw",
  ]),
  choice("/training/optimizer/implementation", "Implementation", ["foreach", "fused", "for-loop", "bitsandbytes", "torchao", "transformers", "torch"],
    { show: (job) => read(job, "/training/optimizer") !== undefined }),
];

// more are the sections that open when somebody knows more. given says whether a job has anything of a section.
export const more = [
  {
    id: "memory", title: "Checkpointing, attention, loss, compile",
    fields: [
      choice("/training/gradient_checkpointing/mode", "Gradient checkpointing", { none: "none", full: "full: every block", selective: "selective", "selective-op": "selective-op" }),
      choice("/training/attention", "Attention", { sdpa: "sdpa", flash: "flash", eager: "eager" }),
      choice("/training/loss/kind", "Loss", { standard: "standard", fused: "fused in place", chunked: "chunked", "fused-linear": "fused-linear (Liger)" }),
      choice("/training/framework", "Framework", [
        "pytorch", "nanogpt", "hf-trainer", "accelerate", "trl", "torchtune", "torchtitan", "litgpt", "megatron", "nanotron", "deepspeed",
        "llm-foundry", "unsloth", "llama-factory", "ms-swift", "xtuner", "axolotl", "lightning",
        "sentence-transformers", "diffusers",
      ], { hint: "whose defaults the empty fields have" }),
      check("/training/compile", "torch.compile"),
      check("/training/allocator/expandable_segments", "expandable_segments"),
      check("/training/clip_grad_norm", "Gradient clipping"),
    ],
  },
  {
    id: "lora", title: "LoRA, QLoRA", pointer: "/training/lora",
    fields: [
      number("/training/lora/rank", "Rank", { placeholder: "none" }),
      choice("/training/lora/base_precision", "Base weights", { nf4: "nf4 (QLoRA)", int8: "int8", bf16: "bf16", fp16: "fp16", fp32: "fp32", "gptq-int4": "gptq-int4", "gptq-int8": "gptq-int8" }, { show: lora }),
      choice("/training/lora/adapter_dtype", "Adapters", states, { show: lora }),
      { pointer: "/training/lora/target_modules", label: "Target modules", kind: "words", placeholder: "as PEFT does", hint: "names, or all-linear", show: lora },
      check("/training/lora/dora", "DoRA", { show: lora }),
    ],
  },
  {
    id: "spread", title: "Several GPUs", pointer: "/training/distributed",
    fields: [
      number("/training/distributed/world_size", "GPUs", { placeholder: "1", hint: "all of the job's, over all hosts" }),
      choice("/training/distributed/data", "Data parallelism", { ddp: "ddp", fsdp: "fsdp", zero1: "zero1", zero2: "zero2", zero3: "zero3" }, { show: several }),
      choice("/training/distributed/fsdp_version", "FSDP version", { 1: "1", 2: "2" }, { number: true, show: (job) => read(job, "/training/distributed/data") === "fsdp" }),
    ],
  },
  {
    id: "room", title: "What else is on the card",
    fields: [
      { pointer: "/reserve_bytes", label: "Held by others", kind: "number", unit: 2 ** 20, hint: "MiB, such as a desktop's 300 to 800", placeholder: "0" },
      { pointer: "/confidence", label: "Confidence", kind: "number", step: "any", placeholder: "0.95", hint: "share of runs between low and high" },
    ],
  },
];

// models are the ways to say which model. fields of nanogpt and dimensions are the ones that most models need; others stay as the document has them.
export const models = {
  preset: { title: "Name" },
  hf_config: { title: "config.json" },
  recorded: { title: "Recording" },
  nanogpt: {
    title: "nanoGPT",
    start: { n_layer: 12, n_head: 12, n_embd: 768, block_size: 1024, vocab_size: 50304 },
    fields: [
      number("/model/nanogpt/n_layer", "n_layer"), number("/model/nanogpt/n_head", "n_head"), number("/model/nanogpt/n_embd", "n_embd"),
      number("/model/nanogpt/block_size", "block_size"), number("/model/nanogpt/vocab_size", "vocab_size"),
      number("/model/nanogpt/dropout", "dropout", { step: "any" }), check("/model/nanogpt/bias", "bias"),
    ],
  },
  dimensions: {
    title: "Numbers",
    start: { layers: 24, hidden: 2048, heads: 16, kv_heads: 8, ffn: 5632, vocab: 32000, max_positions: 4096, mlp: "swiglu", norm: "rmsnorm", position: "rope" },
    fields: [
      number("/model/dimensions/layers", "Layers"), number("/model/dimensions/hidden", "Width"), number("/model/dimensions/heads", "Heads"),
      number("/model/dimensions/kv_heads", "K/V heads"), number("/model/dimensions/ffn", "MLP width"), number("/model/dimensions/vocab", "Vocabulary"),
      number("/model/dimensions/max_positions", "Context"),
      choice("/model/dimensions/mlp", "MLP", ["gelu", "gelu_new", "relu", "relu2", "swiglu", "geglu"]),
      choice("/model/dimensions/norm", "Norm", ["layernorm", "rmsnorm"]),
      choice("/model/dimensions/position", "Positions", ["learned", "rope", "alibi", "relative", "none"]),
      check("/model/dimensions/tied_embeddings", "Tied embeddings"),
    ],
  },
};
