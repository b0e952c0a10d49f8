// Three texts side by side along the middle one. jsdiff matches lines and words; no component aligns three columns.

const DIFF_LIMIT = 1500;  // edits; beyond this the rest counts as replaced

// Matched index pairs [i, j], increasing in both.
function matchLines(a, b) {
  const pairs = [];
  let i = 0;
  let j = 0;
  for (const part of vendor.diffArrays(a, b, { maxEditLength: DIFF_LIMIT }) ?? []) {
    if (!part.added && !part.removed) for (let k = 0; k < part.count; k += 1) pairs.push([i + k, j + k]);
    if (!part.added) i += part.count;
    if (!part.removed) j += part.count;
  }
  return pairs;
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

// The words of a text, those that `other` does not have marked.
function markedWords(text, other) {
  const found = vendor.diffWordsWithSpace(other, text, { maxEditLength: DIFF_LIMIT }) ?? [{ value: text }];
  return found.filter((part) => !part.removed).map((part) => (part.added ? h("mark", {}, part.value) : part.value));
}

function drawLine(text, other, mark) {
  if (text === null) return h("div", { class: "ln gap" }, " ");
  const sign = { same: " ", gone: "−", come: "+", off: "≠" }[mark];
  const compared = mark !== "same" && other !== null && other !== undefined && text.length < 2000;
  return h("div", { class: `ln ${mark}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign), h("span", {}, compared ? markedWords(text, other) : text || " "));
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
