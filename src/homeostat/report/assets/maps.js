// Maps (layer by head and the like), dot plots with intervals, and stacked shares.

const SEQUENTIAL = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
const DIVERGING = ["#2166ac", "#67a9cf", "#d1e5f0", "#f7f7f7", "#fddbc7", "#ef8a62", "#b2182b"];

function mix(stops, share) {
  const at = clamp(share, 0, 1) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const rgb = [0, 1, 2].map((k) => Math.round(part(stops[i], k) + (part(stops[i + 1], k) - part(stops[i], k)) * (at - i)));
  return { css: `rgb(${rgb.join(" ")})`, dark: 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] < 140 };
}

function colourScale(block) {
  const values = block.maps.flatMap((m) => m.values.flat()).filter((v) => v !== null);
  if (block.log) values.splice(0, values.length, ...values.filter((v) => v > 0));
  let low = values.length ? Math.min(...values) : 0;
  let high = values.length ? Math.max(...values) : 1;
  if (block.centre !== null) {
    const reach = Math.max(Math.abs(low - block.centre), Math.abs(high - block.centre)) || 1;
    low = block.centre - reach;
    high = block.centre + reach;
  } else if (low === high) high = low + (Math.abs(low) || 1);
  const stops = block.centre !== null ? DIVERGING : SEQUENTIAL;
  const bend = block.log && low > 0 ? Math.log : (v) => v;
  const share = (v) => (bend(Math.max(v, low)) - bend(low)) / (bend(high) - bend(low));
  return { low, high, stops, of: (v) => mix(stops, share(v)) };
}

function drawHeatmap(block) {
  const scale = colourScale(block);
  const readout = h("p", { class: "readout" }, "Point at a cell, or move with the arrow keys.");
  const maps = block.maps.map((map) => h("div", { class: "map" }, h("h4", {}, map.name), drawMap(block, map, scale, readout)));
  const steps = Array.from({ length: 24 }, (_, i) => i / 23);
  const bar = svg("svg", { viewBox: "0 0 240 30", class: "scalebar", role: "img", "aria-label": `Colours from ${format(scale.low)} to ${format(scale.high)}` },
    steps.map((t, i) => svg("rect", { x: i * 10, y: 0, width: 10.5, height: 12, fill: mix(scale.stops, t).css })),
    svg("text", { x: 0, y: 26 }, format(scale.low)),
    block.centre !== null && svg("text", { x: 120, y: 26, "text-anchor": "middle" }, format(block.centre)),
    svg("text", { x: 240, y: 26, "text-anchor": "end" }, format(scale.high)));
  return h("figure", { class: "chart heat", id: block.id },
    h("figcaption", {}, h("h3", {}, block.title), block.note && h("p", { class: "note" }, block.note)),
    h("div", { class: "maps" }, maps),
    h("div", { class: "under" }, bar, readout));
}

function drawMap(block, map, scale, readout) {
  const rows = map.values.length;
  const columns = Math.max(1, ...map.values.map((r) => r.length));
  const cell = clamp(Math.floor(560 / columns), 14, 40);
  const left = 34;
  const width = left + columns * cell + 4;
  const height = rows * cell + 36;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot heatplot", tabindex: "0", role: "img", "aria-label": `${map.name}: ${block.value} by ${block.y.label} and ${block.x.label}. Use the arrow keys to read values.` });
  root.style.maxWidth = `${Math.round(width * 1.25)}px`;
  const frame = svg("rect", { class: "frame", width: cell, height: cell, visibility: "hidden" });
  let at = [0, 0];
  const read = (r, c, aloud) => {
    at = [clamp(r, 0, rows - 1), clamp(c, 0, columns - 1)];
    const value = map.values[at[0]]?.[at[1]] ?? null;
    const words = `${map.name} · ${block.y.label} ${block.y.ticks[at[0]] ?? at[0]}, ${block.x.label} ${block.x.ticks[at[1]] ?? at[1]}: ${format(value)}`;
    readout.textContent = words;
    readout.title = String(value);
    frame.setAttribute("x", left + at[1] * cell);
    frame.setAttribute("y", at[0] * cell);
    frame.setAttribute("visibility", "visible");
    if (aloud) announce(words);
  };
  map.values.forEach((row, r) => row.forEach((value, c) => {
    root.append(svg("rect", {
      x: left + c * cell, y: r * cell, width: cell - 1, height: cell - 1, rx: 1.5, "data-row": r, "data-column": c,
      fill: value === null ? "none" : scale.of(value).css, class: value === null ? "void" : null,
      onpointerenter: () => read(r, c, false),
    }));
  }));
  const every = Math.ceil(26 / cell);
  block.y.ticks.forEach((t, r) => { if (r % Math.ceil(12 / cell) === 0) root.append(svg("text", { x: left - 6, y: r * cell + cell / 2 + 4, "text-anchor": "end" }, t)); });
  block.x.ticks.forEach((t, c) => { if (c % every === 0) root.append(svg("text", { x: left + c * cell + cell / 2, y: rows * cell + 13, "text-anchor": "middle" }, t)); });
  root.append(
    svg("text", { x: left + (columns * cell) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, block.x.label),
    svg("text", { transform: `translate(10 ${(rows * cell) / 2}) rotate(-90)`, "text-anchor": "middle", class: "label" }, block.y.label),
    frame);
  root.addEventListener("focus", () => read(at[0], at[1], true));
  root.addEventListener("blur", () => frame.setAttribute("visibility", "hidden"));
  root.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    read(at[0] + step[0], at[1] + step[1], true);
  });
  return root;
}

