// The viewer: a list of runs, one run, or several side by side; the address after # says which.

const EVERY = 2000;  // milliseconds between looks at the disk
const chosen = new Set();
let turn = 0;  // a newer page makes an older one's answers stale
let timer = 0;

async function ask(path, query) {
  const parameters = new URLSearchParams();
  for (const [name, values] of Object.entries(query || {})) for (const v of [values].flat()) parameters.append(name, v);
  const answer = await fetch(`${path}?${parameters}`);
  if (!answer.ok) throw new Error(answer.status === 404 ? "there is no such run here" : `the server said ${answer.status}`);
  return answer.json();
}

function show(...content) {
  replace(document.getElementById("page"), ...content);
  document.documentElement.dataset.ready = "yes";
}

function route() {
  clearTimeout(timer);
  turn += 1;
  delete document.documentElement.dataset.ready;
  const [kind, ...names] = location.hash.replace(/^#\//, "").split("|").map(decodeURIComponent);
  const page = kind === "run" ? runPage(turn, names[0]) : kind === "compare" ? comparePage(turn, names) : listPage(turn);
  page.catch((error) => show(h("div", { class: "wide" }, h("p", { class: "missing" }, h("b", {}, "This page could not be shown: "), error.message))));
}

function link(...names) {
  return `#/${names.map(encodeURIComponent).join("|")}`;
}

async function listPage(mine) {
  document.title = "homeostat runs";
  const state = { query: "", status: "" };
  const body = h("tbody");
  const count = h("p", { class: "note", role: "status" });
  const go = h("button", { type: "button", class: "button", disabled: true, onclick: () => { location.hash = link("compare", ...chosen); } }, "Compare chosen");
  let runs = [];
  let drawn = "";
  const draw = () => {
    const found = runs.filter((r) => (!state.status || r.status === state.status) && matches(r, state.query));
    const kept = document.activeElement?.dataset?.path;
    replace(body, found.map((run) => runRow(run, update)));
    if (kept) [...body.querySelectorAll("input")].find((box) => box.dataset.path === kept)?.focus();
    count.textContent = `${found.length} of ${runs.length} runs`;
  };
  const update = () => { go.disabled = chosen.size < 2; go.textContent = chosen.size ? `Compare ${chosen.size} chosen` : "Compare chosen"; };
  const first = await ask("/api/runs");
  runs = first.runs;
  for (const path of [...chosen]) if (!runs.some((r) => r.path === path)) chosen.delete(path);
  if (mine !== turn) return;
  draw();
  update();
  show(h("main", { id: "main", class: "wide" }, h("p", { class: "eyebrow" }, first.root), h("h1", {}, "Runs"),
    h("div", { class: "tools" },
      h("input", { type: "search", placeholder: "Search by name, command, model or figure", "aria-label": "Search runs", oninput: (e) => { state.query = e.target.value; draw(); } }),
      choice("Status", ["all", "running", "complete", "failed", "interrupted"], "all", (s) => { state.status = s === "all" ? "" : s; draw(); }), go),
    count,
    runs.length ? h("div", { class: "scroll open" }, h("table", { class: "grid runs" },
      h("thead", {}, h("tr", {}, ["", "run", "status", "started", "key figures", ""].map((t) => h("th", { scope: "col" }, t)))), body))
      : h("p", { class: "missing" }, "No runs in this folder yet. ", h("code", {}, "homeostat demo"), " makes one.")));
  const poll = async () => {
    try {
      const next = await ask("/api/runs");
      if (mine !== turn) return;
      const text = JSON.stringify(next.runs);
      if (text !== drawn) {
        drawn = text;
        if (runs.length === 0 && next.runs.length) { route(); return; }
        runs = next.runs;
        draw();
      }
    } catch { count.textContent = "The viewer has ended; what you see is its last answer."; }
    if (mine === turn) timer = setTimeout(poll, EVERY);
  };
  drawn = JSON.stringify(runs);
  timer = setTimeout(poll, EVERY);
}

function matches(run, query) {
  const text = [run.path, run.command, run.model, run.status, run.error, run.systems.join(" "), ...run.figures.map((f) => `${f.label} ${f.name} ${format(f.value, f.digits)}`)].join(" ").toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function runRow(run, update) {
  const box = h("input", { type: "checkbox", "data-path": run.path, "aria-label": `Choose ${run.path} for comparison`, onchange: (e) => {
    if (e.target.checked) chosen.add(run.path); else chosen.delete(run.path);
    update();
  } });
  box.checked = chosen.has(run.path);
  return h("tr", {}, h("td", {}, box),
    h("th", { scope: "row" }, h("a", { class: "run-name", href: link("run", run.path) }, run.path === "." ? run.title : run.path),
      h("span", { class: "sub" }, [run.command, run.model].filter((t) => t).join(" · ")),
      run.error && h("span", { class: "sub reason" }, run.error)),
    h("td", {}, h("span", { class: `state state-${run.status}` }, run.status), run.status === "running" && run.last && h("span", { class: "sub" }, run.last)),
    h("td", { class: "cell-started" }, run.started ? run.started.slice(0, 16).replace("T", " ") : "–", run.duration && h("span", { class: "sub" }, run.duration)),
    h("td", { class: "cell-figures" }, run.figures.length ? h("div", { class: "few" }, run.figures.map((f) => h("span", { title: TERMS[f.name] ? `${f.name}: ${TERMS[f.name][1]}` : null }, h("span", {}, `${f.label} `), h("b", {}, format(f.value, f.digits)))))
      : h("span", { class: "note" }, "no figures yet")),
    h("td", { class: "cell-spark" }, run.spark && spark(run.spark)));
}

function spark({ label, values, bars, top }) {
  const known = values.filter((v) => typeof v === "number");
  if (known.length < 3) return null;  // two conditions are no course
  const low = bars ? 0 : Math.min(...known);
  const high = top ?? (Math.max(...known) === low ? low + 1 : Math.max(...known));
  const x = (i) => (i * 100) / (bars ? values.length : values.length - 1);
  const y = (v) => 28 - ((v - low) / (high - low)) * 26;
  const words = `${label}: ${values.map((v) => format(v)).join(", ")}`;
  const drawing = bars
    ? values.map((v, i) => v !== null && svg("rect", { x: x(i) + 1, y: y(v), width: Math.max(1, 100 / values.length - 2), height: 29 - y(v) }))
    : svg("path", { d: `M${values.map((v, i) => [i, v]).filter(([, v]) => v !== null).map(([i, v]) => `${x(i)},${y(v)}`).join("L")}` });
  return svg("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": words }, svg("title", {}, words), drawing);
}

async function runPage(mine, path) {
  let version = "";
  const crumbs = (status) => h("div", { class: "crumbs" }, h("a", { href: "#/" }, "All runs"), h("span", {}, path), h("span", { class: `state state-${status}` }, status),
    h("a", { class: "button", href: `/report?${new URLSearchParams({ path })}`, target: "_blank", rel: "noopener" }, "Report as one file"));
  const look = async () => {
    const answer = await ask("/api/run", { path, have: version });
    if (mine !== turn) return;
    if (answer.data) {
      version = answer.version;
      const at = window.scrollY;
      for (const section of answer.data.sections) for (const block of section.blocks) if (block.kind === "samples") block.load = () => ask("/api/samples", { path });
      document.title = `${answer.data.title} · homeostat`;
      const busy = document.querySelector("dialog[open]");
      if (!busy) {
        show(crumbs(answer.data.status), h("div", { class: "frame" }, contents(answer.data.sections), h("main", { id: "main" }, drawReport(answer.data))));
        window.scrollTo(0, at);
      } else version = "";
    }
    timer = setTimeout(() => look().catch(() => {}), EVERY);
  };
  await look();
}

// The address after # belongs to the viewer, so contents scroll instead of linking.
function contents(sections) {
  const nav = drawContents(sections);
  nav.addEventListener("click", (event) => {
    const target = event.target.closest("a");
    if (!target) return;
    event.preventDefault();
    document.getElementById(target.getAttribute("href").slice(1))?.scrollIntoView();
  });
  return nav;
}

async function comparePage(mine, paths) {
  const { data } = await ask("/api/compare", { path: paths });
  if (mine !== turn) return;
  document.title = "Comparison · homeostat";
  show(h("div", { class: "crumbs" }, h("a", { href: "#/" }, "All runs"), paths.map((p) => h("a", { href: link("run", p) }, p))),
    h("div", { class: "frame" }, contents(data.sections), h("main", { id: "main" }, drawReport(data))));
}

const root = JSON.parse(document.getElementById("data").textContent).root;
replace(document.body, h("a", { class: "skip", href: "#/", onclick: (e) => { e.preventDefault(); document.getElementById("main")?.focus(); } }, "Skip to the runs"),
  bar(h("span", { class: "note" }, root)), h("div", { id: "page" }));
window.addEventListener("hashchange", route);
route();
