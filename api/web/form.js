// The form: it shows a job and says what of it was changed. It grows with what is known: fields that make no sense yet are not there.

import { at, make } from "./elements.js";
import { cards, checkpointing, loss, objective, ofNvidiaSmi, optimizer, read, shortest, write } from "./job.js";
import { batch, models, more, training } from "./fields.js";
import { asKind, asModel, asPipeline, diffuses } from "./objective.js";
import { picker } from "./picker.js";
import { bytes, parameters } from "./words.js";

// The fields that stand for a part of a union type: the part's pointer, how the union is taken apart and which of its fields is its short form.
const unions = [
  { base: "/training/optimizer", apart: optimizer, short: "name" },
  { base: "/training/gradient_checkpointing", apart: checkpointing, short: "mode" },
  { base: "/training/loss", apart: loss, short: "kind" },
  { base: "/training/objective", apart: objective, short: "kind" },
];
const unionOf = (pointer) => unions.find((u) => pointer.startsWith(u.base + "/"));

function valueAt(job, pointer) {
  const union = unionOf(pointer);
  return union ? read(union.apart(job), pointer.slice(union.base.length)) : read(job, pointer);
}

function withValue(job, pointer, value) {
  const union = unionOf(pointer);
  if (!union) return write(job, pointer, value);
  const whole = write(union.apart(job), pointer.slice(union.base.length), value);
  return write(job, union.base, shortest(whole, union.short));
}

const idOf = (pointer) => "f" + pointer.replaceAll("/", "-");

// fieldset makes the controls of some fields; changed(pointer, value) is called as they are used.
function controls(fields, changed) {
  return fields.map((field) => {
    const id = idOf(field.pointer);
    const hint = field.hint && make("small", { id: `${id}-hint`, class: "hint" }, field.hint);
    const common = { id, "aria-describedby": [hint && `${id}-hint`, `${id}-error`].filter(Boolean).join(" ") };
    const error = make("p", { id: `${id}-error`, class: "error", hidden: true });
    let control;
    const offer = offered(field) && make("button", { type: "button", id: `${id}-taken`, class: "taken", disabled: true, hidden: true, click: () => {
      if (field.kind === "check") control.checked = true;
      else control.value = offer.value;
      changed(field, field.kind === "check" ? true : field.number ? Number(offer.value) : field.kind === "choice" ? offer.value : typed(field, control), true);
      control.focus();
    } });
    if (field.kind === "check") {
      control = make("input", { ...common, type: "checkbox", change: () => changed(field, control.checked || undefined) });
      return holder(field, "field check", make("label", { for: id }, control, " ", field.label), hint, offer, error);
    }
    if (field.kind === "choice") {
      const options = Array.isArray(field.options) ? field.options.map((o) => [o, o]) : Object.entries(field.options);
      control = make("select", { ...common, change: () => changed(field, control.value === "" ? undefined : field.number ? Number(control.value) : control.value) },
        make("option", { value: "" }, "default"), options.map(([value, text]) => make("option", { value }, text)));
    } else if (field.kind === "json") {
      control = make("textarea", { ...common, rows: 4, spellcheck: "false", placeholder: field.placeholder, "aria-required": field.required && "true",
        input: () => changed(field, typed(field, control)) });
    } else {
      const type = field.kind === "number" ? { type: "number", min: 0, step: field.step ?? 1, inputmode: field.step ? "decimal" : "numeric" } : { type: "text", spellcheck: "false" };
      control = make("input", { ...common, ...type, placeholder: field.placeholder, autocomplete: "off", "aria-required": field.required && "true",
        input: () => changed(field, typed(field, control)) });
    }
    return holder(field, field.kind === "json" ? "field whole" : "field", make("label", { for: id }, field.label), control, hint, offer, error);
  });
}

// offered says that an answer may tell what a field was taken for where the job leaves it out.
const offered = (field) => field.pointer.startsWith("/training/") && field.kind !== "json";

// takenAs is what an answer took for a field, as the field shows it; undefined for what the field has no word for, and for what is not there.
function takenAs(assumed, { pointer, kind }) {
  let value = valueAt({ training: assumed?.training }, pointer);
  if (pointer === "/training/dropout" && value?.hidden === value?.attention) value = value?.hidden;
  if (value === undefined || value === false || value === "") return undefined;
  if (kind === "check") return value === true ? "on" : undefined;
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? undefined : value;
}

