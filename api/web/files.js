// Files of other tools: batch scripts, launch lines and configurations of trainers, which the service turns into job documents.

import { post } from "./ask.js";

// filed reads a text. A refusal is a sentence; questions stand at the fields that they concern. The cards of the form stay where the file names none.
export async function filed(text, name, cards) {
  const file = (name ?? "").split(/[/\\]/).pop() || named(text);
  const { jobs, refusals } = await post("/v1/read", { files: { [file]: text } });
  if (!jobs?.length) return { refused: refusals?.length ? refusals.map(said).join(" ") : "This is neither a job document, nor a model's config.json, nor a file of a trainer that is known here." };
  const [first, ...rest] = jobs;
  const job = first.document.gpus || cards.length === 0 ? first.document : { ...first.document, gpus: cards };
  const assumed = (first.assumptions ?? []).map((a) => a.say);
  return {
    job,
    questions: (first.questions ?? []).map((q) => ({ pointer: q.pointer, detail: [q.ask, q.why].filter(Boolean).join(" ") })),
    notice: [`Read from ${file} (${first.reader}).`, rest.length ? `${rest.length} more of its jobs are left out.` : "", ...assumed].filter(Boolean).join(" "),
  };
}

const said = (r) => `${r.file ? `${r.file}${r.line ? `:${r.line}` : ""}: ` : ""}${r.say}${/[.!?]$/.test(r.say) ? "" : "."}`;

// named guesses the name of a pasted text, by which readers tell configurations from scripts.
function named(text) {
  const start = text.trimStart();
  if (start.startsWith("{")) return "pasted.json";
  if (/^\[[\w.-]+\]\s*$/m.test(text) && /^\s*[\w.-]+\s*=/m.test(text)) return "pasted.toml";
  if (start.startsWith("#!") || /^\s*(torchrun|accelerate|deepspeed|python3?|srun|llamafactory-cli|axolotl|tune|export)\b/m.test(text)) return "pasted.sh";
  return "pasted.yaml";
}
