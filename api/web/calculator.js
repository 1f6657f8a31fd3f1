// The page: a job in the form, answers beside it. Every change asks anew; the last question wins.

import { at, make } from "./elements.js";
import { Problem, get, post } from "./ask.js";
import { components } from "./bar.js";
import { best, headroom, on, sideBySide } from "./cards.js";
import { comparison } from "./compare.js";
import { diagnosis, isLog, isSnapshot } from "./diagnosis.js";
import { toClipboard, ways } from "./copy.js";
import { filed } from "./files.js";
import { fieldOf, form, mark } from "./form.js";
import { axes, axis, empty, grid } from "./heatmap.js";
import { cards, example, fragment, fromFragment, read, understand, write } from "./job.js";
import { apply, options, pairs } from "./pairs.js";
import { ranks } from "./ranks.js";
import { timeline } from "./timeline.js";
import { bytes, likely, pairOf, parameters, verdicts } from "./words.js";

const typing = 180; // milliseconds of silence after which a change is a question
const together = 1000; // milliseconds for which a first answer waits for its plan, so that nothing on the page moves when it comes
const patience = 10_000; // milliseconds after which a heat-map goes on only where somebody asks for it

let job = example, kept = null, way = "curl";
let asking = null, timer = 0, notice = "";

const panel = form((changed) => later(changed));

function later(changed) {
  asking?.abort(); // what goes on with the job of before would take this one half-way
  job = changed;
  notice = "";
  document.body.classList.add("asking");
  panel.taken(undefined);
  written();
  clearTimeout(timer);
  timer = setTimeout(ask, typing);
}

// take makes a job that came from a click, a file or a link the one in the form.
function take(next) {
  job = next;
  notice = "";
  panel.show(job);
  written();
  clearTimeout(timer);
  ask();
}

// written brings up everything that is the job itself in another form.
function written() {
  const hash = fragment(job, kept);
  if (location.hash !== hash) history.replaceState(null, "", hash);
  if (document.activeElement !== at("document-text")) at("document-text").value = JSON.stringify(job, null, 2);
  at("elsewhere").textContent = ways[way](job, location.origin, kept);
  at("copied").textContent = "";
}

