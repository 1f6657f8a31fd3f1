// The fields of the form, by section. A field that a job does not give is left to the framework's own default.

import { read } from "./job.js";
import { diffuses, kinds, paired, reads } from "./objective.js";

const number = (pointer, label, more = {}) => ({ pointer, label, kind: "number", ...more });
const choice = (pointer, label, options, more = {}) => ({ pointer, label, kind: "choice", options, ...more });
const check = (pointer, label, more = {}) => ({ pointer, label, kind: "check", ...more });
const text = (pointer, label, more = {}) => ({ pointer, label, kind: "text", ...more });
// json is an object that is pasted, such as a config.json.
const json = (pointer, label, more = {}) => ({ pointer, label, kind: "json", ...more });

const lora = (job) => read(job, "/training/lora") !== undefined;
const several = (job) => (read(job, "/training/distributed/world_size") ?? 1) > 1;
const dataIs = (...kinds) => (job) => several(job) && kinds.includes(read(job, "/training/distributed/data"));
const apart = (field) => (job) => several(job) && (read(job, `/training/distributed/${field}`) ?? 1) > 1;
const states = ["fp32", "bf16", "fp16"];

// pipelines and scripts are those that the service knows; a test holds them against it.
const pipelines = [
  "black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.1-schnell", "stabilityai/stable-diffusion-3-medium",
  "stabilityai/stable-diffusion-3-medium-diffusers", "stabilityai/stable-diffusion-3.5-large",
  "stabilityai/stable-diffusion-3.5-large-turbo", "stabilityai/stable-diffusion-3.5-medium",
  "stabilityai/stable-diffusion-xl-base-1.0", "stable-diffusion-v1-5/stable-diffusion-v1-5",
];
const scripts = [
  "dreambooth/train_dreambooth_lora_flux.py", "dreambooth/train_dreambooth_flux.py",
  "dreambooth/train_dreambooth_lora_sd3.py", "dreambooth/train_dreambooth_sd3.py",
  "text_to_image/train_text_to_image_lora.py", "text_to_image/train_text_to_image.py", "text_to_image/train_text_to_image_lora_sdxl.py",
  "text_to_image/train_text_to_image_sdxl.py", "controlnet/train_controlnet.py", "dreambooth/train_dreambooth.py",
  "dreambooth/train_dreambooth_lora.py", "dreambooth/train_dreambooth_lora_sdxl.py",
];

// batch comes first: what people change most.
export const batch = [
  number("/training/micro_batch", "Micro-batch", { hint: "sequences per pass and GPU", required: true }),
  number("/training/sequence_length", "Sequence", { hint: "tokens; empty: the model's context", show: (job) => !diffuses(job) && !paired(job) }),
  number("/training/objective/prompt_tokens", "Prompt", { hint: "tokens", required: true, show: paired }),
  number("/training/objective/completion_tokens", "Completion", { hint: "tokens", required: true, show: paired }),
  { pointer: "/training/resolution", label: "Resolution", kind: "pixels", placeholder: "1024", hint: "pixels a side, or height × width", required: true, show: diffuses },
  number("/training/gradient_accumulation", "Accumulation", { hint: "passes per step", placeholder: "1" }),
];

