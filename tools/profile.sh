#!/usr/bin/env bash
# Writes a profile for the compiler, of what the hot paths of a program do most: the program is built with counters, runs the scenarios
# below, which no benchmark measures, and its counts are merged. Compile with RUSTFLAGS=-Cprofile-use=OUT what was trained.
#
# usage: tools/profile.sh module|bench OUT    the Python module, or the example that benches/run.py measures
#
# Exit code 3 if there is no program to merge the counts with.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
what=$1
out=$2
work=$PWD/build/profile-$what
scenarios=$PWD/python/catnip/papers

main() {
  local tool
  tool=$(rustc --print target-libdir)/../bin/llvm-profdata
  if [[ ! -x $tool ]]; then
    echo "profile.sh: llvm-tools is not installed (rustup component add llvm-tools)" >&2
    exit 3
  fi
  rm -rf "$work"
  mkdir -p "$work" "$(dirname "$out")"
  RUSTFLAGS=-Cprofile-generate=$work/counts "build_$what"
  "train_$what" >/dev/null
  "$tool" merge --output "$out" "$work/counts"
}

build_module() {
  # For the target as such, as the wheel is built: it is part of the names of functions.
  maturin build --quiet --release --strip --auditwheel skip --out "$work" \
    --target "$(rustc -vV | sed -n 's/^host: //p')"
  pip install --quiet --no-deps --target "$work/installed" "$work"/*.whl
}

# Every kind of traffic, queue and sender that users and the papers have, for some seconds.
train_module() {
  run tools/training.toml
  run catnip-e6 --seeds 1
  run hysteresis --seeds 10
  run newcwv --seeds 1
  run recorded-page --seeds 1
}

run() { PYTHONPATH=$work/installed python -m catnip run "$@" --threads 1; }

build_bench() {
  cargo build --quiet --release -p catnip-lab --example bench --target-dir "$work/target"
}

train_bench() {
  local variant
  sed -n 's/^name = "\(.*\)"/\1/p' tools/training.toml | while read -r variant; do
    measure tools/training.toml "$variant"
  done
  measure "$scenarios/catnip/scenarios/catnip-e6.toml" "$(first_variant "$scenarios/catnip/scenarios/catnip-e6.toml")"
  measure "$scenarios/newcwv/scenarios/newcwv.toml" "$(first_variant "$scenarios/newcwv/scenarios/newcwv.toml")"
}

measure() { "$work/target/release/examples/bench" "$1" "$2" 2; }

first_variant() { sed -n '/^\[\[variant\]\]/,$ s/^name = "\(.*\)"/\1/p' "$1" | head -n 1; }

main
