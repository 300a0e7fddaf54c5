// Prints the fingerprints of scenarios as the engine computes them, in the form of crates/lab/tests/fingerprints.txt.
//
// usage: node fingerprints.mjs MODULE.wasm FOLDER STEP SCENARIO…
//
// Scenarios, and all files that they name, are below FOLDER. Of each, every STEPth variant is run, beginning with the first.

import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { Engine, type Files } from "../src/engine";

// As crates/lab/tests/brief/mod.rs: large networks run for their first seconds.
const LARGE_PAIRS = 200;
const FIRST_S = 2;
const NOT_DATA = /\.(py|pyi|so|html|j2|js|css|svg|md)$/;

const [module, folder, step, ...scenarios] = process.argv.slice(2);
const engine = new Engine(new WebAssembly.Module(readFileSync(module!)));
const data = below(folder!).filter((path) => !NOT_DATA.test(path));
for (const path of scenarios) {
  const files: Files = {};
  for (const file of data) {
    files[relative(dirname(path), file)] = readFileSync(file);
  }
  const outline = engine.open(0, path, readFileSync(path, "utf8"), files);
  outline.variants.forEach((variant, at) => {
    if (at % Number(step) !== 0) {
      return;
    }
    const until_s = outline.pairs[at]! > LARGE_PAIRS ? FIRST_S : null;
    const { head } = engine.ask({ ask: "fingerprint", slot: 0, variant, seed: 1, until_s });
    console.log(`${head["fingerprint"]} ${basename(path)} ${variant}`);
  });
}

function below(path: string): string[] {
  const entries = readdirSync(path, { withFileTypes: true });
  return entries.flatMap((entry) => {
    const name = join(path, entry.name);
    return entry.isDirectory() ? below(name) : [name];
  });
}
