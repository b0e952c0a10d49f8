// One panel of a chart, drawn with Observable Plot: curves with bands, dots with intervals, labelled points, counts.
// Every function takes the panel's visible points as {s, x, y, low, high}, and returns marks for Plot.

const SYMBOLS = [
  { symbol: "circle" }, { symbol: "square" }, { symbol: "triangle" }, { symbol: "diamond" }, { symbol: "triangle", rotate: 180 },
  { symbol: "cross" }, { symbol: "star" }, { symbol: "triangle", rotate: 270 }, { symbol: "circle" },
];
const COLOURS = SYMBOLS.length;
const colour = (n) => `var(--c${n % COLOURS})`;
const hasInterval = (p) => typeof p.low === "number" && typeof p.high === "number";

// Two or fewer places on the x axis are conditions, not a course: dots beside each other, no line between them.
function isCondition(block, panel) {
  return block.mode === "line" && new Set(panel.series.flatMap((s) => s.points.map((p) => p[0]))).size <= 2;
}

function curveMarks(points, look) {
  return bySeries(points).flatMap(([s, own]) => {
    const { number, dash } = look(s);
    const ink = colour(number);
    const banded = own.filter(hasInterval);
    return [
      banded.length > 1 && vendor.areaY(banded, { x: "x", y1: "low", y2: "high", fill: ink, fillOpacity: 0.13 }),
      vendor.line(own, { x: "x", y: "y", stroke: ink, strokeWidth: 1.9, strokeDasharray: dash || undefined, ariaLabel: () => s.name }),
      own.length <= 30 && vendor.dot(own, { x: "x", y: "y", r: 3, fill: ink, stroke: "var(--bg)", strokeWidth: 0.6, ...SYMBOLS[number % COLOURS] }),
    ];
  });
}

function conditionMarks(points, look) {
  return bySeries(points).flatMap(([s, own]) => {
    const { number } = look(s);
    const ink = colour(number);
    return [
      vendor.ruleX(own.filter(hasInterval), { x: "at", y1: "low", y2: "high", stroke: ink, strokeWidth: 2.4, strokeOpacity: 0.45 }),
      vendor.dot(own, { x: "at", y: "y", r: 4.2, fill: ink, stroke: "var(--bg)", strokeWidth: 0.8, ...SYMBOLS[number % COLOURS], ariaLabel: () => s.name }),
    ];
  });
}

function scatterMarks(points, look, at) {
  const labels = spacedLabels(points, at);
  return bySeries(points).flatMap(([s, own]) => {
    const { number } = look(s);
    const { late, dy } = labels.get(s);
    return [
      vendor.ruleX(own.filter(hasInterval), { x: "x", y1: "low", y2: "high", stroke: colour(number), strokeWidth: 1.4 }),
      vendor.dot(own, { x: "x", y: "y", r: 5, fill: colour(number), stroke: "var(--bg)", ...SYMBOLS[number % COLOURS], ariaLabel: () => s.name }),
      vendor.text(own, { x: "x", y: "y", text: () => named(s.name), dx: late ? -9 : 9, dy, textAnchor: late ? "end" : "start", fill: "var(--ink)", stroke: "var(--bg)", strokeWidth: 3, fontSize: 11.5 }),
    ];
  });
}

// Where the label of each point stands: to the side with more room, and moved up where another one is already.
function spacedLabels(points, at) {
  const taken = [];
  const found = new Map();
  for (const p of points) {
    const [x, y, middle] = at(p);
    const late = x > middle;
    const long = 7 * named(p.s.name).length + 12;
    const box = [late ? x - long : x, late ? x : x + long];
    let dy = 0;
    while (taken.some((t) => box[0] < t.box[1] && t.box[0] < box[1] && Math.abs(y + dy - t.y) < 13)) dy -= 14;
    taken.push({ box, y: y + dy });
    found.set(p.s, { late, dy });
  }
  return found;
}

// A step stands for the interval that begins at its x; the last one only ends the one before.
function stepMarks(points, look) {
  return bySeries(points).map(([s, own]) => vendor.rectY(own.slice(0, -1).map((p, i) => ({ ...p, to: own[i + 1].x })), {
    x1: "x", x2: "to", y: "y", fill: colour(look(s).number), fillOpacity: 0.22, stroke: colour(look(s).number), strokeWidth: 1.4, inset: 0.5, ariaLabel: () => s.name,
  }));
}

function bySeries(points) {
  const found = new Map();
  for (const p of points) {
    if (!found.has(p.s)) found.set(p.s, []);
    found.get(p.s).push(p);
  }
  return [...found].map(([s, own]) => [s, own.sort((a, b) => a.x - b.x)]);
}

