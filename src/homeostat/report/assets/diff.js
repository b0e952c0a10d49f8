// Lines of two texts matched by Myers' algorithm, and three texts set side by side along the middle one.

const DIFF_LIMIT = 1500;  // edits; beyond this the rest counts as replaced

// Matched index pairs [i, j], increasing in both.
function matchLines(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA -= 1; endB -= 1; }
  const pairs = [];
  for (let i = 0; i < start; i += 1) pairs.push([i, i]);
  for (const [i, j] of myers(a.slice(start, endA), b.slice(start, endB))) pairs.push([i + start, j + start]);
  for (let i = endA; i < a.length; i += 1) pairs.push([i, endB + i - endA]);
  return pairs;
}

function myers(a, b) {
  if (!a.length || !b.length) return [];
  const most = Math.min(a.length + b.length, DIFF_LIMIT);
  let v = new Map([[1, 0]]);
  const trace = [];
  for (let d = 0; d <= most; d += 1) {
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? v.get(k + 1) ?? 0 : (v.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) { x += 1; y += 1; }
      v.set(k, x);
      if (x >= a.length && y >= b.length) return walkBack(trace, a, b, d);
    }
  }
  return [];
}

function walkBack(trace, a, b, found) {
  const pairs = [];
  let x = a.length;
  let y = b.length;
  for (let d = found; d >= 0 && (x > 0 || y > 0); d -= 1) {
    const v = trace[d];
    const k = x - y;
    const before = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? k + 1 : k - 1;
    const px = d === 0 ? 0 : v.get(before) ?? 0;
    const py = d === 0 ? 0 : px - before;
    while (x > px && y > py && x > 0 && y > 0 && a[x - 1] === b[y - 1]) { x -= 1; y -= 1; pairs.push([x, y]); }
    x = px;
    y = py;
  }
  return pairs.reverse();
}

// Rows [left, middle, right] of line numbers or null. Equal lines share a row; lines that were replaced stand
// beside what replaced them; gaps take the rest.
function alignThree(left, middle, right) {
  const toLeft = new Map(matchLines(middle, left));
  const toRight = new Map(matchLines(middle, right));
  const due = [nextMatches(toLeft, middle.length, left.length), nextMatches(toRight, middle.length, right.length)];
  const rows = [];
  let l = 0;
  let r = 0;
  const drain = (lEnd, rEnd) => {
    while (l < lEnd || r < rEnd) rows.push([l < lEnd ? l++ : null, null, r < rEnd ? r++ : null]);
  };
  for (let m = 0; m < middle.length; m += 1) {
    drain(toLeft.get(m) ?? l, toRight.get(m) ?? r);
    const lHere = toLeft.has(m) || l < due[0][m] ? l++ : null;
    const rHere = toRight.has(m) || r < due[1][m] ? r++ : null;
    rows.push([lHere, m, rHere]);
  }
  drain(left.length, right.length);
  return { rows, toLeft, toRight };
}

// For each middle line, where the next one that has a match finds it: lines before that are free to be placed.
function nextMatches(matches, count, end) {
  const due = new Array(count);
  for (let m = count - 1, next = end; m >= 0; m -= 1) {
    if (matches.has(m)) next = matches.get(m);
    due[m] = next;
  }
  return due;
}

// The part of a line that changed, between its common beginning and end.
function changedPart(line, other) {
  let start = 0;
  const most = Math.min(line.length, other.length);
  while (start < most && line[start] === other[start]) start += 1;
  let end = 0;
  while (end < most - start && line[line.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  return [start, line.length - end];
}

function drawLine(text, other, mark) {
  if (text === null) return h("div", { class: "ln gap" }, " ");
  const sign = { same: " ", gone: "−", come: "+", off: "≠" }[mark];
  let body = [text || " "];
  if (mark !== "same" && other !== null && other !== undefined && text.length < 2000) {
    const [from, to] = changedPart(text, other);
    if (from > 0 || to < text.length) body = [text.slice(0, from), h("mark", {}, text.slice(from, to)), text.slice(to)];
  }
  return h("div", { class: `ln ${mark}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign), h("span", {}, body));
}

function drawThree(titles, texts) {
  const lines = texts.map((t) => (t === null ? [] : t.split("\n")));
  const { rows, toLeft, toRight } = alignThree(...lines);
  const matchedLeft = new Set(toLeft.values());
  const matchedRight = new Set(toRight.values());
  const at = (side, i) => (i === null ? null : lines[side][i]);
  const panes = [[], [], []];
  for (const [l, m, r] of rows) {
    panes[0].push(drawLine(at(0, l), at(1, m), l === null || matchedLeft.has(l) ? "same" : "gone"));
    const middle = m === null || (toRight.has(m) && toLeft.has(m)) ? "same" : toRight.has(m) ? "come" : texts[2] === null ? (toLeft.has(m) ? "same" : "come") : "off";
    panes[1].push(drawLine(at(1, m), middle === "come" ? at(0, l) : at(2, r), middle));
    panes[2].push(drawLine(at(2, r), at(1, m), r === null || matchedRight.has(r) ? "same" : "off"));
  }
  return h("div", { class: "three" }, titles.map((title, i) => h("section", { class: "pane", "aria-label": title },
    h("h4", {}, title),
    texts[i] === null ? h("p", { class: "missing" }, "not recorded") : h("div", { class: "code", tabindex: "0" }, h("div", { class: "codelines" }, panes[i])))));
}
