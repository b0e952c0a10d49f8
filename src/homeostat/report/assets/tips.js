// What the pointer, a finger or the arrow keys are on, in words beside it: Plot's own tips know one point, a pointer only.

// `plot.stops` are what one can be on: places on the x axis, or single points in a scatter plot.
function follow(root, tip, plot) {
  const { stops, block } = plot;
  const single = block.mode === "scatter";
  const spot = (stop) => [plot.xAt(single ? stop.x : stop), single ? plot.yAt(stop.y) : 0];
  const cross = svg("path", { class: "cross", d: "" });
  root.append(cross);
  let index = -1;
  const open = (i, aloud) => {
    index = clamp(i, 0, stops.length - 1);
    const stop = stops[index];
    const here = single ? [stop] : plot.live.filter((p) => p.x === stop).sort((a, b) => b.y - a.y);
    const [at, y] = spot(stop);
    cross.setAttribute("d", single ? `M${plot.left},${y}H${at}V${plot.height - 40}` : `M${at},20V${plot.height - 40}`);
    const where = single ? `${block.x.label} ${format(stop.x)}` : place(plot, stop);
    put(tip, at / plot.width, h("b", {}, where), h("table", {}, here.map((p) => tipRow(p, plot))));
    if (aloud) announce(`${where}: ${here.map((p) => `${title(p.s)} ${format(p.y, plot.digits)}`).join(", ")}`);
  };
  const close = () => {
    tip.hidden = true;
    cross.setAttribute("d", "");
  };
  root.addEventListener("pointermove", (event) => {
    const frame = root.getBoundingClientRect();
    const zoom = plot.width / frame.width;
    const far = (stop) => {
      const [x, y] = spot(stop);
      return Math.hypot(x - (event.clientX - frame.left) * zoom, single ? y - (event.clientY - frame.top) * zoom : 0);
    };
    open(stops.reduce((best, stop, i) => (far(stop) < far(stops[best]) ? i : best), 0), false);
  });
  root.addEventListener("pointerleave", () => { if (document.activeElement !== root) close(); });
  root.addEventListener("focus", () => open(Math.max(0, index), true));
  root.addEventListener("blur", close);
  root.addEventListener("keydown", (event) => {
    const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: stops.length - 1 }[event.key];
    if (event.key === "Escape") close();
    if (next === undefined) return;
    event.preventDefault();
    open(next, true);
  });
}

// A step stands for the interval that begins at x; one below 0 holds what is exactly 0.
function place({ block, places }, x) {
  if (block.mode !== "steps") return `${named(block.x.label)} ${tick(x)}`;
  if (x < 0) return `${block.x.label} exactly 0`;
  return `${block.x.label} from ${tick(x)} to ${tick(places[places.indexOf(x) + 1] ?? x)}`;
}

function title(s) {
  return s.variant === null || s.variant === undefined ? named(s.name) : `${named(s.name)} · ${s.variant}`;
}

function tipRow(p, { look, digits }) {
  return h("tr", { title: String(p.y), "data-name": p.s.name },
    h("td", {}, h("i", { class: `swatch s${look(p.s).number % COLOURS}` }), title(p.s)),
    h("td", { class: "n" }, format(p.y, digits), hasInterval(p) && h("span", { class: "range" }, ` ${range(p.low, p.high, digits)}`)));
}

function put(tip, share, ...content) {
  replace(tip, ...content);
  tip.hidden = false;
  tip.style.left = share < 0.5 ? `${share * 100}%` : "auto";
  tip.style.right = share < 0.5 ? "auto" : `${(1 - share) * 100}%`;
}

// The same numbers as a table: for screen readers, for copying, and for whoever distrusts pictures.
function chartTable(block) {
  const details = h("details", { class: "numbers" }, h("summary", {}, "Numbers behind this chart"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const rows = block.panels.flatMap((panel) => panel.series.flatMap((s) => s.points.map((p) => [
      [panel.group, panel.title].filter((t) => t !== null).map(named).join(" · "), title(s), p[0],
      { v: p[1], lo: p[2] ?? null, hi: p[3] ?? null, digits: panel.digits ?? block.y.digits ?? undefined },
    ])));
    details.append(drawTable({
      id: `${block.id}-numbers`, title: "", note: "", folded: false, rows,
      columns: ["panel", "series", block.x.label, block.y.label].map((name) => ({ name, digits: null, help: "" })),
    }));
  });
  return details;
}
