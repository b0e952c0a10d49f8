// Elements are built here and nowhere else. Text enters the page as text nodes only, so no record, however
// hostile, can become markup or script.

const SVG = "http://www.w3.org/2000/svg";

function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}

// Numbers: three or four significant digits; a missing figure is a dash.
function format(value, digits) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 5e-4)) return value.toExponential(2).replace("e+", "e");
  if (digits !== null && digits !== undefined) return value.toFixed(digits);
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  if (size >= 100) return value.toFixed(1);
  if (size >= 10) return value.toFixed(2);
  return value.toFixed(size >= 0.1 || size === 0 ? 3 : 4);
}

function range(low, high, digits) {
  return `[${format(low, digits)}, ${format(high, digits)}]`;
}

// Axis labels: as short as the number allows.
function tick(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(0).replace("e+", "e");
  return String(Number(value.toPrecision(3)));
}

// A polite voice for screen readers, shared by every chart.
function announce(text) {
  let voice = document.getElementById("voice");
  if (!voice) {
    voice = h("div", { id: "voice", class: "unseen", "aria-live": "polite" });
    document.body.append(voice);
  }
  voice.textContent = text;
}
