// What a run left behind that ran out of memory, explained for the job in the form.

import { make } from "./elements.js";
import { post } from "./ask.js";
import { bytes } from "./words.js";

const longest = 1 << 20; // of a longer log the end is sent, where the message is

// isLog says whether a text is such a message, a log with one, or what nvidia-smi printed.
export const isLog = (text) => /out of memory|OutOfMemoryError|CUDA memory summary|NVIDIA-SMI/i.test(text);

// diagnosis asks what a text means for a job and draws the answer.
export async function diagnosis(text, job, signal) {
  const known = job.model && job.training?.micro_batch ? { job } : {};
  const { summary, causes = [] } = await post("/v1/diagnose", { text: text.slice(-longest), ...known }, signal);
  const [cause] = causes;
  const list = (title, items) => (items?.length ? [make("h3", {}, title), make("ul", { class: "notes" }, items.map((i) => make("li", {}, i.text ?? i)))] : null);
  const sizes = Object.entries(cause?.accounting ?? {}).filter(([name, n]) => name.endsWith("_bytes") && typeof n === "number" && n > 0)
    .map(([name, n]) => `${name.slice(0, -"_bytes".length).replaceAll("_", " ")} ${bytes(n)}`);
  return [
    make("p", {}, make("strong", {}, summary), "."),
    sizes.length ? make("p", { class: "quiet small" }, `In the message: ${sizes.join(", ")}.`) : null,
    list("Why", cause?.evidence),
    list("What helps", cause?.actions),
    list("What does not help", cause?.will_not_help),
    list("Beside it", cause?.notes),
  ].flat().filter(Boolean);
}
