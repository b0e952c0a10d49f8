// The live page: asks for figures every few seconds, with the reader's key where the service wants one.

const EVERY_MS = 5000;
const KEY = "homeostat-skyt-key";
const FIGURES = ["R_raw", "R_anchor", "mu_pre", "mu_post", "P_tau_pre", "P_tau_post", "rescue_rate"];
const live = { contract: null, shown: "", timer: 0 };

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
  const heads = ["contract", "policy", "N", ...FIGURES, "canon", "upstream ms", "our ms", "last sample"];
  replace(main,
    h("header", { class: "top" }, h("p", { class: "eyebrow" }, "skyt"), h("h1", {}, "Live repeatability"), state),
    h("section", { id: "contracts" }, h("h2", {}, "Contracts"),
      h("p", { class: "lead" }, "Metrics over the latest samples of each contract; times are medians. Choose one for its history and samples."),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Contracts" },
        h("table", { class: "grid rows" }, h("thead", {}, h("tr", {}, heads.map((t) => h("th", { scope: "col" }, t)))), table))),
    detail);
}

function contractRow(c) {
  const open = h("button", { type: "button", onclick: () => choose(c.prompt_id) }, c.prompt_id);
  const number = (v) => h("td", { class: "n" }, format(v, Number.isInteger(v) && v > 1 ? null : 3));
  return h("tr", { "data-contract": c.prompt_id }, h("th", { scope: "row" }, open), h("td", {}, c.policy), h("td", { class: "n" }, format(c.metrics.N)),
    FIGURES.map((f) => number(c.metrics[f])), h("td", {}, c.canon_signature ? h("code", {}, c.canon_signature.slice(0, 12)) : "none yet"),
    h("td", { class: "n" }, format(c.upstream_ms, 1)), h("td", { class: "n" }, format(c.overhead_ms, 1)), h("td", { title: c.last_sample }, new Date(c.last_sample).toLocaleTimeString()));
}

async function choose(contract) {
  live.contract = contract;
  live.shown = "";
  await refresh();
  detail.scrollIntoView({ behavior: "smooth" });
}

function drawSample(s, canon) {
  const what = `${s.sample_id} · d ${format(s.d_pre, 3)} → ${format(s.d_post, 3)} · ${s.evidence} · ${s.oracle_pre.compliant ? "compliant" : "not compliant"} · ${s.timestamp}`;
  const texts = [s.raw_output, s.normalized_post, canon];
  const body = h("div", {});
  return h("details", { class: "sample", ontoggle: (e) => { if (e.target.open && !body.childNodes.length) body.append(
    h("p", { class: "note" }, `${s.reason}${s.repair_steps.length ? ` · steps: ${s.repair_steps.join(", ")}` : ""}`),
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
  const about = c ? `${c.canon_signature.slice(0, 12)} · ${c.origin} · fixed ${c.fixed_at_timestamp}${c.model ? ` · ${c.model} at ${c.temperature}` : ""} · oracle ${c.oracle_version}, normalisation ${c.normalization_version}` : "None yet: the first compliant output becomes it.";
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
}

async function refresh() {
  clearTimeout(live.timer);
  try {
    const status = await ask("/api/status");
    replace(table, status.contracts.map(contractRow));
    state.textContent = status.contracts.length ? `${status.upstream ? `Upstream ${status.upstream} · ` : ""}updated ${new Date().toLocaleTimeString()}` : "No samples yet: send a request that matches a contract.";
    live.contract = live.contract || (status.contracts.length ? status.contracts[0].prompt_id : null);
    if (live.contract) await drawDetail();
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