export const training = [
  choice("/training/precision", "Precision", {
    "amp-bf16": "bf16 autocast", "amp-fp16": "fp16 autocast", bf16: "bf16, pure", fp16: "fp16, pure", tf32: "tf32", fp32: "fp32",
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
    id: "kind", title: "Kind of training", show: (job) => !diffuses(job),
    fields: [
      choice("/training/objective/kind", "Objective", Object.fromEntries(Object.entries(kinds).map(([kind, { title }]) => [kind, title])), { hint: "default: the loss that the model returns" }),
      choice("/training/objective/reference", "Reference", { separate: "a model beside it", "adapter-off": "the base of the adapters", precomputed: "computed before" }, { show: reads("reference") }),
      choice("/training/objective/reference_dtype", "Reference's weights", states, { show: reads("reference_dtype") }),
      check("/training/objective/use_logits_to_keep", "Logits of completions alone", { show: reads("use_logits_to_keep") }),
      json("/training/objective/teacher/hf_config", "Teacher's config.json", { placeholder: '{"model_type": "qwen2", …}', hint: "of the student's vocabulary", required: true, show: reads("teacher") }),
      choice("/training/objective/teacher_dtype", "Teacher's weights", states, { show: reads("teacher_dtype") }),
      number("/training/objective/beta", "beta", { step: "any", hint: "empty: the trainer's", show: reads("beta") }),
      number("/training/objective/rollout_forward_batch", "Completions at once", { placeholder: "64", show: reads("rollout_forward_batch") }),
      number("/training/objective/num_generations", "Completions a prompt", { show: reads("num_generations") }),
      number("/training/objective/steps_per_generation", "Steps a generation", { show: reads("steps_per_generation") }),
      choice("/training/objective/rollout", "Completions by", { transformers: "transformers", "vllm-colocate": "vLLM on the card", "vllm-server": "vLLM elsewhere" }, { show: reads("rollout") }),
      { pointer: "/training/objective/loss_type", label: "Loss type", kind: "words", placeholder: "the trainer's", hint: "trl's loss_type", show: reads("loss_type") },
      check("/training/objective/packing", "Packing", { show: reads("packing") }),
      check("/training/objective/padding_free", "Padding-free", { show: reads("padding_free") }),
      number("/training/objective/images", "Pictures a sequence", { placeholder: "1", show: reads("images") }),
      check("/training/objective/freeze_vision", "Vision tower frozen", { show: reads("freeze_vision") }),
      choice("/training/objective/loss", "Contrastive loss", ["mnrl", "cached-mnrl", "matryoshka-mnrl", "triplet", "symmetric-mnrl", "cosent", "angle", "cosine-similarity", "contrastive", "online-contrastive", "mse"], { show: reads("loss") }),
      number("/training/objective/texts", "Texts an example", { placeholder: "2", show: reads("texts") }),
      number("/training/objective/mini_batch", "Texts at once", { placeholder: "32", show: (job) => read(job, "/training/objective/loss") === "cached-mnrl" }),
      choice("/training/objective/pooling", "Pooling", ["mean", "cls", "lasttoken"], { show: reads("pooling") }),
    ],
  },
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
      choice("/training/attention_mask", "Padding", { none: "none", explicit: "some tokens are padding" }),
      { pointer: "/training/kernels", label: "Fused kernels", kind: "words", placeholder: "none", hint: "rmsnorm, rope, swiglu …" },
      number("/training/dropout", "Dropout", { step: "any", placeholder: "the model's" }),
      number("/training/target_sequence_length", "Decoder's sequence", { hint: "tokens, with an encoder", show: (job) => !diffuses(job) && !paired(job) }),
      check("/training/compile", "torch.compile"),
      check("/training/allocator/expandable_segments", "expandable_segments"),
      check("/training/clip_grad_norm", "Gradient clipping"),
      check("/training/save", "Checkpoints are written"),
      check("/training/resume", "Starts from a checkpoint"),
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
      choice("/training/distributed/fsdp_version", "FSDP version", { 1: "1", 2: "2" }, { number: true, show: dataIs("fsdp") }),
      number("/training/distributed/shard_group", "GPUs a copy", { hint: "HSDP; empty: one copy", show: dataIs("fsdp") }),
      number("/training/distributed/tensor_parallel", "Tensor parallel", { placeholder: "1", hint: "GPUs that share each layer", show: several }),
      number("/training/distributed/pipeline_parallel", "Pipeline parallel", { placeholder: "1", hint: "stages; micro-batches: the accumulation", show: several }),
      choice("/training/distributed/pipeline_schedule", "Schedule", ["1f1b", "gpipe", "interleaved-1f1b", "interleaved-zero-bubble", "zb-v", "dualpipe-v"], { show: apart("pipeline_parallel") }),
      number("/training/distributed/virtual_pipeline", "Stages a GPU", { show: apart("pipeline_parallel") }),
      number("/training/distributed/context_parallel", "Context parallel", { placeholder: "1", hint: "GPUs that share each sequence", show: several }),
      number("/training/distributed/rank", "Rank", { placeholder: "the fullest", show: several }),
      json("/training/distributed/deepspeed", "DeepSpeed's zero_optimization", { placeholder: '{"stage": 3, "overlap_comm": true}', show: dataIs("zero1", "zero2", "zero3") }),
      check("/training/distributed/offload_optimizer", "Optimizer state in host memory", { show: dataIs("zero1", "zero2", "zero3") }),
      check("/training/distributed/offload_parameters", "Parameters in host memory", { show: dataIs("zero3") }),
    ],
  },
  {
    id: "evaluation", title: "Evaluation between steps", show: (job) => !diffuses(job),
    fields: [
      number("/training/evaluation/micro_batch", "Micro-batch of a pass", { placeholder: "none" }),
      check("/training/evaluation/keep_logits", "The logits of a pass are kept until the next"),
    ],
  },
  {
    id: "releases", title: "Releases",
    fields: ["torch", "transformers", "trl"].map((name) => text(`/training/versions/${name}`, name, { placeholder: "today's" })),
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
  diffusion: {
    title: "Pipeline",
    start: { preset: "black-forest-labs/FLUX.1-dev" },
    fields: [
      choice("/model/diffusion/preset", "Diffusion pipeline", pipelines),
      choice("/training/script", "Script of diffusers", scripts, { hint: "default: the one that trains this so" }),
      choice("/training/objective/latents", "Pictures", { "each-step": "encoded in each step", cached: "encoded before" }),
      choice("/training/objective/text_embeddings", "Prompts", { "each-step": "encoded in each step", cached: "encoded before" }),
      check("/training/objective/train_text_encoder", "Text encoder trained, too"),
      check("/training/objective/ema", "EMA of the weights"),
    ],
  },
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
