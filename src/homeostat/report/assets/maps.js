// Maps (layer by head and the like), dots with intervals by row, and stacked shares.

function drawHeatmap(block) {
  const readout = h("p", { class: "readout" }, "Point at a cell, or move with the arrow keys.");
  const scale = colourScale(block);
  const maps = block.maps.map((map) => h("div", { class: "map" }, h("h4", {}, named(map.name)), drawMap(block, map, scale, readout)));
  const steps = Array.from({ length: 48 }, (_, i) => ({ at: scale.along(i / 47), x: i }));
  const ramp = bare(vendor.plot({
    width: 240, height: 34, marginLeft: 0, marginRight: 0, marginTop: 0, marginBottom: 18, className: "plot", color: scale.colour, x: { axis: null }, y: { axis: null }, ariaLabel: `Colours from ${format(scale.low)} to ${format(scale.high)}`,
    marks: [vendor.cell(steps, { x: "x", fill: "at", inset: -0.5 })],
  }));
  const ends = [scale.low, ...(block.centre === null ? [] : [block.centre]), scale.high];
  const bar = h("div", { class: "ramp" }, ramp, h("div", {}, ends.map((v) => h("span", {}, format(v)))));
  return h("figure", { class: "chart heat", id: block.id }, caption(block), h("div", { class: "maps" }, maps), h("div", { class: "under" }, bar, readout));
}

// One scale for all maps of a block; it diverges from `centre` where there is one.
function colourScale(block) {
  const values = block.maps.flatMap((m) => m.values.flat()).filter((v) => v !== null && (!block.log || v > 0));
  let low = values.length ? Math.min(...values) : 0;
  let high = values.length ? Math.max(...values) : 1;
  if (block.centre !== null) {
    const reach = Math.max(Math.abs(low - block.centre), Math.abs(high - block.centre)) || 1;
    [low, high] = [block.centre - reach, block.centre + reach];
  } else if (low === high) high = low + (Math.abs(low) || 1);
  const log = block.log && low > 0;
  const colour = { type: log ? "log" : "linear", domain: [low, high], clamp: true, scheme: block.centre === null ? "viridis" : "RdBu", reverse: block.centre !== null };
  return { low, high, colour, along: (t) => (log ? low * (high / low) ** t : low + (high - low) * t) };
}

function drawMap(block, map, scale, readout) {
  const rows = map.values.length;
  const columns = Math.max(1, ...map.values.map((r) => r.length));
  const size = clamp(Math.floor(560 / columns), 14, 40);
  const cells = map.values.flatMap((row, r) => row.map((value, c) => ({ r, c, value })));
  const isZero = (value) => block.log && value === 0; // a logarithmic scale has no colour for 0: it is written
  const every = (ticks, room) => ticks.map((_, i) => i).filter((i) => i % Math.ceil(room / size) === 0);
  const root = bare(vendor.plot({
    width: 40 + columns * size, height: rows * size + 40, marginLeft: 40, marginRight: 0, marginTop: 0, marginBottom: 40, className: "heatplot",
    ariaLabel: `${map.name}: ${block.value} by ${block.y.label} and ${block.x.label}. Use the arrow keys to read values.`,
    x: { type: "band", domain: [...Array(columns).keys()], padding: 0.04 }, y: { type: "band", domain: [...Array(rows).keys()], padding: 0.04 }, color: scale.colour,
    marks: [
      vendor.cell(cells.filter((d) => d.value !== null && !isZero(d.value)), { x: "c", y: "r", fill: "value" }),
      vendor.cell(cells.filter((d) => isZero(d.value)), { x: "c", y: "r", fill: "none", stroke: "var(--soft)" }),
      vendor.text(cells.filter((d) => isZero(d.value)), { x: "c", y: "r", text: () => "0" }),
      vendor.cell(cells.filter((d) => d.value === null), { x: "c", y: "r", fill: "none", stroke: "var(--soft)", strokeDasharray: "2 3" }),
      vendor.axisX(every(block.x.ticks, 26), { tickFormat: (i) => block.x.ticks[i], label: block.x.label, labelArrow: "none", labelAnchor: "center", tickSize: 0 }),
      vendor.axisY(every(block.y.ticks, 13), { tickFormat: (i) => block.y.ticks[i], label: block.y.label, labelArrow: "none", labelAnchor: "center", tickSize: 0 }),
    ],
  }));
  root.style.maxWidth = `${Math.round(1.2 * (40 + columns * size))}px`;
  const step = [root.scale("x"), root.scale("y")];
  const frame = svg("rect", { class: "frame", width: step[0].bandwidth, height: step[1].bandwidth, visibility: "hidden" });
  root.append(frame);
  root.setAttribute("tabindex", "0");
  let at = [0, 0];
  const read = (r, c, aloud) => {
    at = [clamp(r, 0, rows - 1), clamp(c, 0, columns - 1)];
    const value = map.values[at[0]]?.[at[1]] ?? null;
    const words = `${named(map.name)} · ${block.y.label} ${block.y.ticks[at[0]] ?? at[0]}, ${block.x.label} ${block.x.ticks[at[1]] ?? at[1]}: ${format(value)}`;
    readout.textContent = words;
    readout.title = String(value);
    frame.setAttribute("x", step[0].apply(at[1]));
    frame.setAttribute("y", step[1].apply(at[0]));
    frame.setAttribute("visibility", "visible");
    if (aloud) announce(words);
  };
  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    const zoom = (40 + columns * size) / box.width;
    const [x, y] = [((event.clientX - box.left) * zoom - 40) / size, ((event.clientY - box.top) * zoom) / size];
    if (x >= 0 && x < columns && y >= 0 && y < rows) read(Math.floor(y), Math.floor(x), false);
  });
  root.addEventListener("focus", () => read(at[0], at[1], true));
  root.addEventListener("blur", () => frame.setAttribute("visibility", "hidden"));
  root.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    read(at[0] + move[0], at[1] + move[1], true);
  });
  return root;
}

