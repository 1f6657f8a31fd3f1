// Live bytes through the optimizer step, and what is alive at the moment under the pointer.

import { draw, make } from "./elements.js";
import { bytes } from "./words.js";

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
  const line = events.map((e, i) => `H${x(i).toFixed(1)}V${y(e.allocated_bytes).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
  drawing.append(draw("path", { class: "live", d: `M0 ${high}V${y(events[0].allocated_bytes).toFixed(1)}${line}V${high}Z` }));
  if (room !== undefined && room < top) drawing.append(draw("line", { class: "end", x1: 0, x2: wide, y1: y(room), y2: y(room) }));
  const pointer = draw("line", { class: "pointer", y1: 0, y2: high });
  drawing.append(pointer);

  const said = make("p", { class: "moment" }), alive = make("ul", { class: "alive" });
  const peak = events.findIndex((e) => e.allocated_bytes === most);
  const slider = make("input", { type: "range", min: 0, max: events.length - 1, value: peak, "aria-label": "Moment of the step", input: () => look(Number(slider.value)) });
  function look(i) {
    const e = events[i];
    slider.value = i;
    pointer.setAttribute("x1", x(i + 0.5));
    pointer.setAttribute("x2", x(i + 0.5));
    const where = [e.phase, e.micro_step === null ? null : `micro-step ${e.micro_step}`].filter(Boolean).join(", ");
    said.replaceChildren(make("strong", {}, bytes(e.allocated_bytes)), ` live: ${e.event} (${where})`);
    slider.setAttribute("aria-valuetext", said.textContent);
  }
  drawing.addEventListener("pointermove", (e) => {
    const box = drawing.getBoundingClientRect();
    look(Math.max(0, Math.min(events.length - 1, Math.floor(((e.clientX - box.left) / box.width) * events.length))));
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
    names, drawing, slider, said,
    room !== undefined && room >= top ? make("p", { class: "quiet small" }, `The card has room for ${bytes(room)} beside the CUDA context, far above.`) : null,
    make("h3", {}, "Largest tensors at the peak"), alive,
  ];
}

const tensorName = (t) => [t.name.replace("norms_and_residuals", "norms and residuals"), t.count > 1 ? `${t.count} of them` : null, [t.shape, t.dtype].filter(Boolean).join(" ")].filter(Boolean).join(" · ");
