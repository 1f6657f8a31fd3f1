// What a run left behind that ran out of memory, or a memory snapshot of one, explained for the job in the form.

import { draw, make } from "./elements.js";
import { post, Problem } from "./ask.js";
import { bytes } from "./words.js";

const longest = 1 << 20; // of a longer log the end is sent, where the message is

// isLog says whether a text is such a message, a log with one, or what nvidia-smi printed.
export const isLog = (text) => /out of memory|OutOfMemoryError|CUDA memory summary|NVIDIA-SMI/i.test(text);

const packedMost = 3 * 2 ** 20; // of a snapshot in gzip, with which a request is below what the service takes

// isSnapshot says whether a file begins as pickles of Python do, or as gzip's files.
export async function isSnapshot(file) {
  const [a, b] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  return (a === 0x80 && b >= 2 && b <= 5) || (a === 0x1f && b === 0x8b);
}

// packed is a snapshot in gzip and base64. It is read by the service, in a process apart, and as data.
async function packed(file) {
  const [first] = new Uint8Array(await file.slice(0, 1).arrayBuffer());
  const smaller = first === 0x1f ? file : await new Response(file.stream().pipeThrough(new CompressionStream("gzip"))).blob();
  if (smaller.size > packedMost) throw new Problem({ detail: `In gzip this snapshot has ${bytes(smaller.size)}, and the service takes ${bytes(packedMost)}. Have it read where it is: vramplan diagnose --snapshot FILE. Or record fewer events: max_entries of torch.cuda.memory._record_memory_history.` });
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Problem({ detail: "The browser could not read the file." }));
    reader.readAsDataURL(smaller);
  });
}

const moments = { peak: "at the largest moment of the history", failure: "when the last request failed", end: "when the snapshot was taken, which has no history" };

// holding draws what a snapshot held, the largest first, and lists where the run departs from what was predicted.
function holding(held) {
  const known = held.predicted_bytes !== undefined;
  const most = held.groups.reduce((n, g) => Math.max(n, g.bytes * g.count), 1);
  const rows = held.groups.map((g) => make("tr", {},
    make("th", { scope: "row" },
      g.names?.length ? g.names.join(" or ") : known ? make("strong", {}, "no tensor of the replay") : "of one size",
      g.at ? make("small", { class: "quiet line" }, `at ${g.at}`) : null,
      draw("svg", { class: "bar", height: 6, width: "100%", "aria-hidden": "true" }, draw("rect", { class: "share", width: `${((100 * g.bytes * g.count) / most).toFixed(2)}%`, height: 6 }))),
    make("td", { class: "figure" }, `${g.count} × ${bytes(g.bytes)}`),
    make("td", { class: "figure" }, bytes(g.bytes * g.count))));
  const departures = (held.departures ?? []).map((d) => `${bytes(d.bytes * d.count)}: ${d.text}`);
  return [
    make("p", {}, make("strong", {}, `${bytes(held.allocated_bytes)} were held ${moments[held.moment]}`), held.requested_bytes ? `, and ${bytes(held.requested_bytes)} were asked for` : "", known ? `; the replay of the job in the form has ${bytes(held.predicted_bytes)} at its peak.` : "."),
    known ? null : make("p", { class: "quiet small" }, "With the job that ran in the form before the snapshot is opened, each size has the replay's names, and what no step of the job has is said."),
    departures.length ? [make("h3", {}, "Held beside what was predicted"), make("ul", { class: "notes" }, departures.map((d) => make("li", {}, d)))] : null,
    known && held.moment === "peak" && !departures.length ? make("p", {}, "Nothing is held beside what was predicted.") : null,
    make("h3", {}, "What held it"),
    make("table", { class: "held" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, known ? "Tensors of this size" : "What asked for most of them"), make("th", { scope: "col", class: "figure" }, "How many"), make("th", { scope: "col", class: "figure" }, "Together"))),
      make("tbody", {}, rows)),
    held.rest_bytes ? make("p", { class: "quiet small" }, `All that is smaller: ${bytes(held.rest_bytes)}.`) : null,
  ];
}

// diagnosis asks what a text or a snapshot means for a job and draws the answer.
export async function diagnosis({ text, snapshot }, job, signal) {
  const known = job?.model && job.training?.micro_batch ? { job } : {};
  const left = snapshot ? { snapshot: await packed(snapshot) } : { text: text.slice(-longest) };
  const { summary, causes = [], held, text: read } = await post("/v1/diagnose", { ...left, ...known }, signal);
  if (held && !read.messages?.length) return holding(held).flat().filter(Boolean); // nothing failed: what was held is the answer
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
    held ? holding(held) : null,
  ].flat(2).filter(Boolean);
}