async function ask() {
  timer = 0;
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const waiting = setTimeout(() => { at("state").textContent = "Working …"; }, 300);
  document.body.classList.add("asking");
  try {
    const answer = await estimate(signal);
    problem(null);
    show(answer, null);
    const late = setTimeout(() => { if (!signal.aborted) document.body.classList.remove("blank"); }, together);
    signal.addEventListener("abort", () => clearTimeout(late));
    const drawn = await frame(answer, signal);
    await plan(answer, signal); // one after the other: what is read first has the service's cores for itself
    await beside(signal);
    clearTimeout(late);
    document.body.classList.remove("blank");
    await heat(answer, drawn, signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    problem(error);
  } finally {
    clearTimeout(waiting);
    if (asking.signal === signal && !timer) { // a change may wait for its question
      at("state").textContent = notice;
      document.body.classList.remove("asking");
      document.body.dataset.asked = "true";
    }
  }
}

// estimate answers the job; its figures are those of the first card. Of all cards the one that matters is not known before the answer.
async function estimate(signal) {
  const path = "/v1/estimate?timeline=true&tensors=true";
  if (!cards(job).includes("*")) return post(path, job, signal);
  const gpus = nearestFirst((await post("/v1/estimate", job, signal)).gpus);
  return { ...(await post(path, { ...job, gpus: [gpus[0].gpu] }, signal)), gpus };
}

// nearestFirst has the smallest card that a job fits on first, and of those that it does not fit on the largest.
function nearestFirst(gpus) {
  const fits = (g) => g.verdict === "fits";
  return gpus.toSorted((a, b) => fits(b) - fits(a) || (fits(a) ? a.usable_bytes - b.usable_bytes : b.usable_bytes - a.usable_bytes));
}

// onFirst is the job on the card that its answer has first, and with the others that it names.
const onFirst = (answer) => (cards(job).includes("*") ? { ...job, gpus: [answer.gpus[0].gpu] } : job);

// instead stands where the verdict does while there is none. Nothing of an answer to another job stays beside it.
function instead(sentence, words, step) {
  document.body.classList.add("blank");
  for (const id of ["section-compare", "use-best", "again"]) at(id).hidden = true;
  at("versions").textContent = "";
  panel.taken(null);
  at("sentence").className = "";
  at("sentence").textContent = sentence;
  at("problem").replaceChildren(...words);
  at("problem").hidden = false;
  at("advice").textContent = step;
  bottom(sentence, "unknown");
}

// again offers to ask about the job in the form.
function again(words) {
  at("again").textContent = words;
  at("again").hidden = false;
}

// problem says what is wrong, or asked, in the place of the verdict, and at the fields that are named.
function problem(error, asked = false) {
  mark(error?.fields ?? []);
  at("problem").hidden = true;
  at("again").hidden = true;
  if (!error) return;
  if (!(error instanceof Problem)) throw error;
  const { fields } = error;
  if (fields.length === 0) {
    instead("No answer to this job yet", [make("p", {}, error.message)], "Nothing in the form is lost.");
    again("Ask again");
    return;
  }
  const [one, more] = asked ? ["One question is open.", "questions are open."] : ["One field needs another look.", "fields need another look."];
  instead("No answer to this job yet", [make("p", {}, fields.length === 1 ? one : `${fields.length} ${more}`), make("ul", {}, fields.map((f) => make("li", {}, toField(f), " ", f.detail)))],
    "The answer follows as soon as nothing is left in this list.");
}

// toField leads to the field of an error, by its name in the form, or else names where it is in the document.
function toField(error) {
  const field = fieldOf(error.pointer ?? "");
  if (!field) return error.pointer ? make("code", {}, error.pointer) : null;
  return make("button", { type: "button", class: "plain", click: () => { field.control.focus(); field.control.scrollIntoView({ block: "center" }); } }, field.label);
}

// unread says that a text is nothing that could be asked about.
function unread(name, words) {
  asking?.abort();
  clearTimeout(timer);
  timer = 0;
  notice = "";
  at("state").textContent = "";
  document.body.classList.remove("asking");
  mark([]);
  instead(`${name} could not be read`, [make("p", {}, words)], "Open another file, or fill in the form: the job in it is what it was before.");
  again("Back to the job in the form");
}

function show(answer, fitting) {
  const fit = answer.gpus[0], said = cards(job).includes("*") ? fit : best(answer.gpus);
  const size = bytes(said ? on(answer, said).device_bytes : answer.peak.device_bytes);
  const sentence = at("sentence");
  sentence.className = said?.verdict ?? "";
  sentence.replaceChildren(...say(answer, said));
  at("advice").replaceChildren(...advise(answer, said, fitting));
  bottom(said ? `${verdicts[said.verdict].sign} ${verdicts[said.verdict].word}: ${size} of ${bytes(said.usable_bytes)}` : `${size} needed`, said?.verdict ?? "unknown");
  if (fitting) return;
  panel.taken(answer.assumed);
  at("parts").replaceChildren(...components(answer, fit).filter(Boolean));
  at("notes").replaceChildren(answer.notes.length ? make("details", { open: answer.notes.length < 5 }, make("summary", {}, "What to know about it"), make("ul", { class: "notes" }, answer.notes.map((n) => make("li", {}, n.text)))) : "");
  at("section-ranks").hidden = !answer.ranks?.length;
  at("ranks").replaceChildren(answer.ranks?.length ? ranks(answer, (rank) => take(write(job, "/training/distributed/rank", rank))) : "");
  at("section-cards").hidden = answer.gpus.length === 0;
  if (fit) at("fits").replaceChildren(...sideBySide(answer, null, first, priced()).filter(Boolean));
  at("time").replaceChildren(...timeline(answer, fit).filter(Boolean));
  at("versions").textContent = `${answer.model.name}: ${parameters(answer.model.parameters)} parameters. Estimator ${answer.versions.estimator}, ${answer.versions.reference}, catalog ${answer.versions.catalog}, calibration ${answer.versions.calibration}. The same job with the same versions gives the same bytes.`;
}

// say is the verdict in one sentence.
function say(answer, fit) {
  if (!fit) return [`Needs ${bytes(answer.peak.device_bytes)} on a card. Choose one to hear whether it fits.`];
  const peak = on(answer, fit);
  const size = bytes(peak.device_bytes), room = bytes(fit.usable_bytes);
  if (cards(job).includes("*")) {
    const on = answer.gpus.filter((g) => g.verdict === "fits").length;
    return [on ? `Fits on ${on} of ${answer.gpus.length} cards: it needs ${size}, and the smallest is ${fit.gpu} with ${room}.` : `Fits on none of ${answer.gpus.length} cards: it needs ${size}, and the largest, ${fit.gpu}, has ${room}.`];
  }
  switch (fit.verdict) {
    case "fits": return [`Fits on ${fit.gpu}: it needs ${size} of ${room}, and up to ${bytes(peak.high_bytes)}.`];
    case "tight": return [`Tight on ${fit.gpu}: it needs ${size} of ${room}, but up to ${bytes(peak.high_bytes)} may be taken.`];
    case "unlikely": return [`Unlikely to fit on ${fit.gpu}: it needs ${size}, and the card has ${room}.`];
    case "does_not_fit": return [`Does not fit on ${fit.gpu}: it needs ${size}, and the card has ${room}.`];
  }
  return [`Needs ${size}; nobody knows how much ${fit.gpu} gives to CUDA.`];
}

// advise is the next step: the pair that a plan recommends, or the first way out where none fits, as a button. fit is the card of the sentence; the
// plan is of the first.
function advise(answer, fit, fitting) {
  at("use-best").hidden = true;
  if (!fit) return [`Between ${bytes(answer.peak.low_bytes)} and ${bytes(answer.peak.high_bytes)}.`];
  const words = [`${headroom(fit.headroom_bytes)}, ${likely(fit.probability)}. `];
  const [first] = answer.gpus;
  if (!cards(job).includes("*") && answer.gpus.length > 1) words.push(`It fits on ${answer.gpus.filter((g) => g.verdict === "fits").length || "none"} of ${answer.gpus.length} cards. `);
  if (!fitting) return words;
  const chosen = fitting.recommended, { today } = fitting;
  const there = first.gpu === fit.gpu ? "" : ` on ${first.gpu}`;
  const offer = (text, use) => {
    at("use-best").textContent = text;
    at("use-best").onclick = use;
    at("use-best").hidden = false;
  };
  if (!chosen) {
    const out = fitting.options.find((o) => o.verdict === "fits" || o.verdict === "tight");
    if (!out) return [...words, `Neither a pair of micro-batch and accumulation nor anything else that was tried makes it fit${there || " on this card"}.`];
    offer("Apply the first way out", () => take(apply(job, out.changes)));
    return [...words, `No pair of micro-batch and accumulation makes it fit${there || " on this card"}. The first way out is “${out.title}”: it takes ${bytes(out.device_bytes)}${out.verdict === "fits" ? "" : `, at most ${bytes(out.high_bytes)}`}.`];
  }
  if (today && chosen.micro_batch === today.micro_batch) return [...words, `It is the fastest pair for its batch${there}.`];
  offer(`Use ${pairOf(chosen)}`, () => pair(chosen.micro_batch, chosen.gradient_accumulation));
  const beside = fitting.beside_display;
  return [...words, `${pairOf(chosen)} keeps the batch of ${fitting.effective_batch.toLocaleString("en")} and fits${there}.`,
    beside && beside.micro_batch !== chosen.micro_batch ? ` Beside a display, ${pairOf(beside)} leaves it room.` : ""];
}

function bottom(text, verdict) {
  at("bottom").textContent = text;
  at("bottom").className = `bottom ${verdict}`;
  at("bottom").hidden = false;
}

async function plan(answer, signal) {
  const there = answer.gpus.length > 0;
  for (const id of ["section-pairs", "section-options"]) at(id).hidden = !there;
  if (!there) return;
  const planned = await post("/v1/plan?brief=true", answer.gpus.length > 8 ? { ...onFirst(answer), gpus: onFirst(answer).gpus.slice(0, 1) } : onFirst(answer), signal);
  show(answer, planned);
  at("fits").replaceChildren(...sideBySide(answer, planned, first, priced()).filter(Boolean));
  at("pairs").replaceChildren(...pairs(planned, answer, pair).filter(Boolean));
  at("options").replaceChildren(...options(planned, (changes) => take(apply(job, changes))).filter(Boolean));
  at("title-pairs").textContent = `Pairs that keep the batch of ${planned.effective_batch.toLocaleString("en")}`;
}

const pair = (micro, accumulation) => take(write(write(job, "/training/micro_batch", micro), "/training/gradient_accumulation", accumulation));

const priced = () => Array.isArray(job.gpus) && job.gpus.some((g) => g?.price_per_hour !== undefined);

// first makes a card of the job the one that verdict, plan and heat-map are about.
function first(name) {
  const is = (g) => (typeof g === "string" ? g : g.name) === name;
  if (job.gpus.some(is)) take({ ...job, gpus: [...job.gpus.filter(is), ...job.gpus.filter((g) => !is(g))] });
  else take({ ...job, gpus: [name, ...job.gpus.filter((g) => g !== "*")] });
}

// contexts remembers how long the sequences of a model may be.
const contexts = new Map();

async function context(signal) {
  const config = read(job, "/model/hf_config");
  if (config) {
    const text = config.text_config ?? config;
    return text.max_position_embeddings ?? text.n_positions ?? text.n_ctx ?? text.max_seq_len ?? 0;
  }
  if (read(job, "/model/recorded")) return read(job, "/training/sequence_length") ?? 1024;
  const own = read(job, "/model/nanogpt/block_size") ?? read(job, "/model/dimensions/max_positions");
  const name = read(job, "/model/preset");
  if (own || !name) return own ?? 1024;
  if (!contexts.has(name)) contexts.set(name, (await get(`/v1/models/${name.split("/").map(encodeURIComponent).join("/")}`, signal)).max_positions ?? 0);
  return contexts.get(name);
}

// frame has room for the heat-map before there is one, and says what its axes are; null without a card.
async function frame(answer, signal) {
  const along = axis(job);
  const longest = answer.gpus.length === 0 || along.unit === "pixels" ? 0 : await context(signal);
  at("section-heat").hidden = answer.gpus.length === 0;
  if (answer.gpus.length === 0) return null;
  at("title-heat").textContent = `Micro-batch by ${along.name}`;
  const drawn = axes(job, read(job, along.pointer) ?? longest, longest);
  empty(at("heat"), job, drawn);
  return drawn;
}

async function heat(answer, drawn, signal) {
  if (!drawn) return;
  const along = axis(job);
  const cells = drawn.micros.length * drawn.lengths.length;
  const drawing = async (limit) => {
    at("heat").dataset.drawing = "true";
    const words = at("heat-words");
    const { drawn: there, spent } = await grid(at("heat"), onFirst(answer), answer, drawn, limit, (micro, length) => take(write(write(job, "/training/micro_batch", micro), along.pointer, length)));
    at("heat").dataset.drawing = "false";
    words.textContent = `GiB on ${answer.gpus[0].gpu}, ${there} of ${cells} jobs in ${Math.round(spent)} ms. The line is where it stops fitting; + is at least so much; a click takes a cell's values.`;
    if (there < cells) words.append(" ", make("button", { type: "button", click: () => drawing(signal).catch((e) => { if (e.name !== "AbortError") problem(e); }) }, "Draw the rest"));
  };
  await drawing(AbortSignal.any([signal, AbortSignal.timeout(patience)]));
}

async function beside(signal) {
  at("section-compare").hidden = !kept;
  if (!kept) return;
  at("compare").replaceChildren(...comparison(await post("/v1/compare", { a: kept, b: job }, signal)).filter(Boolean));
}

// opened takes what somebody dropped, opened or pasted: a job document, a recording, a config.json, or a file of a trainer, which the service reads.
// name is that of a file, whole says that a text came all at once: what cannot be read of these is said in the place of the verdict, of what is being
// written at its field alone. What the example of the page says stays with no file: nobody chose it. A snapshot is a file that is no text.
async function opened(text, field, name, whole = Boolean(name), snapshot = undefined) {
  const error = at(field === "config-text" ? "config-error" : "document-error");
  const wrong = (words) => {
    if (whole) unread(name ?? "What was pasted", words);
    if (!name) {
      error.textContent = words;
      error.hidden = false;
      at(field).setAttribute("aria-invalid", "true");
      if (field === "document-text") at("document").open = true;
    }
    if (whole) at("sentence").focus();
  };
  error.hidden = true;
  at(field).removeAttribute("aria-invalid");
  if (whole) at("section-diagnosis").hidden = true;
  const { object, problem: broken } = parsed(text);
  const known = understand(object);
  const rest = job === example && name ? write(job, "/gpus", undefined) : job;
  if (known?.job) return take(known.job);
  if (known?.recording) return take({ ...rest, model: { recorded: known.recording } });
  if (known?.config || (field === "config-text" && object)) return take({ ...rest, model: { hf_config: object, ...(job.model?.head && { head: job.model.head }) } });
  if (field === "config-text") return wrong(`This is not JSON: ${broken}.`);
  try {
    if (snapshot || isLog(text)) {
      at("diagnosis").replaceChildren(...await diagnosis({ text, snapshot }, snapshot && job === example ? undefined : job));
      at("title-diagnosis").textContent = snapshot ? "What held the memory" : "What ran out of memory";
      at("section-diagnosis").hidden = false;
      at("section-diagnosis").scrollIntoView({ block: "nearest" });
      return undefined;
    }
    const from = await filed(text, name, job === example ? [] : cards(job));
    if (from.refused) return wrong(from.refused);
    taken(from);
    if (whole && from.questions.length) at("sentence").focus();
  } catch (e) {
    if (!(e instanceof Problem)) throw e;
    wrong(e.fields.length ? e.fields.map((f) => f.detail).join(" ") : e.message);
  }
}

// taken shows the job that was read from a file, with what the file does not say asked at the fields that it concerns.
function taken(from) {
  if (from.questions.length === 0) {
    take(from.job);
  } else {
    asking?.abort();
    clearTimeout(timer);
    job = from.job;
    panel.show(job);
    written();
    document.body.classList.remove("asking");
    document.body.dataset.asked = "true";
    problem(new Problem({ errors: from.questions }), true);
  }
  notice = from.notice;
  at("state").textContent = notice;
}

function parsed(text) {
  try {
    return { object: JSON.parse(text) };
  } catch (e) {
    return { problem: e.message };
  }
}

const paste = (id) => {
  let timer = 0;
  at(id).addEventListener("input", (e) => {
    const whole = /^insertFrom(Paste|Drop)/.test(e.inputType ?? "");
    clearTimeout(timer);
    timer = setTimeout(() => { if (at(id).value.trim()) opened(at(id).value, id, undefined, whole); }, whole ? 0 : 400);
  });
};
paste("config-text");
paste("document-text");
at("document-text").addEventListener("blur", () => { if (at("document-error").hidden) written(); }); // what was read from a text is the document
const file = async (f) => f && (await isSnapshot(f) ? opened("", "document-text", f.name, true, f) : opened(await f.text(), "document-text", f.name));
at("file").addEventListener("change", () => file(at("file").files[0]));
at("recorded-file").addEventListener("change", () => file(at("recorded-file").files[0]));
addEventListener("dragover", (e) => { e.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", (e) => { if (!e.relatedTarget) document.body.classList.remove("dropping"); });
addEventListener("drop", (e) => {
  e.preventDefault();
  document.body.classList.remove("dropping");
  file(e.dataTransfer.files[0]);
});

at("job").addEventListener("submit", (e) => e.preventDefault());
at("again").addEventListener("click", ask);
at("keep").addEventListener("click", () => { kept = job; written(); ask(); });
at("put-away").addEventListener("click", () => { at("section-diagnosis").hidden = true; at("file").focus(); });
at("drop").addEventListener("click", () => { kept = null; written(); at("section-compare").hidden = true; at("keep").focus(); });
at("back").addEventListener("click", () => { const was = kept; kept = null; take(was); at("keep").focus(); });
at("copy").addEventListener("click", async () => {
  await toClipboard(at("elsewhere").textContent).then(() => { at("copied").textContent = "Copied."; }, () => { at("copied").textContent = "The browser did not copy; the text above can be selected."; });
});
for (const name of Object.keys(ways)) {
  at("ways").append(make("button", { type: "button", class: "plain way", "aria-pressed": String(name === way), click: (e) => {
    way = name;
    for (const b of at("ways").children) b.setAttribute("aria-pressed", String(b === e.target));
    written();
  } }, name));
}

const theme = at("theme");
theme.value = localStorage.getItem("theme") ?? "";
const paint = () => { document.documentElement.dataset.theme = theme.value; };
theme.addEventListener("change", () => { localStorage.setItem("theme", theme.value); paint(); });
paint();

// begin reads the link; what is in its fragment that cannot be read is said, and the example stands in for it.
function begin() {
  notice = "";
  try {
    const from = fromFragment(location.hash);
    kept = from?.beside ?? null;
    take(from?.job ?? example);
  } catch {
    kept = null;
    take(example);
    notice = "The link's job could not be read; this is an example.";
  }
}
addEventListener("hashchange", begin);
begin();
document.body.classList.remove("building");
