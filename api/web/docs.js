// A reader of /openapi.json: operations by tag, fields of every schema, examples,
// and a form that sends them. Text from the document only ever becomes text
// nodes, never markup.

import { make } from "./elements.js";

const methods = ["get", "put", "post", "delete", "patch"];

// prose turns `code` in a description into code elements.
function prose(text) {
  return (text ?? "").split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));
}

function resolve(spec, value) {
  for (let hops = 0; value?.$ref && hops < 8; hops++) {
    value = value.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], spec);
  }
  return value ?? {};
}

const nameOf = (schema) => schema?.$ref?.split("/").pop();

// kind says in a few words what a schema accepts.
function kind(spec, schema) {
  const named = nameOf(schema);
  const s = resolve(spec, schema);
  if (s.allOf) return kind(spec, s.allOf[0]);
  if (s.oneOf) return "object, in one of these ways";
  if (s.anyOf) return s.anyOf.map((form) => kind(spec, form)).join(" or ");
  if (s.enum) return s.enum.map((value) => JSON.stringify(value)).join(", ");
  if (s.type === "array") return `list of ${kind(spec, s.items ?? {})}`;
  const bounds = [
    s.minimum !== undefined ? `≥ ${s.minimum.toLocaleString("en")}` : "",
    s.exclusiveMaximum !== undefined ? `< ${s.exclusiveMaximum}` : "",
    s.maximum !== undefined && s.maximum < 2 ** 53 - 1 ? `≤ ${s.maximum.toLocaleString("en")}` : "",
  ].filter(Boolean).join(", ");
  if (s.type === "object" && named) return named;
  return [s.type ?? "any", bounds].filter(Boolean).join(" ");
}

// objectIn finds the schema with properties in a schema, a union or a list.
function objectIn(spec, schema) {
  const s = resolve(spec, schema);
  if (s.properties) return s;
  if (s.oneOf) return { properties: Object.assign({}, ...s.oneOf.map((form) => objectIn(spec, form)?.properties)) };
  for (const form of [...(s.allOf ?? []), ...(s.anyOf ?? [])]) {
    const found = objectIn(spec, form);
    // What all forms require together is required of this one.
    if (found) return { ...found, required: [found, ...(s.allOf ?? [])].flatMap((f) => f.required ?? []) };
  }
  return s.items ? objectIn(spec, s.items) : null;
}

function fields(spec, schema, depth = 0) {
  const s = objectIn(spec, schema);
  if (!s || depth > 8) return null;
  const list = make("ul", { class: "fields" });
  for (const [name, property] of Object.entries(s.properties)) {
    const label = [
      make("code", { class: s.required?.includes(name) ? "required" : undefined }, name), " ",
      make("span", { class: "quiet" }, kind(spec, property)),
    ];
    const text = property.description ?? resolve(spec, property).description;
    if (text) label.push(make("div", {}, prose(text)));
    const inner = objectIn(spec, property);
    const item = make("li");
    if (inner && Object.keys(inner.properties).length) {
      const more = make("details", {}, make("summary", {}, label));
      // Built when it is opened: schemas may hold each other.
      more.addEventListener("toggle", () => {
        if (more.open && more.childElementCount === 1) more.append(fields(spec, property, depth + 1) ?? "");
      });
      item.append(more);
    } else {
      item.append(...label);
    }
    list.append(item);
  }
  return list;
}

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function examplesOf(spec, media) {
  return Object.entries(media?.examples ?? {}).map(([name, example]) => ({ name, ...resolve(spec, example) }));
}

function parameters(spec, op) {
  if (!op.parameters?.length) return [];
  const rows = op.parameters.map((p) => resolve(spec, p)).map((p) =>
    make("tr", {},
      make("td", {}, make("code", { class: p.required ? "required" : undefined }, p.name)),
      make("td", { class: "quiet" }, `${p.in}, ${kind(spec, p.schema ?? {})}`),
      make("td", {}, prose(p.description))));
  return [make("h4", {}, "Parameters"), make("table", {}, make("tbody", {}, rows))];
}

// requestsOf are the requests that the examples of an operation show, the good
// ones and those that are refused.
function requestsOf(spec, op) {
  return Object.values(op.responses)
    .flatMap((r) => Object.values(resolve(spec, r).content ?? {}))
    .flatMap((media) => examplesOf(spec, media))
    .map((e) => ({
      summary: e.summary,
      target: e["x-request"].slice(e["x-request"].indexOf(" ") + 1),
      type: e["x-request-type"],
      body: e["x-request-body"] && shown(resolve(spec, e["x-request-body"]).value),
    }));
}

