// What a job takes by micro-batch and sequence length, and the line where it stops fitting: 12 × 12 jobs in one batch request, 8 × 12 on a narrow page.

import { make } from "./elements.js";
import { batch } from "./ask.js";
import { read, write } from "./job.js";
import { diffuses, paired } from "./objective.js";
import { bytes, count, gib, verdicts } from "./words.js";

const side = 12;
const narrow = 8; // columns of a page as narrow as a telephone, so that figures of five characters have room

// steps are the numbers from least to most that are 1, 1.5, … times a power of two: `parts` of them from one power to the next.
function steps(least, most, parts) {
  const found = new Set();
  for (let power = 1; power <= most; power *= 2) {
    for (let part = 0; part < parts; part++) {
      const n = power * (1 + part / parts);
      if (n >= least && n <= most && Number.isInteger(n)) found.add(n);
    }
  }
  return found;
}

// around picks `side` numbers, or fewer, own among them, of which at least as many as above lie above it where there are any: the coarsest steps that
// give enough.
function around(own, least, most, above, side) {
  let all = [];
  for (let parts = 2; parts <= 8 && all.length < side; parts *= 2) all = [...steps(least, most, parts).add(own)].sort((a, b) => a - b);
  const end = Math.min(all.length, Math.max(side, all.indexOf(own) + above + 1));
  return all.slice(Math.max(0, end - side), end);
}

// axis is the length that a job's heat-map varies: where it stands in a job, and its name.
export function axis(job) {
  if (diffuses(job)) return { pointer: "/training/resolution", unit: "pixels", name: "resolution" };
  if (paired(job)) return { pointer: "/training/objective/completion_tokens", unit: "completion tokens", name: "completion length" };
  return { pointer: "/training/sequence_length", unit: "tokens", name: "sequence length" };
}

const pixels = [256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1792, 2048];

// axes are the micro-batches and sequence lengths of a heat-map; length is the job's own, context the longest of the model.
export function axes(job, length, context) {
  const micro = read(job, "/training/micro_batch") ?? 1;
  const micros = innerWidth < 480 ? around(micro, 1, 2 ** 20, 3, narrow) : around(micro, 1, 2 ** 20, 4, side);
  if (diffuses(job)) return { micros, lengths: pixels };
  return {
    micros,
    lengths: length ? around(length, Math.min(128, length), Math.max(length, context || 8 * length), 6, side) : [undefined],
  };
}

// empty draws a heat-map of which nothing was asked yet.
export function empty(place, job, drawn) {
  table(place, job, drawn, () => {});
}

// grid asks for all cells and draws them as they arrive; use(micro-batch, length) is called with one that is chosen.
// What is known of the job itself stands in its cell. The promise is for how many were drawn until the signal timed out, and the milliseconds that it took.
export async function grid(place, job, known, drawn, signal, use) {
  const { micros, lengths } = drawn;
  const card = { ...job, gpus: job.gpus.slice(0, 1) };
  const { pointer } = axis(job);
  const jobs = lengths.flatMap((length) => micros.map((micro) => write(write(card, "/training/micro_batch", micro), pointer, length)));
  const answers = [], cells = table(place, job, drawn, use);
  const began = performance.now();
  try {
    await batch("/v1/estimate/batch?verdicts=true&at_least=true", jobs, signal, (i, answer) => {
      answers[i] = cells[i].classList.contains("own") && answer.peak?.at_least ? known : answer;
      paint(cells[i], answers[i], micros[i % micros.length], lengths[Math.floor(i / micros.length)]);
    });
  } catch (error) {
    if (signal.reason?.name !== "TimeoutError") throw error;
  }
  // The line: a cell that fits beside one that does not.
  const fits = (i) => ["fits", "tight"].includes(answers[i]?.gpus?.[0]?.verdict);
  cells.forEach((td, i) => {
    const last = i % micros.length === micros.length - 1;
    if (!last && fits(i) && !fits(i + 1)) td.classList.add("edge-right");
    if (fits(i) && cells[i + micros.length] && !fits(i + micros.length)) td.classList.add("edge-top");
  });
  return { drawn: answers.filter(Boolean).length, spent: performance.now() - began };
}

// table draws the cells, and is them.
function table(place, job, { micros, lengths }, use) {
  const { pointer, unit, name } = axis(job);
  const own = { micro: read(job, "/training/micro_batch"), length: read(job, pointer) };
  const cells = [];
  const cell = (i) => {
    const micro = micros[i % micros.length], length = lengths[Math.floor(i / micros.length)];
    const mine = micro === own.micro && (length === own.length || lengths.length === 1);
    const td = make("td", { role: "gridcell", tabindex: -1, class: mine ? "own" : "", "aria-label": `${micro} × ${length ?? "its own length"}: not asked yet`,
      click: () => use(micro, length),
      keydown: (e) => move(e, i, micro, length) });
    cells.push(td);
    return td;
  };
  function move(e, i, micro, length) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: -micros.length, ArrowUp: micros.length }[e.key];
    if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      use(micro, length);
    } else if (step && cells[i + step] && (Math.abs(step) > 1 || Math.floor(i / micros.length) === Math.floor((i + step) / micros.length))) {
      e.preventDefault();
      reach(i + step).focus();
    }
  }
  function reach(i) {
    for (const c of cells) c.tabIndex = -1;
    cells[i].tabIndex = 0;
    return cells[i];
  }
  const rows = lengths.map((length, r) => make("tr", { role: "row" },
    make("th", { role: "rowheader", scope: "row" }, length ? count(length) : "any"), micros.map((_, c) => cell(r * micros.length + c))));
  reach(Math.max(0, cells.findIndex((c) => c.classList.contains("own"))));
  place.replaceChildren(make("table", { role: "grid", class: "heat", "aria-label": `Gibibytes by ${name} (rows) and micro-batch (columns); Enter takes a cell's values` },
    make("tbody", { role: "rowgroup" }, rows.reverse()),
    make("tfoot", { role: "rowgroup" }, make("tr", { role: "row" }, make("td", { class: "corner" }, `${unit} ↑ micro-batch →`), micros.map((m) => make("th", { role: "columnheader", scope: "col" }, count(m)))))));
  return cells;
}

function paint(td, answer, micro, length) {
  const at = `${micro} × ${length ? count(length) : "its own length"}`;
  const fit = answer.gpus?.[0];
  if (!answer.peak) {
    td.classList.add("refused");
    td.setAttribute("aria-label", `${at}: no answer, ${answer.errors?.[0]?.detail ?? answer.detail}`);
    td.title = td.getAttribute("aria-label");
    return;
  }
  td.classList.add(fit?.verdict ?? "unknown");
  // How full the card is, in ten steps; beyond it, how far beyond.
  const full = fit ? answer.peak.device_bytes / fit.usable_bytes : 0.5;
  td.dataset.full = String(full <= 1 ? Math.min(9, Math.floor(full * 10)) : Math.min(4, Math.floor(Math.log2(full) * 1.5)));
  const least = answer.peak.at_least;
  const words = `${at}: ${least ? "at least " : ""}${bytes(answer.peak.device_bytes)}, ${verdicts[fit?.verdict ?? "unknown"].word}`;
  td.replaceChildren(gib(answer.peak.device_bytes) + (least ? "+" : ""), make("span", { class: "unseen" }, ` GiB, ${words}`));
  td.removeAttribute("aria-label");
  td.title = words;
}
