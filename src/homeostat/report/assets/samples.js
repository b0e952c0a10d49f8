// The sample browser: filter, page, and open one sample as raw → repaired → canon.

const PAGE = window.matchMedia("(max-width: 700px)").matches ? 12 : 50;

async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function readSamples(data) {
  const text = (i) => (i === null ? null : data.texts[i]);
  const named = (row, field) => row[data.fields.indexOf(field)];
  return data.rows.map((row, index) => {
    const s = { index };
    data.fields.forEach((field, c) => { s[field] = data.words[field] ? data.words[field][row[c]] : row[c]; });
    s.text = (field) => text(named(row, field));
    s.canonText = () => text(data.canons[s.canon] ?? null);
    return s;
  });
}

function drawSamples(block) {
  const status = h("p", { class: "note", role: "status" }, "Unpacking samples…");
  const holder = h("div", { class: "samples", id: block.id }, status);
  const source = block.load ? block.load() : unpack(block.data);
  source.then((data) => replace(holder, browser(block, readSamples(data), data)))
    .catch((error) => { console.error(error); status.textContent = `The samples could not be read: ${error.message}`; });
  return holder;
}

function browser(block, all, data) {
  const state = { page: 0, found: all, query: "", picks: {} };
  const list = h("tbody");
  const count = h("p", { class: "note", role: "status" });
  const back = h("button", { type: "button", onclick: () => { state.page -= 1; draw(); } }, "‹ Previous");
  const on = h("button", { type: "button", onclick: () => { state.page += 1; draw(); } }, "Next ›");
  const viewer = sampleDialog(state, data);
  const draw = () => {
    const pages = Math.max(1, Math.ceil(state.found.length / PAGE));
    state.page = clamp(state.page, 0, pages - 1);
    const shown = state.found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    replace(list, shown.map((s, i) => sampleRow(s, () => viewer.open(state.page * PAGE + i))));
    count.textContent = `${format(state.found.length)} of ${format(all.length)} samples · page ${state.page + 1} of ${pages}`;
    back.disabled = state.page === 0;
    on.disabled = state.page >= pages - 1;
  };
  const refilter = () => {
    const wanted = Object.entries(state.picks).filter(([, v]) => v !== "");
    const query = state.query.toLowerCase();
    state.found = all.filter((s) => wanted.every(([f, v]) => OUTCOMES[v] && f === "outcome" ? OUTCOMES[v](s) : String(s[f]) === v)
      && (!query || [s.sample_id, s.text("raw"), s.text("post")].some((t) => t !== null && String(t).toLowerCase().includes(query))));
    state.page = 0;
    draw();
  };
  const pick = (field, label, options) => options.length > 1 && h("label", {}, label, h("select", { name: field, "aria-label": label, onchange: (e) => { state.picks[field] = e.target.value; refilter(); } },
    h("option", { value: "" }, "all"), options.map((o) => h("option", { value: o }, field === "model" ? named(o) : o))));
  const distinct = (field) => [...new Set(all.map((s) => String(s[field])))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  let timer = 0;
  const search = h("input", { type: "search", placeholder: "Search in texts", "aria-label": "Search in sample texts", oninput: (e) => {
    state.query = e.target.value;
    clearTimeout(timer);
    timer = setTimeout(refilter, 150);
  } });
  draw();
  return [
    data.notes.map((n) => h("p", { class: "note" }, n)),
    h("div", { class: "filters" }, pick("prompt", "Prompt", distinct("prompt")), pick("model", "Model", distinct("model")),
      pick("temperature", "Temperature", distinct("temperature")), pick("evidence", "Evidence", distinct("evidence")),
      pick("outcome", "Outcome", Object.keys(OUTCOMES)), h("label", {}, "Search", search)),
    scroller(h("table", { class: "grid rows cards" }, h("thead", {}, h("tr", {}, SAMPLE_COLUMNS.map((t, i) => h("th", { scope: "col", class: [3, 4, 5, 8].includes(i) ? "n" : null }, t)))), list), "Samples"),
    h("div", { class: "pager" }, back, count, on),
    viewer.element,
  ];
}

const OUTCOMES = {
  "was canonical": (s) => s.d_pre === 0,
  rescued: (s) => s.d_pre > 0 && s.d_post === 0,
  "moved closer": (s) => s.d_post > 0 && s.d_post < s.d_pre,
  unchanged: (s) => s.d_pre > 0 && s.d_post === s.d_pre,
  "fails the oracle": (s) => s.ok_post === false,
};

const SAMPLE_COLUMNS = ["sample", "prompt", "model", "temperature", "distance before", "distance after", "evidence", "oracle", "repair steps"];

function sampleRow(s, open) {
  const cell = (i, attributes, ...content) => h("td", { ...attributes, "data-label": SAMPLE_COLUMNS[i] }, content);
  return h("tr", { onclick: open },
    h("th", { scope: "row", "data-label": "sample" }, h("button", { type: "button", class: "link", onclick: (e) => { e.stopPropagation(); open(); } }, s.sample_id)),
    cell(1, {}, s.prompt), cell(2, {}, named(s.model)), cell(3, { class: "n" }, format(s.temperature, 1)),
    cell(4, { class: "n" }, format(s.d_pre, 3)), cell(5, { class: s.d_post === 0 ? "n good" : "n" }, format(s.d_post, 3)),
    cell(6, {}, badge(s.evidence)), cell(7, {}, verdict(s.ok_pre, s.ok_post)), cell(8, { class: "n" }, format(s.steps.length)));
}

function badge(evidence) {
  return h("span", { class: `badge b-${["identical", "rewritten", "equivalent"].indexOf(evidence)}`, title: TERMS[evidence]?.[1] ?? "Not brought to the canon." }, evidence);
}

function verdict(before, after) {
  const word = (ok) => (ok === null ? "–" : ok ? "pass" : "fail");
  const kind = after === null ? null : after ? "pass" : "fail";
  return h("span", { class: kind }, before === after ? word(after) : `${word(before)} → ${word(after)}`);
}

function fact(name, ...value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value.map((v) => (v instanceof Node ? v : v && format(v)))));
}