// tryout is a form with the examples of an operation, which sends them to this service.
function tryout(spec, method, op) {
  const requests = requestsOf(spec, op);
  if (!requests.length) return [];
  const body = op.requestBody ? make("textarea", { "aria-label": "Body", spellcheck: "false" }) : null;
  const choice = make("select", { "aria-label": "Example" }, requests.map((r, i) => make("option", { value: i }, r.summary)));
  const line = make("code", {});
  const answer = make("pre", { hidden: true });
  const status = make("span", { class: "quiet", role: "status" });
  const pick = () => {
    const chosen = requests[choice.value];
    line.textContent = `${method.toUpperCase()} ${chosen.target}`;
    if (body) body.value = chosen.body ?? "";
  };
  const send = make("button", { type: "button" }, "Send");
  choice.addEventListener("change", pick);
  send.addEventListener("click", async () => {
    const { target, type } = requests[choice.value];
    status.textContent = "…";
    try {
      const began = performance.now();
      const response = await fetch(target, {
        method: method.toUpperCase(), body: body?.value, headers: type ? { "Content-Type": type } : {},
      });
      const text = await response.text();
      status.textContent = `${response.status} ${response.statusText}, ${Math.round(performance.now() - began)} ms`;
      status.className = response.ok ? "quiet" : "bad";
      try { answer.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { answer.textContent = text; }
      answer.hidden = false;
    } catch (error) {
      status.textContent = String(error);
      status.className = "bad";
    }
  });
  pick();
  return [make("details", {}, make("summary", {}, make("strong", {}, "Try it")), make("div", { class: "row" }, choice, send, line, status), body ?? [], answer)];
}

function responses(spec, op) {
  return [make("h4", {}, "Answers"), ...Object.entries(op.responses).map(([status, ref]) => {
    const response = resolve(spec, ref);
    const [type, media] = Object.entries(response.content ?? {})[0] ?? [];
    const examples = examplesOf(spec, media);
    const head = [make("code", {}, status), " ", response.description, " ", make("span", { class: "quiet" }, type ?? "")];
    const list = media?.schema && status < "400" ? fields(spec, media.schema) : null;
    if (!examples.length && !list) return make("div", {}, head);
    return make("details", {}, make("summary", {}, head), list,
      examples.map((e) => [make("p", { class: "quiet" }, e.summary), make("pre", {}, make("code", {}, shown(e.value)))]));
  })];
}

function operation(spec, method, path, op) {
  const content = Object.values(op.requestBody?.content ?? {})[0];
  const body = content?.schema ? fields(spec, content.schema) : null;
  return make("section", { class: "operation", id: op.operationId },
    make("h3", {}, make("span", { class: `method ${method}` }, method.toUpperCase()), make("code", {}, path), make("span", {}, op.summary)),
    make("p", {}, prose(op.description)),
    parameters(spec, op),
    body ? [make("h4", {}, "Body"), body] : [],
    responses(spec, op),
    tryout(spec, method, op));
}

function render(spec) {
  const contents = document.getElementById("contents");
  const reference = document.getElementById("reference");
  contents.append(make("a", { href: "/" }, "vramplan"));
  reference.replaceChildren(make("h1", {}, `${spec.info.title} API`), make("p", {}, prose(spec.info.description)));

  const all = Object.entries(spec.paths).flatMap(([path, item]) =>
    methods.filter((m) => item[m]).map((m) => ({ path, method: m, op: item[m] })));
  const aliases = [...new Set(all.map(({ op }) => op["x-also-at"]).filter(Boolean))];
  for (const tag of spec.tags) {
    reference.append(make("h2", { id: `tag-${tag.name}` }, tag.name), make("p", { class: "quiet" }, prose(tag.description)));
    const list = make("ul");
    for (const { path, method, op } of all.filter(({ op }) => op.tags?.includes(tag.name))) {
      reference.append(operation(spec, method, path, op));
      list.append(make("li", {}, make("a", { href: `#${op.operationId}`, title: `${method.toUpperCase()} ${path}` }, op.summary)));
    }
    contents.append(make("h4", {}, tag.name), list);
  }
  if (aliases.length) reference.append(make("p", { class: "quiet" }, "Without a version, the same: ", aliases.map((a) => [make("code", {}, a), " "])));
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

try {
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error(`/openapi.json has status ${response.status}`);
  render(await response.json());
} catch (error) {
  const state = document.getElementById("state");
  if (state) {
    state.textContent = `The document could not be read: ${error.message}`;
    state.className = "bad";
  }
  console.error(error);
}
