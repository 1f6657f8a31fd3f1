// The ways to make a job fit: pairs of micro-batch and accumulation as rows to click, and the options that a plan ranks.

import { make } from "./elements.js";
import { badge, headroom } from "./cards.js";
import { bytes } from "./words.js";

const shownAbove = 3; // pairs beyond the first that fits

const times = (x) => (x === undefined ? "" : `${x.toFixed(2)}×`);
// atLeast marks what a brief plan gives of what cannot fit: the least that it takes.
const atLeast = (x, words) => (x.at_least ? `at least ${words}` : words);
const same = (a, b) => a && b && a.micro_batch === b.micro_batch && a.gradient_accumulation === b.gradient_accumulation;

// pairs lists those of a plan; use(micro-batch, accumulation) is called with the one that is chosen.
export function pairs(plan, answer, use) {
  const firstFit = plan.pairs.findIndex((p) => p.verdict === "fits" || p.verdict === "tight");
  const today = plan.pairs.findIndex((p) => same(p, plan.today));
  const last = firstFit < 0 ? plan.pairs.length - 1 : firstFit;
  const from = Math.max(0, Math.min(last - shownAbove, today < 0 ? last : today));
  const longest = 1.02 * Math.max(plan.usable_bytes, ...plan.pairs.slice(from).filter((p) => p.verdict === "fits").map((p) => p.high_bytes));
  const example = answer.assumed?.objective === "diffusion" ? "picture" : "sequence";
  const rows = plan.pairs.slice(from).map((p) => {
    const words = [same(p, plan.today) && "today", same(p, plan.recommended) && "best", same(p, plan.safest) && "safest"].filter(Boolean);
    const meter = make("span", { class: `meter ${p.verdict}`, "aria-hidden": "true" }, make("span", {}));
    meter.firstChild.style.setProperty("width", `${Math.min(100, (100 * p.device_bytes) / longest)}%`);
    meter.style.setProperty("--end", `${(100 * plan.usable_bytes) / longest}%`);
    const go = () => use(p.micro_batch, p.gradient_accumulation);
    return make("tr", { class: same(p, plan.today) ? "chosen" : "", click: go },
      make("th", { scope: "row" }, make("button", { type: "button", class: "plain", "aria-label": `Use ${p.micro_batch} × ${p.gradient_accumulation}`, click: (e) => { e.stopPropagation(); go(); } }, `${p.micro_batch} × ${p.gradient_accumulation}`),
        words.map((w) => make("span", { class: "tag" }, w))),
      make("td", { class: "figure" }, atLeast(p, bytes(p.device_bytes))),
      make("td", { class: "drawn" }, meter),
      make("td", {}, badge(p.verdict), make("small", {}, atLeast(p, headroom(p.headroom_bytes)))),
      make("td", { class: "figure" }, times(p.relative_step_time)));
  });
  return [
    from > 0 ? make("p", { class: "quiet small" }, `${from} larger ${from === 1 ? "pair is" : "pairs are"} left out: ${from === 1 ? "it does" : "they do"} not fit.`) : null,
    make("table", { class: "pairs" },
      make("caption", { class: "unseen" }, `Pairs of micro-batch and accumulation that keep ${plan.effective_batch} ${example}${plan.effective_batch === 1 ? "" : "s"} in a step`),
      make("thead", {}, make("tr", {}, ["Micro-batch × accumulation", "Needs", "Of the card", "Verdict", "Time"].map((t, i) => make("th", { scope: "col", class: ["", "figure", "drawn", "", "figure"][i] }, t)))),
      make("tbody", {}, rows)),
  ];
}

// apply is a job with the changes of an option.
export function apply(job, changes) {
  const { model, gpus, ...fields } = changes;
  const training = { ...job.training, ...fields };
  for (const [name, value] of Object.entries(training)) if (value === null) delete training[name];
  return { ...job, ...(model && { model: { ...model, ...(job.model?.head && { head: job.model.head }) } }), ...(gpus && { gpus }), training };
}

const shownOptions = 5;

// options lists what a plan ranks, what fits before what does not; use(changes) is called with the one that is chosen.
export function options(plan, use) {
  const fitting = plan.options.filter((o) => o.verdict === "fits" || o.verdict === "tight");
  const rest = plan.options.filter((o) => !fitting.includes(o));
  const item = (o) => make("li", { class: "option" },
    make("div", { class: "head" }, make("h3", {}, o.title), badge(o.verdict), o.rank === 1 ? make("span", { class: "tag" }, "first choice") : null),
    make("p", { class: "settings" }, o.settings.map((s) => make("code", {}, s))),
    make("p", { class: "quiet small" }, [
      `takes ${atLeast(o, bytes(o.device_bytes))}`, o.saves_bytes > 0 ? `saves ${bytes(o.saves_bytes)}` : o.saves_bytes < 0 ? `takes ${bytes(-o.saves_bytes)} more` : null,
      `${times(o.relative_step_time.expected)} the time`, o.changes_training ? o.training_effect : "same training", o.recommendation,
    ].filter(Boolean).join(" · ")),
    make("button", { type: "button", "aria-label": `Apply: ${o.title}`, click: () => use(o.changes) }, "Apply"));
  return [
    fitting.length ? make("ol", { class: "options" }, fitting.slice(0, shownOptions).map(item)) : make("p", {}, "Nothing that was tried makes this job fit on this card."),
    fitting.length > shownOptions ? make("details", {}, make("summary", {}, `${fitting.length - shownOptions} more that fit`), make("ol", { class: "options" }, fitting.slice(shownOptions).map(item))) : null,
    rest.length ? make("details", {}, make("summary", {}, `${rest.length} more that ${rest.length === 1 ? "is" : "are"} not enough alone`), make("ol", { class: "options" }, rest.map(item))) : null,
  ];
}
