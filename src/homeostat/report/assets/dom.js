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

// One format for numbers everywhere. Shares (`digits` "%") are percentages with one decimal; other numbers have the
// decimals that are asked for, or three below 10 and four significant digits above; a missing figure is a dash. A number
// that would be rounded to 0 is shown as less than the smallest, except in an interval (`plain`).
function format(value, digits, plain = false) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (digits === "%") return `${(100 * value).toFixed(1)}%`;
  const asked = typeof digits === "number";
  if (!asked && Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e6) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  const decimals = asked ? digits : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  const least = 10 ** -decimals;
  if (size < least / 2) return value > 0 && !plain ? `<${least.toFixed(decimals)}` : (0).toFixed(decimals);
  return value.toFixed(decimals).replace("-", "−");
}

function range(low, high, digits) {
  if (digits === "%") return `[${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}%]`;
  return `[${format(low, digits, true)}, ${format(high, digits, true)}]`;
}

// Axis labels: as short as the number allows, with as many significant digits as tell neighbours apart.
function tick(value, digits = 3) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(Math.max(0, digits - 3)).replace("e+", "e").replaceAll("-", "−");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
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
