// The GPUs of a job that do not all hold the same: the stages of a pipeline, and those that share sequences.

import { make } from "./elements.js";
import { bar } from "./bar.js";
import { bytes, count } from "./words.js";

// ranks lists those that may be the fullest; chosen(rank) is called with one that somebody wants to see by itself.
export function ranks(answer, chosen) {
  const usable = answer.gpus[0]?.usable_bytes;
  const longest = 1.02 * Math.max(usable ?? 0, ...answer.ranks.map((r) => r.high_bytes));
  const rows = answer.ranks.map((r) => make("tr", { class: r.fullest ? "chosen" : "" },
    make("th", { scope: "row" }, make("button", { type: "button", class: "plain", "aria-label": `Show rank ${r.rank} alone`, click: () => chosen(r.rank) }, count(r.rank)), " ", r.where,
      r.fullest ? make("span", { class: "tag" }, "fullest") : null),
    make("td", { class: "figure" }, bytes(r.allocated_bytes)),
    make("td", { class: "figure" }, bytes(r.device_bytes)),
    make("td", { class: "drawn" }, bar({ peak: r, components: [{ name: "whole", bytes: r.device_bytes, share: 1 }], usable, longest, tall: 30 }))));
  return make("table", { class: "fits" },
    make("caption", { class: "unseen" }, "What each of the GPUs takes that may be the fullest"),
    make("thead", {}, make("tr", {}, ["Rank", "Allocated", "On the card", "Of the card"].map((t, i) => make("th", { scope: "col", class: ["", "figure", "figure", "drawn"][i] }, t)))),
    make("tbody", {}, rows));
}
