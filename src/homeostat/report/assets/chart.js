// A chart: panels side by side, what is shown in them, and the numbers behind them. Values by pointer, touch and arrow
// keys; series and variants are switched off and on in the legend, for all panels at once.

const DASHES = ["", "6 4", "2 3", "9 3 2 3", "1 4"];

function drawChart(block) {
  const names = [...new Set(block.panels.flatMap((p) => p.series.map((s) => s.name)))];
  const variants = [...new Set(block.panels.flatMap((p) => p.series.map((s) => s.variant)))].filter((v) => v !== null);
  const groups = [...new Set(block.panels.map((p) => p.group))].filter((g) => g !== null);
  const state = { off: new Set(block.off), offVariant: new Set(), group: groups[0] ?? null, log: block.y.scale === "log" ? true : null };
  const numbers = colours(names, block.looks);
  const look = (s) => ({ number: numbers.get(s.name), dash: DASHES[Math.max(0, variants.indexOf(s.variant)) % DASHES.length] });
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
    grid.classList.toggle("one", panels.filter((p) => p.group === null || p.group === state.group).length === 1);
  };
  const figure = h("figure", { class: "chart", id: block.id }, caption(block),
    h("div", { class: "controls" }, groups.length > 1 && choice("Show", groups, state.group, (g) => { state.group = g; redraw(); }), scale),
    names.length > 1 && legend(names, state.off, (n) => legendMark(numbers.get(n)), redraw),
    variants.length > 1 && legend(variants, state.offVariant, (v) => dashMark(DASHES[variants.indexOf(v) % DASHES.length]), redraw),
    grid, chartTable(block));
  redraw();
  return figure;
}

function caption(block) {
  return h("figcaption", {}, h("h3", {}, block.title), block.note && h("p", { class: "note" }, block.note));
}

// A number of the palette for each name: fixed ones first, the others take what is free.
function colours(names, looks) {
  const taken = new Set(names.map((name) => looks?.[name]));
  const free = [...Array(COLOURS).keys()].filter((n) => !taken.has(n));
  const others = names.filter((name) => looks?.[name] === undefined);
  return new Map(names.map((name) => [name, looks?.[name] ?? free[others.indexOf(name) % free.length] ?? 8]));
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
      type: "button", "aria-pressed": option === current ? "true" : "false", title: TERMS[option] ? `${option}: ${TERMS[option][1]}` : null,
      onclick: (event) => {
        for (const b of buttons) b.setAttribute("aria-pressed", b === event.currentTarget ? "true" : "false");
        chosen(option);
      },
    }, named(option)));
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
      type: "button", class: "key", "data-name": name, "aria-pressed": off.has(name) ? "false" : "true",
      title: `${TERMS[name] ? `${name}: ${TERMS[name][1]} ` : ""}Click to hide or show; double-click for this one only.`,
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
    }, mark(name), named(name)));
  return h("div", { class: "legend", role: "group", "aria-label": "Series" }, buttons);
}

function legendMark(number) {
  return bare(vendor.plot({ width: 16, height: 16, margin: 0, className: "keymark", ariaHidden: "true", x: { domain: [-1, 1], axis: null }, y: { domain: [-1, 1], axis: null },
    marks: [vendor.dot([[0, 0]], { r: 5, fill: colour(number), ...SYMBOLS[number % COLOURS] })] }));
}

function dashMark(dash) {
  return svg("svg", { viewBox: "0 0 30 12", width: 30, height: 12, "aria-hidden": "true" },
    svg("path", { d: "M1,6H29", class: "plain", "stroke-dasharray": dash || null }));
}

function makePanel(block, panel, look, shown) {
  const tip = h("div", { class: "tip", hidden: true });
  const canvas = h("div", { class: "canvas" }, tip);
  const title = block.panels.length > 1 || panel.title !== block.title ? h("h4", { "data-group": panel.group && named(panel.group), title: TERMS[panel.title] && `${panel.title}: ${TERMS[panel.title][1]}` }, named(panel.title)) : null;
  const element = h("div", { class: "panel" }, title, canvas);
  let width = 0;
  let drawing = null;
  let log = false;
  const draw = (now) => {
    log = now;
    width = Math.round(canvas.clientWidth) || 380;
    const held = drawing && document.activeElement === drawing.root;
    tip.hidden = true;
    drawing = drawPanel(block, panel, look, shown, log, width, tip);
    canvas.replaceChildren(drawing.root, tip);
    if (held) drawing.root.focus();
  };
  new ResizeObserver(() => { if (canvas.clientWidth > 0 && Math.abs(canvas.clientWidth - width) > 6) draw(log); }).observe(canvas);
  return { element, draw, group: panel.group };
}
