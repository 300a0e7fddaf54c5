// Builds what is in TypeScript: `node build.mjs OUT` reads OUT/catnip_page.wasm and writes the page and the scripts of tests to OUT.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const data = resolve(here, "../python/catnip");
const out = resolve(process.argv[2]);

await build({
  absWorkingDir: here,
  entryPoints: ["test/fingerprints.ts", "test/library.ts", "test/trap.ts"],
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: out,
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});

const parts = {
  STYLE: text("node_modules/uplot/dist/uPlot.min.css") + text("src/page.css"),
  WORKER: await bundled("src/worker.ts"),
  MAIN: await bundled("src/main.ts"),
  MODULE: packed(readFileSync(join(out, "catnip_page.wasm"))),
  SCHEMA: packed(readFileSync(join(data, "scenario.schema.json"))),
  SCENARIOS: packed(Buffer.from(JSON.stringify(scenarios()))),
};
writeFileSync(join(out, "check.js"), await bundled("src/check.ts"));
writeFileSync(join(out, "explorer.html"), text("index.html").replace(/@([A-Z]+)@/g, (_, name) => parts[name]));

function text(path) {
  return readFileSync(join(here, path), "utf8");
}

async function bundled(entry) {
  const made = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    write: false,
    logLevel: "warning",
  });
  // No text of a script may end its element.
  return made.outputFiles[0].text.replaceAll("</script", "<\\/script");
}

function packed(bytes) {
  return gzipSync(bytes, { level: 9 }).toString("base64");
}

/** Returns all scenarios of the package with the files that they name. */
function scenarios() {
  const papers = readdirSync(join(data, "papers")).map((paper) => join(data, "papers", paper, "scenarios"));
  const folders = [join(data, "scenarios"), ...papers].filter(existsSync);
  const files = folders.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
  const texts = {}, binary = {}, listed = [];
  const store = (path) => {
    const name = relative(data, path), bytes = readFileSync(path);
    if (Buffer.from(bytes.toString("utf8")).equals(bytes)) texts[name] = bytes.toString("utf8");
    else binary[name] = bytes.toString("base64");
    return name;
  };
  for (const path of files.filter((name) => name.endsWith(".toml"))) {
    const named = {};
    follow(path, dirname(path), named, store);
    listed.push({ path: store(path), files: named });
  }
  return { texts, binary, scenarios: listed };
}

/** Adds the files that a text names in quotes, and those that they name. */
function follow(path, from, named, store) {
  const texts = readFileSync(path, "utf8").matchAll(/["':=,]([\w./*-]+\.[\w]{2,5})\b/g);
  for (const [, name] of texts) {
    const beside = dirname(path);
    for (const found of matching(beside, name)) {
      const key = relative(from, found);
      if (key in named || found === path) continue;
      named[key] = store(found);
      if (found.endsWith(".toml")) follow(found, from, named, store);
    }
  }
}

/** Returns the files that have a name like `pattern`, in which one `*` may stand for a part of a name. */
function matching(folder, pattern) {
  const path = join(folder, pattern);
  if (!pattern.includes("*")) return existsSync(path) ? [path] : [];
  const [before, after] = path.split("*"), parent = dirname(before + "x");
  if (!existsSync(parent)) return [];
  return readdirSync(parent).map((name) => join(parent, name)).filter((name) => name.startsWith(before) && name.endsWith(after));
}
