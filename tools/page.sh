#!/usr/bin/env bash
# Builds what a page in a browser is made of: the engine as a WebAssembly module, and the scripts in TypeScript, in build/page. The
# package has copies of the page and of the script that checks reports. Without Node or without Rust's target it says so and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=wasm32-unknown-unknown

main() {
  local without
  for without in node npm; do
    command -v $without >/dev/null || skip "no $without"
  done
  [[ -d $(rustc --print target-libdir --target $target) ]] || skip "Rust has no target $target"
  mkdir -p build/page
  cargo build --quiet --locked --profile page --target $target -p catnip-page
  cp target/$target/page/catnip_page.wasm build/page/
  [[ page/node_modules/.package-lock.json -nt page/package-lock.json ]] || npm ci --prefix page --silent
  node page/build.mjs build/page
  cp build/page/explorer.html build/page/check.js python/catnip/
}

skip() {
  echo "the page with the simulator is not built: $1"
  exit 0
}

main