// completed is what is said, with what was taken for the rest.
function completed(taken, said) {
  if (said === undefined) return taken;
  if ([taken, said].some((v) => typeof v !== "object" || v === null || Array.isArray(v))) return said;
  return Object.fromEntries([...new Set([...Object.keys(said), ...Object.keys(taken)])].map((k) => [k, completed(taken[k], said[k])]));
}

const holder = (field, kind, ...children) => make("div", { class: kind, "data-pointer": field.pointer }, children);

// typed is what somebody wrote. What is no number is sent as it is, so that the service says what it accepts.
function typed(field, control) {
  const text = control.value.trim();
  if (text === "") return control.validity.badInput ? "" : undefined;
  if (field.kind === "text") return text;
  if (field.kind === "json") {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  if (field.kind === "pixels") {
    const sides = text.split(/\s*[x×,]\s*/).map(Number);
    return sides.some(Number.isNaN) ? text : sides.length === 1 ? sides[0] : sides;
  }
  if (field.kind === "number") return Number(text) * (field.unit ?? 1);
  const words = text.split(/[\s,]+/).filter(Boolean);
  return words.length === 1 && words[0] === "all-linear" ? words[0] : words;
}

// form builds the form once; show(job) brings it up to a job. changed(job) is called with what a user makes of it.
export function form(changed) {
  let job = {}, assumed = null;
  const set = (pointer, value, taken) => {
    job = pointer === "/training/objective/kind" ? asKind(job, value) : withValue(job, pointer, value);
    // A framework that is said has defaults of its own: what was taken for the rest is said with it, so that it stays the same job.
    if (taken && pointer === "/training/framework") job = { ...job, training: completed(assumed.training, job.training) };
    if (taken || pointer === "/training/objective/kind") fill();
    grow();
    changed(job);
  };
  const put = (field, value, taken) => set(field.pointer, value, taken);

  const model = picker({
    id: "f-model-preset", label: "Models", placeholder: "gpt2, Llama-3.1-8B …", free: true,
    find: (text, size) => `/v1/models?page_size=${size}&q=${encodeURIComponent(text)}`,
    rows: (answer) => answer.models.map((m) => ({ value: m.id, title: m.id, detail: `${parameters(m.params_total)} · ${m.family}` })),
    picked: (value) => {
      model.input.value = value;
      if (value !== read(job, "/model/preset")) set("/model/preset", value || undefined);
    },
  });
  at("model-name").append(holder({ pointer: "/model/preset" }, "field", make("label", { for: "f-model-preset" }, "Model of the catalog"),
    make("div", { class: "picker" }, model.input, model.list), make("p", { class: "error", id: "f-model-preset-error", hidden: true })));
  model.input.setAttribute("aria-describedby", "f-model-preset-error");

  const card = picker({
    id: "f-gpus", label: "Cards", placeholder: "add a card: 4090, A100, a line of nvidia-smi …",
    find: (text, size) => `/v1/gpus?page_size=${size}&q=${encodeURIComponent(text)}`,
    rows: (answer) => answer.gpus.map((g) => ({ value: g.id, title: g.name, detail: bytes(g.memory_bytes) })),
    picked: (value) => {
      card.input.value = "";
      if (value && !cards(job).includes(value)) set("/gpus", [...(Array.isArray(job.gpus) ? job.gpus : []), value]);
    },
  });
  card.input.setAttribute("aria-describedby", "f-gpus-error");
  card.input.title = "A line of nvidia-smi --query-gpu=name,memory.total,memory.free --format=csv adds that card with what is free of it";
  card.input.addEventListener("input", () => {
    const found = ofNvidiaSmi(card.input.value);
    if (found.length === 0) return;
    card.input.value = "";
    set("/gpus", [...(Array.isArray(job.gpus) ? job.gpus : []), ...found]);
  });
  at("cards").append(holder({ pointer: "/gpus" }, "field", make("label", { for: "f-gpus" }, "Cards"), make("ul", { id: "chosen-cards", class: "chips" }),
    make("div", { class: "picker" }, card.input, card.list), make("p", { class: "error", id: "f-gpus-error", hidden: true })));

  for (const [kind, way] of Object.entries(models)) {
    if (way.fields) at(`model-${kind}`).append(...controls(way.fields, put));
    at(`way-${kind}`).addEventListener("change", () => {
      const head = read(job, "/model/head");
      job = (kind === "diffusion" ? asPipeline : asModel)({ ...job, model: { ...(way.start && { [kind]: way.start }), ...(head && { head }) } });
      fill();
      grow();
      if (way.start) changed(job);
      (kind === "preset" ? model.input : kind === "hf_config" ? at("config-text") : kind === "recorded" ? at("recorded-file") : null)?.focus();
    });
  }
  at("batch").append(...controls(batch, put));
  at("training").append(...controls(training, put));
  for (const section of more) {
    at("more").append(make("details", { id: `more-${section.id}` }, make("summary", {}, section.title, make("span", { class: "given", hidden: true }, "set")),
      make("div", { class: "grid" }, controls(section.fields, put))));
  }

  // price is where an hour of a card gets what it costs, by which the cards are ranked.
  function price(name, i) {
    const { price_per_hour: now, ...rest } = typeof job.gpus[i] === "string" ? { name } : job.gpus[i];
    return make("input", {
      type: "text", inputmode: "decimal", class: "price", value: now === undefined ? "" : String(now), placeholder: "price/h", "aria-label": `Price of an hour of ${name}`,
      title: "What an hour of the card costs, in a unit that is the same for all cards: they are ranked by what the run costs",
      change: (e) => {
        const text = e.target.value.trim(), n = Number(text);
        const card = text ? { ...rest, price_per_hour: Number.isNaN(n) ? text : n } : Object.keys(rest).join() === "name" ? name : rest;
        set("/gpus", job.gpus.map((g, j) => (j === i ? card : g)));
      },
    });
  }

  // grow shows the fields that make sense with what the job says.
  function grow() {
    const way = Object.keys(models).find((kind) => read(job, `/model/${kind}`) !== undefined) ?? checkedWay();
    for (const kind of Object.keys(models)) {
      at(`way-${kind}`).checked = kind === way;
      at(kind === "preset" ? "model-name" : `model-${kind}`).hidden = kind !== way;
    }
    for (const field of [...batch, ...training, ...more.flatMap((s) => s.fields)]) {
      if (field.show) document.querySelector(`[data-pointer="${field.pointer}"]`).hidden = !field.show(job);
    }
    for (const section of more) {
      at(`more-${section.id}`).hidden = section.show ? !section.show(job) : false;
      const given = section.fields.some((f) => valueAt(job, f.pointer) !== undefined);
      at(`more-${section.id}`).querySelector(".given").hidden = !given;
    }
    at("chosen-cards").replaceChildren(...cards(job).map((name, i) => make("li", { "data-pointer": `/gpus/${i}` }, name,
      job.gpus[i]?.free_bytes >= 0 ? `, ${bytes(job.gpus[i].free_bytes)} free` : "",
      name !== "*" && (job.gpus.length > 1 || job.gpus[i]?.price_per_hour !== undefined) ? price(name, i) : null,
      make("button", { type: "button", "aria-label": `Remove ${name}`, click: () => set("/gpus", job.gpus.length > 1 ? job.gpus.filter((_, j) => j !== i) : undefined) }, "×"))));
    const t = job.training ?? {};
    const { world_size: world = 1, tensor_parallel: tensor = 1, pipeline_parallel: pipeline = 1, context_parallel: context = 1 } = t.distributed ?? {};
    const whole = (t.micro_batch ?? 0) * (t.gradient_accumulation ?? 1) * Math.max(1, Math.floor(world / (tensor * pipeline * context)));
    for (const field of fields()) offer(field);
    at("effective").textContent = whole > 0 ? `${whole.toLocaleString("en")} ${diffuses(job) ? "pictures" : "sequences"} in an optimizer step` : "";
  }
  const fields = () => [...batch, ...training, ...more.flatMap((s) => s.fields), ...Object.values(models).flatMap((m) => m.fields ?? [])].filter(offered);

  // offer shows beside a field that the job leaves out what it was taken for, once there is an answer; a click says it.
  function offer(field) {
    const { pointer } = field, button = at(`${idOf(pointer)}-taken`), control = at(idOf(pointer));
    const value = takenAs(assumed, field);
    const has = value !== undefined && (control.tagName !== "SELECT" || [...control.options].some((o) => o.value === String(value)));
    const kept = batch.includes(field) || training.includes(field); // the place, of fields that are always there
    button.hidden = valueAt(job, pointer) !== undefined || (!has && !kept);
    button.disabled = !has;
    if (!has) return;
    button.value = value;
    button.textContent = `taken as ${typeof value === "number" ? value.toLocaleString("en") : value}`;
    button.setAttribute("aria-label", `${button.textContent}: say so for ${document.querySelector(`label[for="${idOf(pointer)}"]`).textContent}`);
  }

  // taken brings up what an answer took for what the job leaves out; null is no answer, undefined that one is on its way.
  function taken(now) {
    assumed = now ?? null;
    for (const field of fields()) {
      if (now === null) at(`${idOf(field.pointer)}-taken`).textContent = "";
      offer(field);
    }
  }

  const checkedWay = () => Object.keys(models).find((kind) => at(`way-${kind}`).checked) ?? "preset";

  // show brings the form to a job that came from elsewhere.
  function show(next) {
    job = next;
    model.input.value = read(job, "/model/preset") ?? "";
    const config = read(job, "/model/hf_config");
    at("config-text").value = config ? JSON.stringify(config, null, 2) : "";
    at("recorded-words").textContent = recordedWords(read(job, "/model/recorded"));
    fill();
    for (const section of more) {
      if (section.fields.some((f) => valueAt(job, f.pointer) !== undefined) && section.id !== "room") at(`more-${section.id}`).open = true;
    }
    grow();
  }

  // fill writes the job's values into the fields.
  function fill() {
    for (const field of [...batch, ...training, ...more.flatMap((s) => s.fields), ...Object.values(models).flatMap((m) => m.fields ?? [])]) {
      const control = at(idOf(field.pointer)), value = valueAt(job, field.pointer);
      if (field.kind === "check") control.checked = Boolean(value);
      else if (field.kind === "pixels" && Array.isArray(value)) control.value = value.join(" × ");
      else if (field.kind === "json" && control === document.activeElement) continue; // what is being written stays as it is
      else if (field.kind === "json") control.value = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);
      else if (field.kind === "words") control.value = Array.isArray(value) ? value.join(", ") : value ?? "";
      else control.value = value === undefined || typeof value === "object" ? "" : String(field.unit ? value / field.unit : value);
    }
  }

  return { show, taken };
}

