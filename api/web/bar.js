// What a job takes, as a bar: its components one after the other, the bounds, and where the card ends.

import { draw, make } from "./elements.js";
import { bytes, count, share, spoken } from "./words.js";

const percent = (x) => `${(x * 100).toFixed(3)}%`;

// bar draws components (or one figure, where there are none) up to the longest of all that are drawn together.
export function bar({ peak, components, usable, longest, tall = 56 }) {
  const scale = (n) => Math.min(1, n / longest);
  const end = usable === undefined ? 1 : scale(usable);
  const middle = tall / 2;
  const drawing = draw("svg", { class: "bar", height: tall, width: "100%", "aria-hidden": "true" });
  let at = 0;
  for (const c of components) {
    const width = scale(c.bytes);
    if (width > 0) drawing.append(draw("rect", { class: `part ${c.name}`, x: percent(at), width: percent(width), y: 6, height: tall - 12 }, draw("title", {}, `${spoken(c.name)}: ${bytes(c.bytes)}, ${share(c.share)}`)));
    at += width;
  }
  if (at > end) drawing.append(draw("rect", { class: "over", x: percent(end), width: percent(at - end), y: tall - 5, height: 4 }));
  if (usable !== undefined && usable < longest) drawing.append(draw("line", { class: "end", x1: percent(end), x2: percent(end), y1: 0, y2: tall }));
  const low = percent(scale(peak.low_bytes)), high = percent(scale(peak.high_bytes));
  drawing.append(draw("g", { class: "bounds" },
    draw("line", { x1: low, x2: high, y1: middle, y2: middle }),
    draw("line", { x1: low, x2: low, y1: middle - 7, y2: middle + 7 }),
    draw("line", { x1: high, x2: high, y1: middle - 7, y2: middle + 7 })));
  return drawing;
}

// components is the bar of an answer with what each part is.
export function components(answer, fit) {
  const { peak } = answer;
  const longest = 1.03 * Math.max(peak.high_bytes, fit?.usable_bytes ?? 0);
  const scale = (n) => Math.min(100, (100 * n) / longest);
  const marks = make("p", { class: "marks" });
  if (fit) {
    const mark = make("span", { class: "capacity" }, `${fit.gpu}: ${bytes(fit.usable_bytes)}`);
    const at = scale(fit.usable_bytes);
    mark.style.setProperty("--at", `${at}%`);
    mark.dataset.side = at > 50 ? "before" : "after";
    marks.append(mark);
  }
  const rows = answer.components.filter((c) => c.bytes > 0).map((c) => make("tr", {},
    make("th", { scope: "row" }, make("span", { class: `swatch ${c.name}` }), spoken(c.name)),
    make("td", { class: "figure" }, bytes(c.bytes)),
    make("td", { class: "figure" }, share(c.share)),
    make("td", { class: "how" }, c.how, c.parts?.some((p) => p.bytes > 0) ? make("small", {}, c.parts.filter((p) => p.bytes > 0).map((p) => `${spoken(p.name)} ${bytes(p.bytes)}`).join(", ")) : null)));
  const nothing = answer.components.filter((c) => c.bytes === 0).map((c) => spoken(c.name));
  return [
    marks,
    bar({ peak, components: answer.components, usable: fit?.usable_bytes, longest }),
    make("p", { class: "quiet" }, `${bytes(peak.device_bytes)} on the card, between ${bytes(peak.low_bytes)} and ${bytes(peak.high_bytes)}; PyTorch allocates ${bytes(peak.allocated_bytes)} and reserves ${bytes(peak.reserved_bytes)}. The peak is in ${peak.where}.`),
    make("table", { class: "parts" },
      make("caption", { class: "unseen" }, `What holds the peak of ${answer.model.name}, ${count(answer.model.parameters)} parameters`),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "What"), make("th", { scope: "col", class: "figure" }, "Size"), make("th", { scope: "col", class: "figure" }, "Share"), make("th", { scope: "col", class: "how" }, "How it comes about"))),
      make("tbody", {}, rows)),
    nothing.length ? make("p", { class: "quiet small" }, `Nothing at this moment: ${nothing.join(", ")}.`) : null,
  ];
}
