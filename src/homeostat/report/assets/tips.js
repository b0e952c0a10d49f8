// What the pointer, a finger or the arrow keys are on, in words beside it.

function follow(root, tip, cross, plot) {
  const stops = plot.show === pointTip ? plot.live : plot.block.mode === "steps" ? plot.xs.slice(0, -1) : plot.xs;
  const spot = (stop) => plot.xScale.at(plot.show === pointTip ? stop.x : stop);
  let index = -1;
  const open = (i, aloud) => {
    index = clamp(i, 0, stops.length - 1);
    const said = plot.show(tip, cross, plot, stops[index]);
    if (aloud) announce(said);
  };
  const close = () => {
    tip.hidden = true;
    cross.setAttribute("d", "");
  };
  root.addEventListener("pointermove", (event) => {
    const frame = root.getBoundingClientRect();
    const zoom = plot.width / frame.width;
    const x = (event.clientX - frame.left) * zoom;
    const y = (event.clientY - frame.top) * zoom;
    const far = (stop) => plot.show === pointTip
      ? Math.hypot(spot(stop) - x, plot.yScale.at(stop.y) - y)
      : Math.abs(spot(stop) - x);
    open(stops.reduce((best, stop, i) => (far(stop) < far(stops[best]) ? i : best), 0), false);
  });
  root.addEventListener("pointerleave", () => { if (document.activeElement !== root) close(); });
  root.addEventListener("focus", () => { if (index < 0) open(0, true); else open(index, true); });
  root.addEventListener("blur", close);
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") close();
    if (step === undefined) return;
    event.preventDefault();
    open(step === Infinity ? stops.length - 1 : step === -Infinity ? 0 : index + step, true);
  });
}

function columnTip(tip, cross, plot, x) {
  const here = plot.live.filter((p) => p.x === x).sort((a, b) => b.y - a.y);
  const at = plot.xScale.at(x);
  cross.setAttribute("d", `M${at},${plot.box.top}V${plot.box.bottom}`);
  const rows = here.map((p) => tipRow(p, plot));
  const where = place(plot, x);
  put(tip, plot, at, h("b", {}, where), h("table", {}, rows));
  return `${where}: ${here.map((p) => `${title(p.s)} ${format(p.y)}`).join(", ")}`;
}

// A step stands for the interval that begins at x; one below 0 holds what is exactly 0.
function place(plot, x) {
  if (plot.block.mode !== "steps") return `${plot.block.x.label} ${format(x)}`;
  if (x < 0) return `${plot.block.x.label} exactly 0`;
  const next = plot.xs[plot.xs.indexOf(x) + 1];
  return `${plot.block.x.label} from ${tick(x)} to ${tick(next ?? x)}`;
}

function pointTip(tip, cross, plot, p) {
  const at = plot.xScale.at(p.x);
  const y = plot.yScale.at(p.y);
  cross.setAttribute("d", `M${plot.box.left},${y}H${at}V${plot.box.bottom}`);
  put(tip, plot, at, h("b", {}, title(p.s)), h("table", {},
    h("tr", {}, h("td", {}, plot.block.x.label), h("td", { class: "n" }, format(p.x))),
    h("tr", {}, h("td", {}, plot.yLabel), h("td", { class: "n" }, format(p.y), spread(p)))));
  return `${title(p.s)}: ${plot.block.x.label} ${format(p.x)}, ${plot.yLabel} ${format(p.y)}`;
}

function title(s) {
  return s.variant === null || s.variant === undefined ? s.name : `${s.name} · ${s.variant}`;
}

function spread(p) {
  return p.low !== null && p.low !== undefined && h("span", { class: "range" }, ` ${range(p.low, p.high)}`);
}

function tipRow(p, plot) {
  const { colour } = plot.look(p.s);
  return h("tr", { title: String(p.y) },
    h("td", {}, h("i", { class: `swatch s${colour}` }), title(p.s)),
    h("td", { class: "n" }, format(p.y), spread(p)));
}

function put(tip, plot, at, ...content) {
  replace(tip, ...content);
  tip.hidden = false;
  const share = at / plot.width;
  tip.style.left = share < 0.5 ? `${share * 100}%` : "auto";
  tip.style.right = share < 0.5 ? "auto" : `${(1 - share) * 100}%`;
}

// The same numbers as a table: for screen readers, for copying, and for whoever distrusts pictures.
function chartTable(block) {
  const details = h("details", { class: "numbers" }, h("summary", {}, "Numbers behind this chart"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const rows = block.panels.flatMap((panel) => panel.series.flatMap((s) => s.points.map((p) => [
      [panel.group, panel.title].filter((t) => t !== null).join(" · "), title(s), p[0],
      p[2] === null || p[2] === undefined ? p[1] : { v: p[1], lo: p[2], hi: p[3] },
    ])));
    details.append(drawTable({
      id: `${block.id}-numbers`, title: "", note: "", folded: false, rows,
      columns: ["panel", "series", block.x.label, block.y.label].map((name) => ({ name, digits: null, help: "" })),
    }));
  });
  return details;
}
