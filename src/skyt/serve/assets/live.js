// The live page: asks for figures every few seconds, with the reader's key where the service wants one.

const EVERY_MS = 5000;
const KEY = "homeostat-skyt-key";
// Figures of a contract: heading, [before repair,] after it, number format.
const FIGURES = [["R_raw", ["R_raw"], "%"], ["R_anchor", ["R_anchor"], "%"], ["mean distance", ["mu_pre", "mu_post"], 3], ["P_tau", ["P_tau_pre", "P_tau_post"], "%"], ["rescue_rate", ["rescue_rate"], "%"]];
const live = { contract: null, shown: "", timer: 0, picks: { evidence: "all", outcome: "all", words: "" } };

class Refused extends Error {}

async function ask(path, act) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const response = await fetch(path, act ? { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(act) } : { headers });
  if (response.status === 401) throw new Refused("a valid key is needed");
  const body = await response.json();
  if (!response.ok) throw new Error(body.error ? body.error.message : `status ${response.status}`);
  return body;
}

const main = h("main", { id: "main" });
const state = h("p", { class: "note", role: "status" }, "Asking for figures…");
const table = h("tbody");
const start = h("div", { hidden: true });
const detail = h("section", { id: "contract", "aria-label": "One contract" });

function keyForm() {
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": "API key", id: "key" });
  return h("form", {
    class: "filters",
    onsubmit: (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      layOut();
      refresh();
    },
  }, h("label", {}, "This service wants an API key", input), h("button", { type: "submit" }, "Show"));
}