// recordedWords says what a recording is of.
function recordedWords(recording) {
  if (!recording) return "";
  if (recording.id) return `the recording ${recording.id} of this service`;
  const releases = Object.entries(recording.versions ?? {}).filter(([library]) => !["recorder", "python"].includes(library));
  const { count = 0, name = "" } = recording.layers ?? {};
  return [recording.name, count > 0 && `${count} × ${name}`, releases.map(([library, version]) => `${library} ${version}`).join(", "),
    Object.keys(recording.programs ?? {}).join(", ")].filter(Boolean).join(" · ");
}

// mark puts every error beside the field that it names; those that name none are returned.
export function mark(errors) {
  for (const old of document.querySelectorAll("#job .error")) {
    old.hidden = true;
    old.textContent = "";
  }
  for (const old of document.querySelectorAll("#job [aria-invalid]")) old.removeAttribute("aria-invalid");
  const left = [];
  for (const error of errors) {
    const field = nearest(error.pointer ?? "");
    if (!field) {
      left.push(error);
      continue;
    }
    const text = field.querySelector(".error");
    text.textContent = [text.textContent, sentence(error, field)].filter(Boolean).join(" ");
    text.hidden = false;
    field.querySelector("input, select, textarea")?.setAttribute("aria-invalid", "true");
    const section = field.closest("details");
    if (section) section.open = true;
    field.hidden = false;
  }
  return left;
}

// fieldOf is the control of the field that an error is put beside, and its name; undefined where there is none.
export function fieldOf(pointer) {
  const field = nearest(pointer), control = field?.querySelector("input, select, textarea");
  return control && { control, label: field.querySelector("label").textContent.trim() };
}

// nearest is the field of a pointer, or the one that a pointer goes into or lies above.
function nearest(pointer) {
  for (let at = pointer; at; at = at.slice(0, at.lastIndexOf("/"))) {
    const field = document.querySelector(`#job [data-pointer="${CSS.escape(at)}"]:not(li)`);
    if (field && !field.closest("[hidden]:not([data-pointer])")) return field;
  }
  return pointer ? document.querySelector(`#job [data-pointer^="${CSS.escape(pointer)}/"]`) : null;
}

function sentence(error, field) {
  const below = error.pointer.startsWith(`${field.dataset.pointer}/`) ? error.pointer.slice(field.dataset.pointer.length + 1) : "";
  const itself = error.pointer === field.dataset.pointer || /^\d+$/.test(below); // an element of a list is named in the detail
  const deeper = itself ? "" : `${error.pointer}: `;
  const text = deeper + error.detail;
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}