function parts(value) {
  if (value === null || value === undefined) return null;
  return typeof value === "object" ? value : { v: value, lo: null, hi: null };
}

// One row of dots with intervals for each category, with its name beside it, or above it where there is little room.
function drawDots(block) {
  const off = new Set();
  const numbers = colours(block.names, block.looks);
  const canvas = h("div", { class: "canvas dots" });
  const said = (row) => block.names.filter((n) => !off.has(n) && parts(row.values[n])).map((n) => {
    const p = parts(row.values[n]);
    return `${named(n)} ${format(p.v, block.x.digits)}${p.lo === null ? "" : ` ${range(p.lo, p.hi, block.x.digits)}`}`;
  });
  let width = 0;
  const draw = () => {
    width = Math.round(canvas.clientWidth) || 640;
    const above = width < 560;
    const longest = Math.max(...block.rows.map((r) => named(r.label).length), 4);
    const left = above ? 6 : clamp(longest * 7.2 + 14, 80, 260);
    const each = above ? 50 : 30;
    const labels = block.rows.map((r) => r.label);
    const points = block.rows.flatMap((row) => block.names.filter((n) => !off.has(n) && parts(row.values[n])).map((n) => {
      const p = parts(row.values[n]);
      return { row: row.label, n, x: p.v, low: p.lo, high: p.hi };
    }));
    const x = axis(points.flatMap((p) => [p.x, p.low, p.high]), "linear", block.x.limits);
    const tips = h("div", { class: "tip", hidden: true });
    const root = bare(vendor.plot({
      width, height: labels.length * each + 48, marginLeft: left, marginRight: 18, marginTop: 4, marginBottom: 44, className: "plot",
      x: { type: "linear", domain: x.domain }, y: { type: "band", domain: labels, axis: null },
      marks: [
        vendor.gridX(x.ticks, { stroke: "var(--grid)", strokeOpacity: 1 }),
        vendor.axisX(thin(x.ticks, width), { tickFormat: block.x.digits === "%" ? (v) => `${Math.round(100 * v)}%` : tick, label: named(block.x.label), labelAnchor: "center", labelArrow: "none", tickSize: 4 }),
        vendor.text(labels, above ? { x: () => x.domain[0], y: (d) => d, text: named, textAnchor: "start", dy: -15, fill: "var(--ink)", fontSize: 13 }
          : { frameAnchor: "left", y: (d) => d, text: named, textAnchor: "end", dx: -12, fill: "var(--ink)", fontSize: 13 }),
        vendor.ruleY(points.filter(hasInterval), { y: "row", x1: "low", x2: "high", stroke: (p) => colour(numbers.get(p.n)), strokeWidth: 5, strokeOpacity: 0.3, dy: above ? 7 : 0 }),
        // The first name on top and smallest, so that dots in one place are all seen.
        ...block.names.map((n, i) => [n, 4.2 + 0.8 * Math.min(i, 3)]).reverse().map(([n, r]) => vendor.dot(points.filter((p) => p.n === n), { x: "x", y: "row", r, fill: colour(numbers.get(n)), stroke: "var(--bg)", strokeWidth: 0.8, ...SYMBOLS[numbers.get(n) % COLOURS], dy: above ? 7 : 0, ariaLabel: n })),
      ],
      color: { type: "identity" },
      ariaLabel: `${block.title}. ${block.rows.map((row) => `${named(row.label)}: ${said(row).join(", ")}`).join("; ")}`,
    }));
    root.addEventListener("pointermove", (event) => {
      const row = block.rows[Math.floor((event.clientY - root.getBoundingClientRect().top - 4) / each)];
      tips.hidden = !row;
      if (!row) return;
      put(tips, clamp((event.clientX - root.getBoundingClientRect().left) / width, 0, 1), h("b", {}, named(row.label)), said(row).map((w) => h("div", {}, w)));
      tips.style.top = `${event.clientY - root.getBoundingClientRect().top + 14}px`;
    });
    root.addEventListener("pointerleave", () => { tips.hidden = true; });
    canvas.replaceChildren(root, tips);
  };
  draw();
  new ResizeObserver(() => { if (canvas.clientWidth > 0 && Math.abs(canvas.clientWidth - width) > 6) draw(); }).observe(canvas);
  return h("figure", { class: "chart", id: block.id }, caption(block), block.names.length > 1 && legend(block.names, off, (n) => legendMark(numbers.get(n)), draw), canvas);
}

function drawShares(block) {
  const body = block.rows.map((row) => {
    const total = row.counts.reduce((a, b) => a + b, 0);
    const bar = h("div", { class: "bar" }, row.counts.map((count, i) => {
      const share = total ? count / total : 0;
      const words = `${row.label}: ${named(block.names[i])} ${format(count)} of ${format(total)} (${format(share, "%")})`;
      const part = h("span", { class: `part e${i}`, title: words, "aria-label": words, role: "img" }, share > 0.08 ? `${Math.round(100 * share)}%` : "");
      part.style.flexGrow = String(count);
      return count > 0 && part;
    }));
    return h("div", { class: "sharerow" }, h("span", { class: "rowname", title: row.label }, row.label), bar, h("span", { class: "total" }, format(total)));
  });
  const keys = block.names.map((name, i) => h("span", { class: "key" }, h("i", { class: `swatch e${i}` }), term(name)));
  return h("figure", { class: "chart", id: block.id }, caption(block), h("div", { class: "legend still" }, keys), h("div", { class: "sharerows" }, body));
}
