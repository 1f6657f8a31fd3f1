// Two jobs side by side: the one that was kept and the one in the form.

import { make } from "./elements.js";
import { bytes, spoken } from "./words.js";

const signed = (n) => (n > 0 ? `+${bytes(n)}` : bytes(n));

// comparison draws what /v1/compare answers; a is the job that was kept, b the one in the form.
export function comparison(c) {
  const moved = c.components.filter((x) => x.a_bytes > 0 || x.b_bytes > 0);
  const widest = Math.max(1, ...moved.map((x) => Math.abs(x.difference_bytes)));
  const rows = moved.map((x) => {
    const part = make("span", { class: `delta ${x.difference_bytes < 0 ? "less" : "more"}`, "aria-hidden": "true" });
    part.style.setProperty("width", `${(50 * Math.abs(x.difference_bytes)) / widest}%`);
    return make("tr", {}, make("th", { scope: "row" }, make("span", { class: `swatch ${x.name}` }), spoken(x.name)),
      make("td", { class: "figure" }, bytes(x.a_bytes)), make("td", { class: "figure" }, bytes(x.b_bytes)),
      make("td", { class: "figure" }, x.difference_bytes ? signed(x.difference_bytes) : "same"), make("td", { class: "drawn" }, part));
  });
  const total = (side) => c[side].peak.device_bytes;
  return [
    make("p", {}, c.difference_bytes === 0 ? "Both take the same." : ["The job in the form takes ", make("strong", {}, `${bytes(Math.abs(c.difference_bytes))} ${c.difference_bytes > 0 ? "more" : "less"}`), ` than the one that was kept: ${bytes(total("b"))} after ${bytes(total("a"))}.`]),
    c.causes.length ? make("ul", { class: "causes" }, c.causes.map((x) => make("li", {}, x.text))) : null,
    c.without_effect?.length ? make("p", { class: "quiet small" }, `Without effect: ${c.without_effect.map((x) => x.pointer ?? x.text ?? x).join(", ")}.`) : null,
    make("table", {}, make("caption", { class: "unseen" }, "Components of both jobs"),
      make("thead", {}, make("tr", {}, ["What", "Kept", "In the form", "Difference", ""].map((t, i) => (t ? make("th", { scope: "col", class: i ? "figure" : "" }, t) : make("td", { class: "drawn" }))))),
      make("tbody", {}, rows)),
  ];
}
