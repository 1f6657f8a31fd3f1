// Live bytes through the optimizer step, and what is alive at the moment under the pointer.

import { draw, make } from "./elements.js";
import { bytes, components, spoken } from "./words.js";

const wide = 1000, high = 260, foot = 22;

// timeline draws an answer's; fit is the card, or undefined.
export function timeline(answer, fit) {
  const events = answer.timeline;
  const context = answer.components.find((c) => c.name === "cuda_context")?.bytes ?? 0;
  const room = fit ? fit.usable_bytes - context : undefined;
  const most = Math.max(...events.map((e) => e.allocated_bytes));
  const top = 1.06 * Math.max(most, room !== undefined && room < 3 * most ? room : 0);
  const x = (i) => (wide * i) / events.length;
  const y = (n) => foot + (high - foot) * (1 - n / top);

  const drawing = draw("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", class: "timeline", "aria-hidden": "true" });
  const names = make("div", { class: "phases", "aria-hidden": "true" });
  for (let i = 0; i < events.length; ) {
    let end = i;
    while (end < events.length && events[end].phase === events[i].phase && events[end].micro_step === events[i].micro_step) end++;
    drawing.append(draw("rect", { class: `phase ${events[i].phase}`, x: x(i), width: x(end) - x(i), y: 0, height: high }));
    const name = make("span", {}, (end - i) / events.length > 0.08 ? events[i].phase : "");
    name.style.setProperty("width", `${(100 * (end - i)) / events.length}%`);
    names.append(name);
    i = end;
  }
  // What lasts lies at the bottom, what comes and goes above it.
  const below = new Array(events.length).fill(0);
  for (const name of Object.keys(components)) {
    const part = events.map((e) => e.components?.find((c) => c.name === name)?.bytes ?? 0);
    if (!part.some((n) => n > 0)) continue;
    const from = [...below];
    part.forEach((n, i) => { below[i] += n; });
    const there = below.map((n, i) => `${i ? "V" : `M0 `}${y(n).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
    const back = from.map((_, i) => from.length - 1 - i).map((i) => `V${y(from[i]).toFixed(1)}H${x(i).toFixed(1)}`).join("");
    drawing.append(draw("path", { class: `part ${name}`, d: `${there}${back}Z` }));
  }
  const outline = events.map((e, i) => `${i ? "V" : "M0 "}${y(e.allocated_bytes).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
  drawing.append(draw("path", { class: "live", d: outline }));
  if (room !== undefined && room < top) drawing.append(draw("line", { class: "end", x1: 0, x2: wide, y1: y(room), y2: y(room) }));
  const pointer = draw("line", { class: "pointer", y1: 0, y2: high });
  drawing.append(pointer);

  const said = make("p", { class: "moment" }), tensor = make("p", { class: "moment quiet" }), parts = make("ul", { class: "shares" }), alive = make("ul", { class: "alive" });
  const peak = events.findIndex((e) => e.allocated_bytes === most);
  const slider = make("input", { type: "range", min: 0, max: events.length - 1, value: peak, "aria-label": "Moment of the step", input: () => look(Number(slider.value)) });
  function look(i, height) {
    const e = events[i];
    slider.value = i;
    pointer.setAttribute("x1", x(i + 0.5));
    pointer.setAttribute("x2", x(i + 0.5));
    const where = [e.phase, e.micro_step === null ? null : `micro-step ${e.micro_step}`].filter(Boolean).join(", ");
    said.replaceChildren(make("strong", {}, bytes(e.allocated_bytes)), ` live: ${e.event} (${where})`);
    tensor.textContent = e.tensor ? `Reached by: ${tensorName(e.tensor)}, ${bytes(e.tensor.bytes)}` : "";
    // Under the pointer is the component whose band it is in.
    let top = 0, under = null;
    const shown = Object.keys(components).map((name) => e.components?.find((c) => c.name === name)).filter(Boolean);
    for (const c of shown) {
      top += c.bytes;
      if (height !== undefined && !under && height <= top) under = c.name;
    }
    parts.replaceChildren(...shown.map((c) => make("li", { class: c.name === under ? "under" : "" }, make("span", { class: `swatch ${c.name}` }), `${spoken(c.name)} ${bytes(c.bytes)}`)));
    slider.setAttribute("aria-valuetext", [said, tensor].map((p) => p.textContent).filter(Boolean).join(". "));
  }
  drawing.addEventListener("pointermove", (e) => {
    const box = drawing.getBoundingClientRect();
    const height = (1 - ((e.clientY - box.top) / box.height * high - foot) / (high - foot)) * top;
    look(Math.max(0, Math.min(events.length - 1, Math.floor(((e.clientX - box.left) / box.width) * events.length))), height);
  });
  drawing.addEventListener("pointerleave", () => look(peak));
  const tensors = answer.tensors.slice(0, 12);
  const largest = Math.max(1, ...tensors.map((t) => t.bytes * t.count));
  alive.append(...tensors.map((t) => {
    const fill = make("span", { class: `fill ${t.component}`, "aria-hidden": "true" });
    fill.style.setProperty("width", `${(100 * t.bytes * t.count) / largest}%`);
    return make("li", {}, make("span", { class: "figure" }, bytes(t.bytes * t.count)), make("span", {}, tensorName(t)), make("span", { class: "track" }, fill));
  }));
  look(peak);
  return [
    names, drawing, slider, said, tensor, parts,
    room !== undefined && room >= top ? make("p", { class: "quiet small" }, `The card has room for ${bytes(room)} beside the CUDA context, far above.`) : null,
    make("h3", {}, "Largest tensors at the peak"), alive,
  ];
}

const tensorName = (t) => [t.name.replace("norms_and_residuals", "norms and residuals"), t.count > 1 ? `${t.count} of them` : null, [t.shape, t.dtype].filter(Boolean).join(" ")].filter(Boolean).join(" · ");
