// Kinds of training: which fields of the objective, and which lengths, each kind has, and what a job loses when its kind changes.

import { objective, read, write } from "./job.js";

// kinds are the trainers that the form offers, in the order in which it offers them, with the fields of training.objective that each reads.
const preference = ["prompt_tokens", "completion_tokens"];
const generated = [...preference, "num_generations", "steps_per_generation", "rollout", "beta"];
export const kinds = {
  sft: { title: "SFT (trl)", fields: ["loss_type", "packing", "padding_free"] },
  dpo: { title: "DPO", fields: [...preference, "reference", "reference_dtype", "loss_type", "use_logits_to_keep"] },
  orpo: { title: "ORPO", fields: preference },
  cpo: { title: "CPO", fields: preference },
  simpo: { title: "SimPO", fields: preference },
  kto: { title: "KTO", fields: [...preference, "reference", "reference_dtype"] },
  reward: { title: "reward model", fields: [] },
  grpo: { title: "GRPO", fields: [...generated, "loss_type"] },
  rloo: { title: "RLOO", fields: generated },
  ppo: { title: "PPO", fields: [...preference, "rollout_forward_batch"] },
  gkd: { title: "GKD", fields: ["teacher", "teacher_dtype", "beta"] },
  "vision-language": { title: "vision and language", fields: ["images", "freeze_vision"] },
  contrastive: { title: "sentence embeddings", fields: ["texts", "loss", "mini_batch", "pooling"] },
};

const name = "/training/objective";

// kindOf is the kind of a job's training; "" is the loss that the model returns.
export const kindOf = (job) => objective(job).kind ?? "";
const has = (job, field) => kinds[kindOf(job)]?.fields.includes(field) ?? false;

// reads says whether the kind of a job's training reads a field of its objective.
export const reads = (field) => (job) => has(job, field);
export const diffuses = (job) => read(job, "/model/diffusion") !== undefined;
// paired jobs have prompts and completions of their own lengths in place of a sequence's.
export const paired = (job) => has(job, "prompt_tokens");

// asKind is a job of another kind: what only the former kind reads goes, and a prompt and its completion become a sequence.
export function asKind(job, kind) {
  const own = Object.entries(objective(job)).filter(([field]) => kinds[kind]?.fields.includes(field));
  const next = write(job, name, kind ? Object.fromEntries([["kind", kind], ...own]) : undefined);
  if (paired(next)) return write(next, "/training/sequence_length", undefined);
  const whole = paired(job) && (read(job, `${name}/prompt_tokens`) ?? 0) + (read(job, `${name}/completion_tokens`) ?? 0);
  return whole ? write(next, "/training/sequence_length", whole) : next;
}

// asPipeline is a job that trains a diffusion pipeline, and asModel one that does not any more.
export const asPipeline = (job) => [["/training/objective", { kind: "diffusion" }], ["/training/resolution", read(job, "/training/resolution") ?? 512],
  ["/training/sequence_length", undefined], ["/training/framework", undefined], ["/training/attention", undefined], ["/training/loss", undefined]]
  .reduce((at, [pointer, value]) => write(at, pointer, value), job);

export const asModel = (job) => (kindOf(job) === "diffusion" ? ["/training/objective", "/training/resolution", "/training/script"]
  .reduce((at, pointer) => write(at, pointer, undefined), job) : job);
