// Curves with bands, labelled points and step histograms. Values by pointer, by touch and by arrow keys;
// series and variants are switched off and on in the legend, for all panels at once.

const SHAPES = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
  (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0,${-1.2 * r}L${1.15 * r},${r}H${-1.15 * r}z`,
  (r) => `M0,${-1.35 * r}L${1.35 * r},0L0,${1.35 * r}L${-1.35 * r},0z`,
  (r) => `M0,${1.2 * r}L${1.15 * r},${-r}H${-1.15 * r}z`,
];
const DASHES = ["", "6 4", "2 3", "9 3 2 3", "1 4"];
const COLOURS = 9;

function drawChart(block) {
  const names = [...new Set(block.panels.flatMap((p) => p.series.map((s) => s.name)))];
  const variants = [...new Set(block.panels.flatMap((p) => p.series.map((s) => s.variant)))].filter((v) => v !== null);
  const groups = [...new Set(block.panels.map((p) => p.group))].filter((g) => g !== null);
  const state = { off: new Set(block.off), offVariant: new Set(), group: groups[0] ?? null, log: block.y.scale === "log" ? true : null };
  const taken = names.map((name) => block.looks[name]).filter((n) => n !== undefined);
  const free = names.map((_, i) => i).concat([...Array(COLOURS).keys()]).filter((n, i, all) => !taken.includes(n) && all.indexOf(n) === i);
  const others = names.filter((name) => block.looks[name] === undefined);
  const number = (s) => block.looks[s.name] ?? free[others.indexOf(s.name) % free.length];
  const look = (s) => ({
    colour: number(s) % COLOURS,
    shape: SHAPES[number(s) % SHAPES.length],
    dash: DASHES[Math.max(0, variants.indexOf(s.variant)) % DASHES.length],
  });
  const shown = (s) => !state.off.has(s.name) && !state.offVariant.has(s.variant);

  const ordered = groups.length ? groups.flatMap((g) => block.panels.filter((p) => p.group === g)) : block.panels;
  const panels = ordered.map((panel) => makePanel(block, panel, look, shown));
  const grid = h("div", { class: "panels" }, panels.map((p) => p.element));
  const scale = toggle("log scale", state.log, (on) => { state.log = on; redraw(); });
  const redraw = () => {
    const log = state.log ?? isWide(block, state.group, 100);
    scale.setAttribute("aria-pressed", log ? "true" : "false");
    scale.hidden = block.mode !== "line" || !(state.log || log || isWide(block, state.group, 10));
    for (const p of panels) {
      p.element.classList.toggle("away", p.group !== null && p.group !== state.group);
      p.draw(log);
    }
    const count = panels.filter((p) => p.group === null || p.group === state.group).length;
    grid.classList.toggle("one", count === 1);
  };
  const figure = h(
    "figure",
    { class: "chart", id: block.id },
    h("figcaption", {}, h("h3", {}, block.title), block.note && h("p", { class: "note" }, block.note)),
    h(
      "div",
      { class: "controls" },
      groups.length > 1 && choice("Show", groups, state.group, (g) => { state.group = g; redraw(); }),
      scale,
    ),
    names.length > 1 && legend(names, state.off, (n) => legendMark(look({ name: n, variant: null })), redraw),
    variants.length > 1 &&
      legend(variants, state.offVariant, (v) => dashMark(DASHES[variants.indexOf(v) % DASHES.length]), redraw),
    grid,
    chartTable(block),
  );
  redraw();
  return figure;
}

// Whether positive values of a panel span `times`, so that a logarithmic axis shows what a linear one hides.
function isWide(block, group, times) {
  if (block.y.limits !== null) return false;
  return block.panels.filter((panel) => panel.group === group).some((panel) => {
    const values = panel.series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v !== null);
    return values.length > 1 && Math.min(...values) > 0 && Math.max(...values) > times * Math.min(...values);
  });
}

function choice(label, options, current, chosen) {
  const buttons = options.map((option) =>
    h("button", {
      type: "button", "aria-pressed": option === current ? "true" : "false",
      onclick: (event) => {
        for (const b of buttons) b.setAttribute("aria-pressed", b === event.currentTarget ? "true" : "false");
        chosen(option);
      },
    }, option));
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

function toggle(label, on, changed) {
  return h("button", {
    type: "button", class: "switch", "aria-pressed": on ? "true" : "false",
    onclick: (event) => {
      const now = event.currentTarget.getAttribute("aria-pressed") !== "true";
      event.currentTarget.setAttribute("aria-pressed", now ? "true" : "false");
      changed(now);
    },
  }, label);
}

function legend(names, off, mark, redraw) {
  const buttons = names.map((name) =>
    h("button", {
      type: "button", class: "key", "aria-pressed": off.has(name) ? "false" : "true", title: "Click to hide or show; double-click for this one only",
      onclick: (event) => {
        if (off.has(name)) off.delete(name); else off.add(name);
        event.currentTarget.setAttribute("aria-pressed", off.has(name) ? "false" : "true");
        redraw();
      },
      ondblclick: () => {
        const alone = off.size === names.length - 1 && !off.has(name);
        off.clear();
        if (!alone) for (const other of names) if (other !== name) off.add(other);
        names.forEach((n, i) => buttons[i].setAttribute("aria-pressed", off.has(n) ? "false" : "true"));
        redraw();
      },
    }, mark(name), name));
  return h("div", { class: "legend", role: "group", "aria-label": "Series" }, buttons);
}

function legendMark({ colour, shape }) {
  return svg("svg", { viewBox: "0 0 22 12", width: 22, height: 12, "aria-hidden": "true", class: `s${colour}` },
    svg("path", { d: "M1,6H21", class: "line" }),
    svg("path", { d: shape(3.4), transform: "translate(11 6)", class: "mark" }));
}

function dashMark(dash) {
  return svg("svg", { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true" },
    svg("path", { d: "M1,6H29", class: "plain", "stroke-dasharray": dash || null }));
}

function makePanel(block, panel, look, shown) {
  const tip = h("div", { class: "tip", hidden: true });
  const canvas = h("div", { class: "canvas" }, tip);
  const title = block.panels.length > 1 || panel.title !== block.title ? h("h4", { "data-group": panel.group }, panel.title) : null;
  const element = h("div", { class: "panel" }, title, canvas);
  let width = 0;
  let drawing = null;
  let log = false;
  const draw = (now) => {
    log = now;
    const measured = Math.round(canvas.clientWidth) || 380;
    width = measured;
    const held = drawing && document.activeElement === drawing.root;
    tip.hidden = true;
    drawing = drawPanel(block, panel, look, shown, log, measured, tip);
    canvas.replaceChildren(drawing.root, tip);
    if (held) drawing.root.focus();
  };
  if (typeof ResizeObserver !== "undefined") {
    new ResizeObserver(() => {
      if (canvas.clientWidth > 0 && Math.abs(canvas.clientWidth - width) > 6) draw(log);
    }).observe(canvas);
  }
  return { element, draw, group: panel.group };
}

function drawPanel(block, panel, look, shown, log, width, tip) {
  const height = width > 560 ? Math.min(400, width * 0.46) : Math.max(210, width * 0.62);
  const box = { left: 0, right: width - 14, top: 12, bottom: height - 42 };
  const visible = panel.series.filter(shown);
  const points = visible.flatMap((s) => s.points.map((p) => ({ s, x: p[0], y: p[1], low: p[2], high: p[3] })));
  const live = points.filter((p) => p.y !== null && p.x !== null);
  const xs = [...new Set(live.map((p) => p.x))].sort((a, b) => a - b);
  const spread = live.flatMap((p) => [p.y, p.low, p.high]).filter((v) => v !== null);
  const yKind = log ? "log" : "linear";
  const yScale = makeScale(spread, yKind, box.bottom, box.top, block.y.limits || (block.mode === "steps" ? [0] : []));
  box.left = 30 + 7 * Math.max(...yScale.ticks.map((t) => tick(t).length), 2);
  const xScale = makeScale(panel.series.flatMap((s) => s.points.map((p) => p[0])), block.x.scale, box.left, box.right);
  if (block.mode === "line" && xs.length > 1 && xs.length <= 10) xScale.ticks = xs;
  const yLabel = panel.y || block.y.label;

  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "plot", tabindex: "0", role: "img", width: "100%",
    "aria-label": `${panel.title}: ${yLabel} against ${block.x.label}. Use the left and right arrow keys to read values.`,
  });
  root.append(drawAxes(block, xScale, yScale, box, yLabel, width, height));
  if (!live.length) {
    root.append(svg("text", { x: width / 2, y: height / 2, class: "empty", "text-anchor": "middle" }, "nothing to show"));
    return { root };
  }
  for (const s of visible) root.append(drawSeries(s, block.mode, look(s), xScale, yScale, box));
  const cross = svg("path", { class: "cross", d: "" });
  root.append(cross);
  const show = block.mode === "scatter" ? pointTip : columnTip;
  follow(root, tip, cross, { block, live, xs, xScale, yScale, box, width, height, look, show, yLabel });
  return { root };
}

function drawAxes(block, xScale, yScale, box, yLabel, width, height) {
  const g = svg("g", { class: "axes", "aria-hidden": "true" });
  for (const t of yScale.ticks) {
    const y = yScale.at(t);
    g.append(svg("path", { d: `M${box.left},${y}H${box.right}`, class: "grid" }),
      svg("text", { x: box.left - 7, y: y + 3.5, "text-anchor": "end" }, tick(t)));
  }
  let last = -Infinity;
  for (const t of xScale.ticks) {
    const x = xScale.at(t);
    if (x - last < 12 + 6 * tick(t).length) continue;
    last = x;
    g.append(svg("path", { d: `M${x},${box.bottom}v4`, class: "rule" }),
      svg("text", { x, y: box.bottom + 16, "text-anchor": "middle" }, tick(t)));
  }
  g.append(svg("path", { d: `M${box.left},${box.bottom}H${box.right}`, class: "rule" }),
    svg("text", { x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle", class: "label" }, block.x.label),
    svg("text", { transform: `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "label" }, yLabel));
  return g;
}

