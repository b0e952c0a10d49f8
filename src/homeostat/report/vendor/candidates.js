// What each candidate would add to a page, in bytes: `npm run candidates` in this folder. Installs them into a temporary folder.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const CANDIDATES = {
  "Observable Plot, what we use": ["@observablehq/plot@0.6.17", 'export { areaY, axisX, axisY, cell, dot, gridX, gridY, line, plot, rectY, ruleX, ruleY, text } from "@observablehq/plot"'],
  "Vega-Lite, with the interpreter that a strict policy needs": ["vega@6.4.0 vega-lite@6.4.3 vega-interpreter@2.3.2", 'export * as vega from "vega"; export { compile } from "vega-lite"; export { expressionInterpreter } from "vega-interpreter"'],
  "jsdiff, what we use": ["diff@9.0.0", 'export { diffArrays, diffWordsWithSpace } from "diff"'],
  diff2html: ["diff2html@3.4.56", 'export { html } from "diff2html"'],
  "Grid.js": ["gridjs@6.2.0", 'export { Grid } from "gridjs"'],
  "TanStack Table": ["@tanstack/table-core@9.3.1", 'export * from "@tanstack/table-core"'],
  "Tabulator, sorting and filtering only": ["tabulator-tables@6.5.3", 'export { FilterModule, FormatModule, ResponsiveLayoutModule, SortModule, Tabulator } from "tabulator-tables"'],
};

const folder = mkdtempSync(join(tmpdir(), "candidates-"));
writeFileSync(join(folder, "package.json"), "{}");
const wanted = Object.values(CANDIDATES).flatMap(([packages]) => packages.split(" "));
execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund", ...wanted], { cwd: folder, stdio: ["ignore", "inherit", "ignore"] });
for (const [name, [, contents]] of Object.entries(CANDIDATES)) {
  const { outputFiles } = await build({ stdin: { contents, resolveDir: folder }, bundle: true, minify: true, format: "iife", target: "es2022", write: false });
  const text = outputFiles[0].text;
  console.log(`${String(text.length).padStart(8)} bytes ${String(gzipSync(text, { level: 9 }).length).padStart(7)} gzipped  ${name}`);
}