function parts(value) {
  if (value === null || value === undefined) return null;
  return typeof value === "object" ? value : { v: value, lo: null, hi: null };
}

function drawDots(block) {
  const off = new Set();
  const body = h("div", { class: "dots" });
  const look = (name) => ({ colour: block.names.indexOf(name) % COLOURS, shape: SHAPES[block.names.indexOf(name) % SHAPES.length] });
  const draw = () => {
    const values = block.rows.flatMap((r) => Object.entries(r.values).filter(([n]) => !off.has(n)).flatMap(([, v]) => {
      const p = parts(v);
      return p ? [p.v, p.lo, p.hi] : [];
    }));
    const scale = makeScale(values, "linear", 0, 100, block.x.limits || []);
    replace(body, block.rows.map((row) => dotRow(block, row, scale, off, look)), dotAxis(scale, block.x.label));
  };
  draw();
  return h("figure", { class: "chart", id: block.id },
    h("figcaption", {}, h("h3", {}, block.title), block.note && h("p", { class: "note" }, block.note)),
    block.names.length > 1 && legend(block.names, off, (n) => legendMark(look(n)), draw),
    body);
}

function dotRow(block, row, scale, off, look) {
  const marks = block.names.filter((n) => !off.has(n) && parts(row.values[n]));
  const words = marks.map((n) => {
    const p = parts(row.values[n]);
    return `${n} ${format(p.v, 3)}${p.lo === null ? "" : ` ${range(p.lo, p.hi, 3)}`}`;
  });
  const at = marks.map((n) => scale.at(parts(row.values[n]).v));
  const track = h("div", { class: "track" }, h("span", { class: "span" }));
  if (at.length) {
    track.firstChild.style.left = `${Math.min(...at)}%`;
    track.firstChild.style.right = `${100 - Math.max(...at)}%`;
  }
  marks.forEach((name, i) => {
    const p = parts(row.values[name]);
    const { colour, shape } = look(name);
    if (p.lo !== null) {
      const whisker = h("span", { class: `interval s${colour}` });
      whisker.style.left = `${scale.at(p.lo)}%`;
      whisker.style.right = `${100 - scale.at(p.hi)}%`;
      track.append(whisker);
    }
    const dot = svg("svg", { viewBox: "-7 -7 14 14", class: `dot s${colour}`, "aria-hidden": "true" }, svg("path", { d: shape(4.6), class: "mark" }));
    dot.style.left = `${at[i]}%`;
    track.append(dot);
  });
  return h("div", { class: "dotrow", tabindex: "0", "aria-label": `${row.label}: ${words.join(", ")}` },
    h("span", { class: "rowname", title: row.label }, row.label), track, h("div", { class: "tip" }, words.map((w) => h("div", {}, w))));
}

function dotAxis(scale, label) {
  const axis = h("div", { class: "track axis" }, scale.ticks.map((t) => {
    const mark = h("span", {}, tick(t));
    mark.style.left = `${scale.at(t)}%`;
    return mark;
  }));
  return h("div", { class: "dotrow scale", "aria-hidden": "true" }, h("span", { class: "rowname" }, label), axis);
}

function drawShares(block) {
  const body = block.rows.map((row) => {
    const total = row.counts.reduce((a, b) => a + b, 0);
    const bar = h("div", { class: "bar" }, row.counts.map((count, i) => {
      const share = total ? count / total : 0;
      const words = `${row.label}: ${block.names[i]} ${format(count)} of ${format(total)} (${format(100 * share, 1)} %)`;
      const part = h("span", { class: `part e${i}`, title: words, "aria-label": words, role: "img" }, share > 0.08 ? `${Math.round(100 * share)}%` : "");
      part.style.flexGrow = String(count);
      return count > 0 && part;
    }));
    return h("div", { class: "sharerow" }, h("span", { class: "rowname", title: row.label }, row.label), bar, h("span", { class: "total" }, format(total)));
  });
  const keys = block.names.map((name, i) => h("span", { class: "key" }, h("i", { class: `swatch e${i}` }), name));
  return h("figure", { class: "chart", id: block.id },
    h("figcaption", {}, h("h3", {}, block.title), block.note && h("p", { class: "note" }, block.note)),
    h("div", { class: "legend still" }, keys), h("div", { class: "sharerows" }, body));
}
