// The job document: fields by JSON pointer, and its way into a link and back.

const keys = (pointer) => pointer.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));

// read is the value at a pointer; undefined where there is none.
export function read(job, pointer) {
  return keys(pointer).reduce((at, key) => at?.[key], job);
}

// write is a job with another value at a pointer; undefined takes the field away, and objects that it leaves empty with it.
export function write(job, pointer, value) {
  const [key, ...rest] = keys(pointer);
  const copy = Array.isArray(job) ? [...job] : { ...(typeof job === "object" ? job : {}) };
  const inner = rest.length ? write(copy[key], "/" + rest.join("/"), value) : value;
  const empty = inner === undefined || (rest.length && !Array.isArray(inner) && Object.keys(inner).length === 0);
  if (empty) delete copy[key];
  else copy[key] = inner;
  return copy;
}

// The two union types whose short form the form has to take apart.
export const optimizer = (job) => union(job.training?.optimizer, "name");
export const checkpointing = (job) => union(job.training?.gradient_checkpointing, "mode");
export const objective = (job) => union(job.training?.objective, "kind");
export const loss = (job) => union(job.training?.loss, "kind");
const union = (value, short) => (typeof value === "string" ? { [short]: value } : value ?? {});

// shortest undoes union: an object with the short form's field alone is that field.
export function shortest(value, short) {
  const given = Object.entries(value).filter(([, v]) => v !== undefined && v !== "" && v !== false);
  if (given.length === 0) return undefined;
  return given.length === 1 && given[0][0] === short ? given[0][1] : Object.fromEntries(given);
}

// cards are the names of the job's cards.
export const cards = (job) => (Array.isArray(job.gpus) ? job.gpus : []).map((gpu) => (typeof gpu === "string" ? gpu : gpu?.name ?? "card"));

// ofNvidiaSmi are the cards in lines of nvidia-smi --query-gpu=name,memory.total,memory.free --format=csv, of which a field keeps no line breaks.
export const ofNvidiaSmi = (text) => [...text.matchAll(/([A-Za-z][^,]*), *(\d+) MiB, *(\d+) MiB/g)]
  .map(([, name, total, free]) => ({ name: name.replace(/^.*\]/, "").trim(), memory_bytes: total * 2 ** 20, free_bytes: free * 2 ** 20 }));

// example is what a first visit sees.
export const example = {
  model: { preset: "nanogpt/train_gpt2" },
  training: {
    micro_batch: 16,
    sequence_length: 1024,
    gradient_accumulation: 32,
    precision: "amp-bf16",
    optimizer: { name: "adamw", implementation: "fused" },
  },
  gpus: ["rtx-4070"],
};

// fragment writes a job, and the one beside it, as the part of a link behind its #. The service never sees it.
export function fragment(job, beside) {
  const part = (name, value) => `${name}=${encodeURIComponent(JSON.stringify(value))}`;
  return "#" + [part("job", job), beside && part("beside", beside)].filter(Boolean).join("&");
}

// fromFragment reads it; null where there is no job in it, an error where there is one that cannot be read.
export function fromFragment(hash) {
  const parts = new Map(hash.slice(1).split("&").map((part) => [part.split("=", 1)[0], part.slice(part.indexOf("=") + 1)]));
  if (!parts.has("job")) return null;
  const document = (name) => {
    const value = JSON.parse(decodeURIComponent(parts.get(name)));
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("not an object");
    return value;
  };
  return { job: document("job"), beside: parts.has("beside") ? document("beside") : null };
}

// understand says what a JSON object that somebody dropped or pasted is: a job document, a recording, a model's config.json, or none of them.
export function understand(object) {
  if (object === null || typeof object !== "object" || Array.isArray(object)) return null;
  if (object.model && typeof object.model === "object" && ("training" in object || "gpus" in object)) return { job: object };
  if ("vramplan_recording" in object) return { recording: object };
  const hints = ["model_type", "architectures", "hidden_size", "n_embd", "num_hidden_layers", "d_model", "text_config"];
  return hints.some((hint) => hint in object) ? { config: object } : null;
}