function drawSeries(s, mode, { colour, shape, dash }, xScale, yScale, box) {
  const g = svg("g", { class: `s${colour}`, "data-series": s.name });
  const points = s.points.filter((p) => p[0] !== null && p[1] !== null).sort((a, b) => a[0] - b[0]);
  const at = (p, i) => [xScale.at(p[0]), yScale.at(p[i])];
  if (mode === "steps") {
    const flat = yScale.at(0);
    const d = points.map((p, i) => {
      const [x, y] = at(p, 1);
      const next = i + 1 < points.length ? xScale.at(points[i + 1][0]) : x;
      return `${i ? "L" : `M${x},${flat}L`}${x},${y}H${next}`;
    }).join("");
    g.append(svg("path", { d: `${d}V${flat}z`, class: "area" }), svg("path", { d, class: "line" }));
    return g;
  }
  if (mode === "line") {
    const band = points.filter((p) => p[2] !== null && p[3] !== null && p[2] !== undefined);
    if (band.length > 1) {
      const up = band.map((p) => at(p, 3).join(",")).join("L");
      const down = band.slice().reverse().map((p) => at(p, 2).join(",")).join("L");
      g.append(svg("path", { d: `M${up}L${down}z`, class: "band" }));
    }
    g.append(svg("path", { d: `M${points.map((p) => at(p, 1).join(",")).join("L")}`, class: "line", "stroke-dasharray": dash || null }));
  }
  if (mode === "scatter" || points.length <= 30) {
    for (const p of points) {
      const [x, y] = at(p, 1);
      if (mode === "scatter" && p[2] !== null && p[3] !== null) {
        g.append(svg("path", { d: `M${x},${yScale.at(p[2])}V${yScale.at(p[3])}`, class: "whisker" }));
      }
      g.append(svg("path", { d: shape(mode === "scatter" ? 5 : 3), transform: `translate(${x} ${y})`, class: "mark" }));
      if (mode === "scatter") {
        const late = x > (box.left + box.right) / 2;
        g.append(svg("text", { x: late ? x - 9 : x + 9, y: y + 3.5, "text-anchor": late ? "end" : "start", class: "tag" }, s.name));
      }
    }
  }
  return g;
}