function sampleDialog(state, data) {
  const body = h("div", { class: "sample" });
  const place = h("span", { class: "note" });
  let index = 0;
  let raw = false;
  const show = (i) => {
    index = clamp(i, 0, state.found.length - 1);
    const s = state.found[index];
    place.textContent = `${index + 1} of ${state.found.length}`;
    replace(body, sampleDetail(s, data, raw, (now) => { raw = now; show(index); }));
  };
  const element = h("dialog", { class: "window", "aria-label": "Sample", onkeydown: (event) => {
    if (event.target.closest("input, select, .code")) return;
    if (event.key === "ArrowRight") show(index + 1);
    if (event.key === "ArrowLeft") show(index - 1);
  }, onclick: (event) => { if (event.target === element) element.close(); } },
  h("header", {}, h("button", { type: "button", onclick: () => show(index - 1) }, "‹ Previous"), place,
    h("button", { type: "button", onclick: () => show(index + 1) }, "Next ›"),
    h("button", { type: "button", class: "close", onclick: () => element.close() }, "Close")), body);
  return { element, open: (i) => { show(i); element.showModal(); body.scrollTop = 0; } };
}

function sampleDetail(s, data, raw, changed) {
  const first = raw ? "Raw output" : "Raw, normalised";
  const steps = s.steps.map((i) => data.steps[i]);
  const same = s.d_post === 0 ? "Repaired = canon" : "Repaired";
  return [
    h("h3", {}, `${s.prompt} · sample ${s.sample_id}`),
    h("dl", { class: "facts" },
      fact("model", named(s.model)), fact("temperature", String(s.temperature)),
      fact("distance to the canon", `${format(s.d_pre, 3)} → ${format(s.d_post, 3)}${s.method === "exact" ? "" : ` (${s.method})`}`),
      fact("evidence", badge(s.evidence), s.reason !== null && data.texts[s.reason] && ` ${data.texts[s.reason]}`),
      fact("oracle", verdict(s.ok_pre, s.ok_post), s.fault !== null && h("span", { class: "note" }, ` ${data.texts[s.fault]}`))),
    h("h4", {}, "Repair steps", steps.some((t) => data.explanations?.[t]) && h("span", { class: "note" }, " · click one to read why it keeps behaviour")),
    steps.length ? h("ol", { class: "steps" }, steps.map((t) => h("li", {}, term(t, t.replaceAll("-", " "), data.explanations?.[t])))) : h("p", { class: "note" }, "none"),
    h("div", { class: "controls" }, toggle("show raw output as generated", raw, changed)),
    drawThree([first, same, "Canon"], [s.text(raw ? "raw" : "pre"), s.text("post"), s.canonText()]),
    h("p", { class: "note" }, "− changed or removed by repair · + brought in by repair · ≠ still differs from the canon"),
  ];
}