function layOut() {
  const heads = ["contract", "policy", "N", ...FIGURES.map(([name]) => name), "canon", "tokens", "upstream ms", "our ms", "last sample"];
  replace(main,
    h("header", { class: "top" }, h("p", { class: "eyebrow" }, "skyt"), h("h1", {}, "Live repeatability"), state),
    h("section", { id: "contracts" }, h("h2", {}, "Contracts"),
      h("p", { class: "lead" }, "Metrics over the latest samples of each contract; times are medians. Choose one for its history and samples."),
      scroller(h("table", { class: "grid rows cards" }, h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col" }, term(t))))), table), "Contracts")),
    start, detail);
}

// Nothing measured yet: a command to paste, and the contracts to try. Hidden as soon as there is a sample.
function drawStart(known) {
  const wanted = known.find((c) => c.prompt_id === "gcd") ?? known[0];
  if (!wanted) return h("p", { class: "missing" }, "This key is for no contract: ask whoever runs the service.");
  const body = (name) => JSON.stringify({ model: `skyt/${name}`, messages: [{ role: "user", content: known.find((c) => c.prompt_id === name).asks }] });
  const bearer = sessionStorage.getItem(KEY) ? " \\\n  -H 'authorization: Bearer YOUR_KEY'" : "";
  const command = (name) => `curl ${location.origin}/v1/chat/completions${bearer} \\\n  -H 'content-type: application/json' \\\n  -d '${body(name).replaceAll("'", "'\\''")}'`;
  const shown = h("pre", { tabindex: "0", class: "command" }, command(wanted.prompt_id));
  const copied = h("span", { class: "note", role: "status" });
  const copy = async () => {
    try { await navigator.clipboard.writeText(shown.textContent); copied.textContent = "Copied."; } catch { copied.textContent = "Select the text to copy it."; }
  };
  const search = h("input", { type: "search", placeholder: "Search contracts", "aria-label": "Search contracts", oninput: (e) => list(e.target.value.toLowerCase()) });
  const names = h("ul", { class: "known" });
  const list = (words) => {
    const found = known.filter((c) => `${c.prompt_id} ${c.asks}`.toLowerCase().includes(words));
    replace(names, found.slice(0, 24).map((c) => h("li", {}, h("button", { type: "button", class: "link", onclick: () => { shown.textContent = command(c.prompt_id); } }, c.prompt_id), h("span", { class: "note" }, ` ${c.asks.length > 110 ? `${c.asks.slice(0, 110)} …` : c.asks}`))),
      found.length > 24 && h("li", { class: "note" }, `and ${found.length - 24} more: search for them`));
  };
  list("");
  return h("section", { id: "start" }, h("h2", {}, "No samples yet"),
    h("p", { class: "lead" }, "Send one request and this page fills itself. Paste this into a terminal, or point any OpenAI client at ", h("code", {}, `${location.origin}/v1`), " with a model named ", h("code", {}, "skyt/<contract>"), "."),
    shown, h("div", { class: "controls" }, h("button", { type: "button", class: "button", onclick: copy }, "Copy"), copied),
    h("h3", {}, "Contracts to try"), known.length > 24 && search, names);
}

function contractRow(c) {
  const open = h("button", { type: "button", onclick: () => choose(c.prompt_id) }, c.prompt_id);
  const cell = (name, value, attributes) => h("td", { "data-label": named(name), ...attributes }, h("span", {}, value));
  const number = (name, value, digits) => cell(name, format(value, digits), { class: "n" });
  return h("tr", { "data-contract": c.prompt_id }, h("th", { scope: "row" }, open), cell("policy", c.policy), number("N", c.metrics.N),
    FIGURES.map(([name, keys, digits]) => cell(name, keys.map((k) => format(c.metrics[k], digits, true)).join(" → "), { class: "n" })), cell("canon", c.canon_signature ? h("code", {}, c.canon_signature.slice(0, 12)) : "none yet"),
    number("tokens", (c.usage.prompt_tokens ?? 0) + (c.usage.completion_tokens ?? 0)), number("upstream ms", c.upstream_ms, 1), number("our ms", c.overhead_ms, 1), cell("last sample", new Date(c.last_sample).toLocaleTimeString(), { title: c.last_sample }));
}

async function choose(contract) {
  live.contract = contract;
  live.shown = "";
  await refresh();
  detail.scrollIntoView({ behavior: "smooth" });
}

function drawSample(s, canon) {
  const what = [`${s.sample_id} · distance ${format(s.d_pre, 3)} → ${format(s.d_post, 3)} `, badge(s.evidence), " ", verdict(s.oracle_pre.compliant, (s.oracle_post ?? s.oracle_pre).compliant), h("span", { class: "note" }, ` ${s.timestamp}`)];
  const texts = [s.raw_output, s.normalized_post, canon];
  const body = h("div", {});
  const outcome = Object.keys(OUTCOMES).filter((name) => OUTCOMES[name]({ ...s, ok_post: (s.oracle_post ?? s.oracle_pre).compliant })).join("|");
  return h("details", { class: "sample", "data-evidence": s.evidence, "data-outcome": outcome, "data-words": `${s.sample_id} ${s.raw_output}`.toLowerCase(), ontoggle: (e) => { if (e.target.open && !body.childNodes.length) body.append(
    h("p", { class: "note" }, s.reason, s.repair_steps.length > 0 && [" · steps: ", s.repair_steps.map((step, i) => [i > 0 && ", ", term(step, step.replaceAll("-", " "), live.explanations?.[step])])]),
    s.oracle_pre.failures.length ? h("p", { class: "note" }, s.oracle_pre.failures.join("; ")) : "",
    drawThree(["as generated", "after repair", "canon"], texts)); } },
  h("summary", {}, what), body);
}

function typing() {  // do not take a reason away from someone who is writing it
  const why = document.getElementById("why");
  return why !== null && why.value !== "" && live.shown !== "";
}

function eventLine(e) {
  const to = e.canon_signature ? e.canon_signature.slice(0, 12) : "none";
  const found = e.findings.length ? ` (in spite of: ${e.findings.join("; ")})` : "";
  return h("li", {}, h("span", { class: "note" }, e.timestamp), ` ${e.action} ${to} by ${e.who}: ${e.why}${found}`);
}

function managing(contract, canon_signature) {
  const why = h("input", { type: "text", maxlength: "1000", required: "", id: "why" });
  const said = h("p", { class: "note", role: "status" });
  const act = (what, confirmation) => async () => {
    if (!why.value.trim()) { said.textContent = "Say why first: it is put on record."; why.focus(); return; }
    if (confirmation && !window.confirm(confirmation)) return;
    try {
      await ask(`/api/canon/${what}`, { contract, canon_signature, why: why.value });
      live.shown = "";
      await refresh();
    } catch (error) { said.textContent = error.message; }
  };
  return h("div", { class: "managing" }, h("label", {}, "Why", why),
    h("button", { type: "button", onclick: act("approve") }, "Approve"),
    h("button", { type: "button", class: "grave", onclick: act("re-anchor", `Archive the canon of ${contract}? The next compliant output becomes the new one.`) }, "Re-anchor"), said);
}

function drawCanon(contract, found) {
  const c = found.canon;
  const about = c ? `${c.canon_signature.slice(0, 12)} · ${c.origin} · fixed ${c.fixed_at_timestamp}${c.model ? ` · ${c.model} at ${c.temperature}` : ""} · oracle ${c.oracle_version}, normalisation ${c.normalization_version}` : "None yet: the operator sets it, or it is the first compliant output that a request with an API key got.";
  return h("section", { class: "canon", "aria-label": "Canon" }, h("h3", {}, "Canon"), h("p", { class: "note" }, about),
    c && c.contract_differences.length ? h("p", { class: "missing" }, `The contract has changed since: ${c.contract_differences.join("; ")}`) : "",
    c ? h("pre", { tabindex: "0", "aria-label": "Code of the canon" }, h("code", {}, c.code)) : "",
    found.events.length ? h("ul", { class: "events" }, found.events.map(eventLine)) : "",
    c && found.may_manage ? managing(contract, c.canon_signature) : "");
}

async function drawDetail() {
  const contract = live.contract;
  const query = `contract=${encodeURIComponent(contract)}`;
  const [history, latest, canon] = await Promise.all([ask(`/api/history?${query}`), ask(`/api/samples?${query}&limit=20`), ask(`/api/canon?${query}`)]);
  const fixed = canon.canon ? canon.canon.canon_signature : "";
  const mark = `${contract} ${history.snapshots.length} ${latest.samples.length ? latest.samples[0].sample_id : ""} ${fixed} ${canon.events.length}`;
  if (mark === live.shown || contract !== live.contract || typing()) return;  // nothing new: leave what the reader has open
  replace(detail, h("h2", {}, contract),
    history.snapshots.length ? drawChart(history.chart) : h("p", { class: "missing" }, "No snapshot yet: the first is kept within seconds of the first sample."),
    drawCanon(contract, canon),
    h("h3", {}, "Latest samples"), latest.samples.map((s) => drawSample(s, latest.canon)));
  live.shown = mark;
  live.explanations = latest.explanations;  // read when a sample is opened
}

// The report's filters, above the samples. What is chosen stays chosen while the page follows the service.
function filterSamples() {
  const samples = [...detail.querySelectorAll("details.sample")];
  const apply = () => {
    const { evidence, outcome, words } = live.picks;
    for (const s of samples) s.hidden = !((evidence === "all" || s.dataset.evidence === evidence) && (outcome === "all" || s.dataset.outcome.split("|").includes(outcome)) && s.dataset.words.includes(words));
    count.textContent = `${samples.filter((s) => !s.hidden).length} of ${samples.length} samples`;
  };
  const pick = (name, label, options) => {
    const select = h("select", { name, "aria-label": label, onchange: (e) => { live.picks[name] = e.target.value; apply(); } }, ["all", ...options].map((o) => h("option", { value: o }, o)));
    select.value = live.picks[name];
    return h("label", {}, label, select);
  };
  const count = h("p", { class: "note", role: "status" });
  const search = h("input", { type: "search", placeholder: "Search in texts", "aria-label": "Search in sample texts", oninput: (e) => { live.picks.words = e.target.value.toLowerCase(); apply(); } });
  search.value = live.picks.words;
  if (!samples.length || detail.querySelector(".filters.samples")) return;
  samples[0].before(h("div", { class: "filters samples" }, pick("evidence", "Evidence", ["identical", "rewritten", "equivalent", "none"]), pick("outcome", "Outcome", Object.keys(OUTCOMES)), h("label", {}, "Search", search)), count);
  apply();
}

async function refresh() {
  clearTimeout(live.timer);
  try {
    const status = await ask("/api/status");
    replace(table, status.contracts.map(contractRow));
    state.textContent = status.contracts.length ? `${status.upstream ? `Upstream ${status.upstream} · ` : ""}updated ${new Date().toLocaleTimeString()}` : "Waiting for the first request.";
    live.contract = live.contract || (status.contracts.length ? status.contracts[0].prompt_id : null);
    const empty = status.contracts.length === 0;
    if (empty && start.hidden) replace(start, drawStart(status.known));
    start.hidden = !empty;
    document.getElementById("contracts").hidden = empty;
    if (live.contract) await drawDetail();
    if (live.contract) filterSamples();
  } catch (error) {
    if (error instanceof Refused) {
      sessionStorage.removeItem(KEY);
      replace(main, h("h1", {}, "Live repeatability"), keyForm());
      return;
    }
    state.textContent = `The service did not answer: ${error.message}`;
  }
  live.timer = setTimeout(refresh, EVERY_MS);
}

replace(document.body, bar(), h("div", { class: "live" }, main));
layOut();
refresh().then(() => { document.documentElement.dataset.ready = "yes"; });
