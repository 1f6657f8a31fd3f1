// A job as what people paste elsewhere: a curl command, a vramplan command, Python, a link.

import { cards, fragment, objective, optimizer } from "./job.js";

const quoted = (text) => (/^[\w./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
const pretty = (job) => JSON.stringify(job, null, 2);

// Fields that the command line has flags for; --set says any other, and models that are no names go in as a document.
const flags = {
  micro_batch: "--micro-batch", sequence_length: "--sequence-length", gradient_accumulation: "--gradient-accumulation", precision: "--precision",
  gradient_checkpointing: "--checkpointing", attention: "--attention", loss: "--loss", framework: "--framework",
};

const aims = { kind: "--objective", prompt_tokens: "--prompt-tokens", completion_tokens: "--completion-tokens", latents: "--latents" };

// raw are objects that are one value.
const raw = new Set(["objective.teacher", "distributed.deepspeed"]);

function command(job, name) {
  const words = ["vramplan", name];
  const { model = {}, training = {}, ...rest } = job;
  const [way, pipeline] = [Object.keys(model).join(), model.diffusion?.preset];
  let plain = (way === "preset" || (way === "diffusion" && pipeline && Object.keys(model.diffusion).length === 1)) && (job.gpus ?? []).every((g) => typeof g === "string");
  if (plain) words.push(...(pipeline ? ["--pipeline", quoted(pipeline)] : ["--model", quoted(model.preset)]));
  const set = (path, value) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value) && !raw.has(path)) for (const [k, v] of Object.entries(value)) set(`${path}.${k}`, v);
    else words.push("--set", quoted(`${path}=${typeof value === "string" ? value : JSON.stringify(value)}`));
  };
  for (const [field, value] of Object.entries(training)) {
    if (flags[field] && typeof value !== "object") words.push(flags[field], quoted(String(value)));
    else if (field === "compile" && typeof value === "boolean") words.push(value ? "--compile" : "--no-compile");
    else if (field === "optimizer") {
      const { name: of, implementation, ...others } = optimizer(job);
      if (of) words.push("--optimizer", quoted(of));
      if (implementation) words.push("--optimizer-implementation", implementation);
      set("optimizer", others);
    } else if (field === "resolution") words.push("--resolution", String(value));
    else if (field === "script") words.push("--diffusers-script", quoted(value));
    else if (field === "objective") {
      for (const [k, v] of Object.entries(objective(job))) {
        if (k === "kind" && pipeline) continue;
        if (aims[k]) words.push(aims[k], quoted(String(v)));
        else set(`objective.${k}`, v);
      }
    } else if (field === "lora" && Object.keys(value).join() === "rank") words.push("--lora-rank", value.rank);
    else if (field === "distributed") {
      const { world_size: world, data, ...others } = value;
      if (world) words.push("--world-size", world);
      if (data) words.push("--data-parallel", data);
      set("distributed", others);
    } else set(field, value);
  }
  for (const [field, value] of Object.entries(rest)) {
    if (field === "gpus") words.push(...cards(job).flatMap((g) => ["--gpu", quoted(g)]));
    else if (field === "reserve_bytes") words.push("--reserve-bytes", value);
    else if (field === "confidence") words.push("--confidence", value);
    else if (field === "display") words.push(value ? "--display" : "--no-display");
    else plain = false;
  }
  return plain ? words.join(" ").replaceAll(" --", " \\\n    --") : `vramplan ${name} -f - <<'JOB'\n${pretty(job)}\nJOB`;
}

export const ways = {
  curl: (job, base) => `curl -s ${quoted(`${base}/v1/estimate`)} -H 'Content-Type: application/json' -d '${pretty(job).replaceAll("'", `'\\''`)}'`,
  CLI: (job) => command(job, job.gpus?.length ? "plan" : "estimate"),
  Python: (job, base) => `import json, urllib.request

job = json.loads(r'''${JSON.stringify(job, null, 4).replaceAll("'''", "\\u0027\\u0027\\u0027")}''')
request = urllib.request.Request("${base}/v1/estimate", json.dumps(job).encode(),
                                 {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    result = json.load(answer)
print(result["peak"]["device_bytes"] / 2**30, "GiB", [(g["gpu"], g["verdict"]) for g in result["gpus"]])`,
  JSON: (job) => pretty(job),
  Link: (job, base, beside) => `${base}/${fragment(job, beside)}`,
};

// toClipboard copies text also where a page without TLS has no clipboard of its own.
export async function toClipboard(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser did not copy");
}
