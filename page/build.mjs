// Builds what is in TypeScript: `node build.mjs OUT` writes the scripts to the folder OUT.

import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const out = resolve(process.argv[2]);
await build({
  absWorkingDir: dirname(fileURLToPath(import.meta.url)),
  entryPoints: ["test/fingerprints.ts"],
  bundle: true,
  platform: "node",
  format: "esm",
  outdir: out,
  outExtension: { ".js": ".mjs" },
  logLevel: "warning",
});
