// Charts from Observable Plot, comparison of texts from jsdiff: what the pages call, and nothing else.
export { areaY, axisX, axisY, cell, dot, gridX, gridY, line, plot, rectY, ruleX, ruleY, text } from "@observablehq/plot";
export { diffArrays, diffWordsWithSpace } from "diff";
export { ticks } from "d3";
