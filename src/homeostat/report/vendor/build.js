// Writes ../assets/vendor.js and ../assets/vendor-licences.txt: `npm ci && npm run build` in this folder.
import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const result = await build({
  entryPoints: ["entry.js"], bundle: true, minify: true, format: "iife", globalName: "vendor",
  target: "es2022", charset: "ascii", legalComments: "none", metafile: true, write: false,
});

const folderOf = (file) => file.match(/^node_modules\/(?:@[^/]+\/)?[^/]+/)[0];
const folders = [...new Set(Object.keys(result.metafile.inputs).filter((f) => f.startsWith("node_modules/")).map(folderOf))].sort();
const packages = folders.map((folder) => ({ folder, ...JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) }));
const licence = ({ folder }) => {
  const file = readdirSync(folder).find((name) => /^(licen[cs]e|copying)/i.test(name));
  if (!file) throw new Error(`${folder} has no licence file`);
  return readFileSync(join(folder, file), "utf8").trim();
};
const notices = new Map();  // licence text -> the packages under it, with their copyright lines
for (const p of packages) {
  const [copyright, text] = [/^copyright.*/i, /^(?!copyright)/i].map((kind) => licence(p).split("\n").map((l) => l.trim()).filter((l) => kind.test(l)).join("\n"));
  notices.set(text, [...(notices.get(text) ?? []), `${p.name} ${p.version}: ${copyright.replaceAll("\n", "; ")}`]);
}
const told = [...notices].map(([text, names]) => `${names.join("\n")}\n\n${text.trim()}\n`).join(`\n${"-".repeat(70)}\n\n`);
const assets = join(dirname(process.argv[1]), "..", "assets");
if (!existsSync(assets)) throw new Error(`no folder ${assets}`);
writeFileSync(join(assets, "vendor-licences.txt"), told);
// The notices travel with the code, also inside a report that is sent to somebody.
writeFileSync(join(assets, "vendor.js"), `/* Bundled by ../vendor/build.js from npm packages under these licences:\n\n${told.replaceAll("*/", "* /")}*/\n${result.outputFiles[0].text}`);
