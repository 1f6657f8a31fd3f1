// Elements of a page, made without markup in strings: text from outside only ever becomes text nodes.

// make builds an element: make("p", {class: "quiet"}, "text", child, …). A value that is a function listens to the event of its name.
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// draw builds an element of an SVG drawing in the same way.
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// on finds an element by its id.
export const at = (id) => document.getElementById(id);
