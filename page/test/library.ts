// Opens every scenario of a built page with the page's own engine and files; prints its name and its number of variants.
//
// usage: node library.mjs explorer.html

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { Engine, type Files } from "../src/engine";
import { bundledOf, type Stored } from "../src/stored";

const page = readFileSync(process.argv[2]!, "utf8");
const engine = new Engine(new WebAssembly.Module(unpacked("module")));
for (const { name, path, text, files } of bundledOf(JSON.parse(unpacked("scenarios").toString()) as Stored)) {
  const outline = engine.open(0, path, text, files satisfies Files);
  console.log(`${name} ${outline.variants.length}`);
}

function unpacked(id: string): Buffer<ArrayBuffer> {
  const [, packed] = new RegExp(`id="${id}">([^<]*)<`).exec(page)!;
  return Buffer.from(gunzipSync(Buffer.from(packed!, "base64")));
}