function drawPanel(block, panel, look, shown, log, width, tip) {
  const height = width > 560 ? Math.min(400, width * 0.46) : Math.max(220, width * 0.64);
  const visible = panel.series.filter(shown);
  const apart = isCondition(block, panel);
  const places = [...new Set(panel.series.flatMap((s) => s.points.map((p) => p[0])))].filter((x) => x !== null).sort((a, b) => a - b);
  const spread = 0.7 / Math.max(1, visible.length);
  const live = visible.flatMap((s, k) => s.points.filter((p) => p[0] !== null && p[1] !== null).map((p) => ({
    s, x: p[0], y: p[1], low: p[2], high: p[3], at: places.indexOf(p[0]) + (k - (visible.length - 1) / 2) * spread,
  })));
  const yLabel = panel.y || block.y.label;
  const digits = panel.digits ?? block.y.digits;
  if (!live.length) return { root: svg("svg", { viewBox: `0 0 ${width} 80`, class: "plot", width: "100%" }, svg("text", { x: width / 2, y: 44, "text-anchor": "middle" }, "nothing to show")), stops: [] };
  const ticks = !apart && block.mode === "line" && places.length <= 10 ? places : undefined;
  const y = axis(live.flatMap((p) => [p.y, p.low, p.high]), log ? "log" : "linear", block.mode === "steps" ? [0] : block.y.limits);
  const x = apart ? { type: "linear", domain: [-0.5, places.length - 0.5], ticks: places.map((_, i) => i), tickFormat: (i) => tick(places[i]) }
    : axis(panel.series.flatMap((s) => s.points.map((p) => p[0])), block.x.scale, null, ticks);
  const left = Math.max(44, 20 + 6.8 * Math.max(...y.ticks.map((t) => y.tickFormat(t).length)));
  const share = ({ domain: [low, high] }, v) => (v - low) / (high - low);
  const inside = (p) => [left + share(x, p.x) * (width - left - 16), height - 40 - share(y, p.y) * (height - 66), (left + width - 16) / 2];
  const marks = apart ? conditionMarks(live, look) : { line: curveMarks, scatter: scatterMarks, steps: stepMarks }[block.mode](live, look, inside);
  const root = bare(vendor.plot({
    width, height, marginLeft: left, marginRight: 16, marginTop: 26, marginBottom: 40, className: "plot",
    ariaLabel: `${panel.title}: ${yLabel} against ${block.x.label}. Use the left and right arrow keys to read values.`,
    x: { ...x, ticks: undefined }, y: { ...y, ticks: undefined },
    marks: [
      vendor.gridY(y.ticks, { stroke: "var(--grid)", strokeOpacity: 1 }),
      vendor.axisX(thin(x.ticks, width), { tickFormat: x.tickFormat, label: named(block.x.label), labelAnchor: "center", labelArrow: "none", tickSize: 4 }),
      vendor.axisY(y.ticks, { tickFormat: digits === "%" ? (v) => `${Number((100 * v).toPrecision(3))}%` : y.tickFormat, label: yLabel === panel.title ? null : named(yLabel), labelArrow: "none", tickSize: 0 }),
      vendor.ruleY([Math.max(y.domain[0], Math.min(0, y.domain[1]))], { stroke: "var(--soft)" }),
      ...marks.flat().filter((m) => m),
    ],
  }));
  root.setAttribute("tabindex", "0");
  const stops = block.mode === "scatter" ? live : block.mode === "steps" ? places.slice(0, -1) : places;
  const xAt = (v) => root.scale("x").apply(apart ? places.indexOf(v) : v);
  follow(root, tip, { block, live, places, stops, xAt, yAt: (v) => root.scale("y").apply(v), width, height, left, look, digits });
  return { root };
}

// Domain, ticks and kind of an axis. "log" is linear below the smallest positive value, so that zero has a place.
function axis(values, kind, include, fixed) {
  const finite = values.filter((v) => typeof v === "number" && Number.isFinite(v)).concat(include || []);
  let [low, high] = [Math.min(...finite), Math.max(...finite)];
  if (low === high) [low, high] = low === 0 ? [-1, 1] : [low - Math.abs(low) * 0.1, high + Math.abs(low) * 0.1];
  else if (!include && !fixed && kind !== "log") [low, high] = [low - (high - low) * 0.04, high + (high - low) * 0.04];
  const sizes = finite.map(Math.abs).filter((v) => v > 0);
  const scale = kind === "log" ? { type: "symlog", constant: sizes.length ? Math.min(...sizes) : 1, domain: [low, high] } : { type: "linear", domain: [low, high] };
  const ticks = fixed ?? (kind === "log" ? powers(low, high, scale.constant) : vendor.ticks(low, high, 6));
  const digits = [3, 4, 5, 6, 7, 8].find((n) => new Set(ticks.map((t) => tick(t, n))).size === ticks.length) ?? 9;
  return { ...scale, ticks, tickFormat: (t) => tick(t, digits) };
}

function powers(low, high, smallest) {
  const first = Math.floor(Math.log10(smallest));
  const last = Math.ceil(Math.log10(Math.max(high, smallest)));
  const step = Math.max(1, Math.ceil((last - first) / 5));
  const found = low <= 0 ? [0] : [];
  for (let e = first; e <= last; e += step) found.push(Number(`1e${e}`));
  const inside = found.filter((t) => t >= low && t <= high);
  return inside.length > 2 ? inside : [...new Set([...inside, ...vendor.ticks(low, high, 4)])];
}

// Labels of an axis that have room beside each other.
function thin(ticks, width) {
  const every = Math.ceil((ticks.length * 34) / Math.max(120, width - 70));
  return ticks.filter((_, i) => i % every === 0);
}

// Plot puts a style element into its drawing. The page's policy allows no style but the page's own, which has these rules.
function bare(drawing) {
  drawing.querySelectorAll("style").forEach((element) => element.remove());
  return drawing;
}
