// The cards of a job side by side.

import { make } from "./elements.js";
import { bar } from "./bar.js";
import { bytes, likely, pairOf, verdicts } from "./words.js";

const most = 24;

// badge is a verdict as a word with a sign, never as a colour alone.
export const badge = (verdict) => make("span", { class: `badge ${verdict}`, title: verdicts[verdict].means }, make("span", { "aria-hidden": "true" }, verdicts[verdict].sign), " ", verdicts[verdict].word);

// headroom says what is left or missing.
export const headroom = (n) => (n >= 0 ? `${bytes(n)} free` : `${bytes(-n)} short`);

// on is what a job takes on one of its cards: another kind of card may take another figure, and what is headroom to it says how much.
export function on(answer, fit) {
  const more = fit.usable_bytes - fit.headroom_bytes - answer.peak.device_bytes;
  return { device_bytes: answer.peak.device_bytes + more, low_bytes: answer.peak.low_bytes + more, high_bytes: answer.peak.high_bytes + more };
}

const times = (x) => `${Number(x.toPrecision(3))}×`;

const order = ["fits", "tight", "unlikely", "does_not_fit", "unknown"];

// best is the smallest card that a job fits on; where it fits on none, the one on which it comes nearest to it.
export function best(gpus) {
  const good = (g) => g.verdict === "fits" || g.verdict === "tight";
  return [...gpus].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict) || (good(a) ? a.usable_bytes - b.usable_bytes : b.headroom_bytes - a.headroom_bytes))[0];
}

// sideBySide lists the cards; chosen(name) is called with one that somebody wants to see first. Where they have prices, the plan says
// what the run costs on each.
export function sideBySide(answer, plan, chosen, priced) {
  const longest = 1.02 * Math.max(answer.peak.high_bytes, ...answer.gpus.slice(0, most).flatMap((g) => [g.usable_bytes, g.usable_bytes - g.headroom_bytes]));
  const recommended = new Map((plan?.gpus ?? []).map((g) => [g.gpu, g.recommended]));
  if (plan) recommended.set(plan.gpu, plan.recommended);
  const costs = new Map((plan?.gpus ?? []).map((g) => [g.gpu, g.relative_cost]));
  const cost = (name) => {
    const c = costs.get(name);
    return make("td", { class: "figure", title: c ? `between ${times(c.low)} and ${times(c.high)} what ${plan.costs_beside} costs` : "" }, c ? times(c.expected) : plan ? "unknown" : "");
  };
  const rows = answer.gpus.slice(0, most).map((g, i) => {
    const pair = recommended.get(g.gpu), peak = on(answer, g);
    const parts = peak.device_bytes === answer.peak.device_bytes ? answer.components : [{ name: "whole", bytes: peak.device_bytes, share: 1 }];
    return make("tr", { class: i === 0 ? "chosen" : "" },
      make("th", { scope: "row" }, answer.gpus.length > 1 ? make("button", { type: "button", class: "plain", "aria-pressed": String(i === 0), click: () => chosen(g.gpu) }, g.gpu) : g.gpu),
      make("td", { class: "figure" }, bytes(g.usable_bytes)),
      make("td", { class: "drawn" }, bar({ peak, components: parts, usable: g.usable_bytes, longest, tall: 30 }), make("small", {}, bytes(peak.device_bytes))),
      make("td", {}, badge(g.verdict), make("small", {}, `${headroom(g.headroom_bytes)}, ${likely(g.probability)}`)),
      make("td", {}, pair ? pairOf(pair) : "none"),
      priced ? cost(g.gpu) : null);
  });
  return [
    make("table", { class: "fits" },
      make("caption", { class: "unseen" }, "The cards of the job"),
      make("thead", {}, make("tr", {}, ["Card", "For CUDA", "The job on it", "Verdict", "Best pair", ...(priced ? ["Cost"] : [])].map((t, i) => make("th", { scope: "col", class: ["", "figure", "drawn", "", "", "figure"][i] }, t)))),
      make("tbody", {}, rows)),
    plan?.gpus?.[0].relative_cost ? make("p", { class: "quiet small" }, `The run costs least on ${plan.gpus[0].gpu}. Costs are relative: your price times the modelled time of the same training, beside ${plan.today ? "the job as it is" : "its pair"} on ${plan.costs_beside}.`) : null,
    answer.gpus.length > most ? make("p", { class: "quiet small" }, `${answer.gpus.length - most} more cards are in the answer of the API.`) : null,
  ];
}
