// One function a kind of block.

const KINDS = {
  prose: (b) => h("p", { class: "prose" }, b.text),
  missing: (b) => h("p", { class: "missing" }, h("b", {}, "Not in this run: "), b.what, b.how && [" ", h("code", {}, b.how)]),
  figures: drawFigures,
  facts: (b) => h("dl", { class: "facts" }, b.items.map(([name, value]) => [h("dt", { title: name }, TERMS[name] ? term(name) : name.replaceAll("_", " ").replaceAll(/(?<=\w)\.(?=\w)/g, " · ")), h("dd", {}, format(key(value)), interval(value, null))])),
  table: drawTable,
  chart: drawChart,
  heatmap: drawHeatmap,
  dots: drawDots,
  shares: drawShares,
  text: drawText,
  images: drawImages,
  answers: drawAnswers,
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
    h("span", { class: "label" }, term(f.name ?? f.label, f.label)),
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

// One question: the clean answer, the damaged one and the repaired ones beside each other, words that changed marked.
function drawAnswers(block) {
  const clean = block.states[0].text;
  return h("figure", { class: "answers", id: block.id }, h("figcaption", {}, h("h3", {}, block.question), block.note && h("p", { class: "note" }, block.note)),
    h("ol", { class: "states" }, block.states.map((state) => h("li", { class: `answer answer-${state.role}` },
      h("h4", {}, term(state.name, state.label)),
      h("p", { class: "said" }, state.text ? (state.role === "clean" ? state.text : markedWords(state.text, clean)) : h("i", {}, "(no words)")),
      h("p", { class: "note" }, state.role === "clean" ? "the reference" : state.text === clean ? "the same words as from the clean cache" : "changed words are marked"),
      h("p", { class: "cost" }, term("perplexity", "perplexity"), " ", h("b", {}, format(state.perplexity)))))));
}
