// A field that finds a name in one of the service's lists while it is typed: the combobox of the ARIA authoring practices.

import { make } from "./elements.js";
import { get } from "./ask.js";

const most = 12; // rows of the list; who looks for more types more

// picker makes the field. find(text) → path of the list, rows(answer) → [{value, title, detail}], picked(value) is called with a choice
// or, where free is set, with what was typed.
export function picker({ id, label, placeholder, find, rows, picked, free }) {
  const list = make("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, hidden: true, class: "choices" });
  const input = make("input", {
    id, type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder,
    "aria-expanded": "false", "aria-controls": list.id, "aria-autocomplete": "list",
  });
  let found = [], active = -1, asking = null, timer = 0;

  function close() {
    clearTimeout(timer);
    asking?.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  }

  function activate(index) {
    active = (index + found.length) % found.length;
    [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === active)));
    input.setAttribute("aria-activedescendant", `${id}-${active}`);
    list.children[active].scrollIntoView({ block: "nearest" });
  }

  function choose(value) {
    close();
    picked(value);
  }

  function show(choices) {
    found = choices.slice(0, most);
    active = -1;
    list.replaceChildren(...found.map((row, i) =>
      make("li", { id: `${id}-${i}`, role: "option", "aria-selected": "false", mousedown: (e) => { e.preventDefault(); choose(row.value); } },
        make("span", {}, row.title), row.detail ? make("small", {}, row.detail) : null)));
    list.hidden = found.length === 0;
    input.setAttribute("aria-expanded", String(found.length > 0));
  }

  async function look() {
    asking?.abort();
    asking = new AbortController();
    try {
      show(rows(await get(find(input.value.trim(), most), asking.signal)));
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, 120);
  });
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      if (list.hidden) look();
      else activate(active + (e.key === "ArrowDown" ? 1 : active < 0 ? 0 : -1));
    } else if (e.key === "Enter") {
      e.preventDefault();
      if (active >= 0) choose(found[active].value);
      else if (input.value.trim() || free) choose(input.value.trim());
    } else if (e.key === "Escape") {
      close();
    }
  });
  input.addEventListener("blur", () => {
    close();
    if (free) picked(input.value.trim());
  });
  input.addEventListener("focus", () => input.select());
  return { input, list };
}
