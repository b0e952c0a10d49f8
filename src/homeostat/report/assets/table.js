// Tables: sorted by any column, filtered, all columns named, one card for each row on a phone.

const ROWS_AT_ONCE = 40;

function drawTable(block) {
  const state = { by: null, down: false, filter: "", all: false };
  const body = h("tbody");
  const numeric = block.columns.map((_, c) => block.rows.some((r) => typeof key(r[c]) === "number"));
  const columns = block.columns.map((column, c) => ({ ...column, digits: column.digits ?? decimals(block.rows.map((r) => key(r[c]))) }));
  const draw = () => {
    let rows = block.rows;
    if (state.filter) rows = rows.filter((r) => r.some((cell) => `${key(cell) ?? ""} ${named(key(cell) ?? "")}`.toLowerCase().includes(state.filter)));
    if (state.by !== null) rows = rows.slice().sort((a, b) => compare(key(a[state.by]), key(b[state.by])) * (state.down ? -1 : 1));
    const cut = state.all ? rows : rows.slice(0, ROWS_AT_ONCE);
    replace(body, cut.map((row) => h("tr", {}, row.map((cell, c) => drawCell(cell, columns[c], numeric[c], c === 0)))),
      rows.length > cut.length && h("tr", { class: "more" }, h("td", { colspan: block.columns.length }, h("button", { type: "button", class: "button", onclick: () => { state.all = true; draw(); } }, `Show all ${format(rows.length)} rows`))));
    heads.forEach((th, i) => th.setAttribute("aria-sort", i !== state.by ? "none" : state.down ? "descending" : "ascending"));
  };
  const sort = (c, down) => { state.by = c; state.down = down; draw(); };
  const heads = block.columns.map((column, c) => {
    const meaning = column.help || TERMS[column.name]?.[1] || "";
    const spelled = named(column.name) === column.name ? "" : `${column.name}: `;
    return h("th", { scope: "col", class: numeric[c] ? "n" : null, "aria-sort": "none" },
      h("button", { type: "button", title: `${spelled}${meaning}${meaning ? " " : ""}Click to sort.`, onclick: () => sort(c, state.by === c ? !state.down : numeric[c]) }, named(column.name)));
  });
  draw();
  const filter = block.rows.length > 12 && h("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows", oninput: (e) => { state.filter = e.target.value.toLowerCase(); draw(); } });
  const order = block.rows.length > 2 && h("label", { class: "order" }, "Sort by ", h("select", { onchange: (e) => sort(Number(e.target.value), numeric[e.target.value]) }, block.columns.map((column, c) => h("option", { value: c }, named(column.name)))));
  const inside = [block.note && h("p", { class: "note" }, block.note), (filter || order) && h("div", { class: "tabletools" }, filter, order), scroller(h("table", { class: "grid cards" }, h("thead", {}, h("tr", {}, heads)), body), block.title || "Table")];
  if (block.folded) return h("details", { class: "fold", id: block.id }, h("summary", {}, block.title), inside);
  return h("div", { class: "tablebox", id: block.id }, block.title && h("h3", {}, block.title), inside);
}

// A frame that scrolls sideways where a table is wider than the page, and then says which columns are out of sight.
function scroller(table, label) {
  const frame = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  const hint = h("p", { class: "note hint", role: "status" });
  const look = () => {
    const edge = frame.getBoundingClientRect().right + 2;
    const hidden = [...table.querySelectorAll("thead th")].filter((th) => th.getBoundingClientRect().right > edge).map((th) => th.textContent);
    hint.textContent = frame.clientWidth && frame.scrollWidth > frame.clientWidth + 2 && hidden.length ? `Scroll sideways for ${hidden.length === 1 ? "one more column" : `${hidden.length} more columns`}: ${hidden.join(", ")}.` : "";
  };
  frame.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(frame);
  return [frame, hint];
}

// Decimals that suit every number of a column, so that they stand below each other; null for whole numbers.
function decimals(values) {
  const numbers = values.filter((v) => typeof v === "number" && Number.isFinite(v));
  if (numbers.every(Number.isInteger)) return null;
  const largest = Math.max(...numbers.map(Math.abs));
  return largest >= 100 ? 1 : largest >= 10 ? 2 : 3;
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

function drawCell(cell, given, numeric, head) {
  const column = cell?.digits !== undefined ? { ...given, digits: cell.digits } : given;
  const value = key(cell);
  const tag = head && !numeric ? "th" : "td";
  const text = typeof value === "string" && column.names !== false ? (TERMS[value] ? term(value) : named(value)) : format(value, column.digits, typeof cell === "object");
  return h(tag, { class: numeric ? "n" : null, scope: tag === "th" ? "row" : null, "data-label": named(column.name), title: typeof value === "number" ? String(value) : null },
    h("span", {}, typeof cell?.before === "number" && [format(cell.before, column.digits, true), " → "], text, cell?.unit, interval(cell, column.digits), cell?.tone && h("span", { class: `tone tone-${cell.tone}` }, cell.words)));
}

function interval(cell, digits) {
  return cell !== null && typeof cell === "object" && typeof cell.lo === "number" && h("span", { class: "range" }, ` ${range(cell.lo, cell.hi, digits)}`);
}
