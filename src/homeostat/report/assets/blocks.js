// One function a kind of block.

const KINDS = {
  prose: (b) => h("p", { class: "prose" }, b.text),
  missing: (b) => h("p", { class: "missing" }, h("b", {}, "Not in this run: "), b.what, b.how && [" ", h("code", {}, b.how)]),
  figures: drawFigures,
  facts: (b) => h("dl", { class: "facts" }, b.items.map(([name, value]) => [h("dt", {}, name), h("dd", {}, format(key(value)), interval(value, null))])),
  table: drawTable,
  chart: drawChart,
  heatmap: drawHeatmap,
  dots: drawDots,
  shares: drawShares,
  text: drawText,
  images: drawImages,
  samples: drawSamples,
};

function drawBlock(block) {
  try {
    const draw = KINDS[block.kind];
    if (!draw) throw new Error(`no such kind of block: ${block.kind}`);
    return draw(block);
  } catch (error) {  // one part that cannot be drawn must not hide the others
    console.error(error);
    return h("p", { class: "missing" }, h("b", {}, "This part could not be drawn: "), error.message);
  }
}

function drawFigures(block) {
  return h("div", { class: "figures" }, block.items.map((f) => h("div", { class: f.main ? "headline main" : "headline" },
    h("span", { class: "label" }, f.label),
    h("span", { class: "value", title: f.value === null ? "" : String(f.value) },
      f.before !== null && h("span", { class: "before" }, format(f.before, f.digits), " → "), format(f.value, f.digits)),
    f.low !== null && h("span", { class: "range" }, `${f.level ? `${Math.round(100 * f.level)} %: ` : ""}${range(f.low, f.high, f.digits)}`),
    f.note && h("span", { class: "note" }, f.note))));
}

function drawText(block) {
  return h("details", { class: "text", open: !block.folded }, h("summary", {}, block.title), h("pre", { tabindex: "0" }, block.text));
}

function drawImages(block) {
  return h("div", { class: "images" }, block.items.map((image) => h("figure", { class: "locked" },
    h("img", { src: image.src, alt: image.title }),
    h("figcaption", {}, h("b", {}, image.title), " ", h("code", {}, image.path)))));
}

function drawTable(block) {
  const state = { by: null, down: false, filter: "" };
  const body = h("tbody");
  const numeric = block.columns.map((_, c) => block.rows.some((r) => typeof key(r[c]) === "number"));
  const draw = () => {
    let rows = block.rows;
    if (state.filter) rows = rows.filter((r) => r.some((cell) => String(key(cell) ?? "").toLowerCase().includes(state.filter)));
    if (state.by !== null) {
      rows = rows.slice().sort((a, b) => compare(key(a[state.by]), key(b[state.by])) * (state.down ? -1 : 1));
    }
    const cut = rows.slice(0, 500);
    replace(body, cut.map((row) => h("tr", {}, row.map((cell, c) => drawCell(cell, block.columns[c], numeric[c], c === 0)))),
      rows.length > cut.length && h("tr", {}, h("td", { colspan: block.columns.length, class: "more" }, `${format(rows.length - cut.length)} more rows: filter to see them`)));
  };
  const heads = block.columns.map((column, c) => h("th", { scope: "col", class: numeric[c] ? "n" : null, "aria-sort": "none" },
    h("button", {
      type: "button", title: column.help || `Sort by ${column.name}`,
      onclick: () => {
        state.down = state.by === c ? !state.down : numeric[c];
        state.by = c;
        heads.forEach((th, i) => th.setAttribute("aria-sort", i !== c ? "none" : state.down ? "descending" : "ascending"));
        draw();
      },
    }, column.name)));
  draw();
  const filter = block.rows.length > 12 && h("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: (e) => { state.filter = e.target.value.toLowerCase(); draw(); } });
  const scroller = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.title || "Table" }, h("table", { class: "grid" }, h("thead", {}, h("tr", {}, heads)), body));
  const inside = [block.note && h("p", { class: "note" }, block.note), filter, scroller];
  if (block.folded) return h("details", { class: "fold", id: block.id }, h("summary", {}, block.title), inside);
  return h("div", { class: "tablebox", id: block.id }, block.title && h("h3", {}, block.title), inside);
}

function key(cell) {
  return cell !== null && typeof cell === "object" ? cell.v : cell;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function drawCell(cell, column, numeric, head) {
  const value = key(cell);
  const tag = head && !numeric ? "th" : "td";
  return h(tag, { class: numeric ? "n" : null, scope: tag === "th" ? "row" : null, title: typeof value === "number" ? String(value) : null },
    format(value, column.digits),
    interval(cell, column.digits));
}

function interval(cell, digits) {
  return cell !== null && typeof cell === "object" && h("span", { class: "range" }, ` ${range(cell.lo, cell.hi, digits)}`);
}
