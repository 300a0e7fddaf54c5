#!/usr/bin/env bash
# Runs layers of tests, all of each even if some fail, and tells at the end what could not run on this machine and why.
#
#   unit         arithmetic: no root, no network, no compiler but Rust's
#   integration  files, command lines, loopback, other compilers
#   system       root, namespaces, devices, servers, browsers, the kernel; what measures time runs alone
#   papers       whole scenarios, short runs of papers, tutorials, the gate on speed
#
# usage: tools/test.sh LAYER…
#
# A test is in the layer that its place names: test programs of crates are called tests/unit, tests/integration and so on, tests
# of Python are in tests/unit and so on. build/durations/ keeps how long each took (`make slowest`).
set -uo pipefail
cd "$(dirname "$0")/.."
export CATNIP_SKIPPED=$PWD/build/skipped.txt
bin=.venv/bin
# catnip-py is no library of Rust.
workspace=(--workspace --exclude catnip-py)

main() {
  local layer layers=$* failed=() computing=
  for layer; do
    [[ $layer =~ ^(unit|integration|system|papers)$ ]] || refuse "$layer"
  done
  (($#)) || refuse "no layer"
  mkdir -p build
  rm -f "$CATNIP_SKIPPED"
  for layer; do
    tools/need.sh "test-$layer" || exit
  done
  has_clang || workspace+=(--exclude catnip-agent)
  # Compiled at once, so that all cores have something to do all the time.
  (($# == 1)) || cargo test --no-run --quiet "${workspace[@]}" || exit
  for layer; do
    echo "== $layer"
    SECONDS=0
    tools/leftovers.py >build/before.txt
    "$layer" || failed+=("$layer")
    tools/leftovers.py build/before.txt || failed+=("$layer leaves something behind")
    echo "== $layer: $SECONDS s"
  done
  for layer in "${failed[@]}"; do echo "failed: $layer"; done
  tools/skipped.sh && ((${#failed[@]} == 0))
}

refuse() {
  echo "tools/test.sh: $1: expected unit, integration, system or papers" >&2
  exit 2
}

# Each runs all of its parts, and fails if one of them does.
unit() { all "rust unit --lib" "documented" "python unit"; }

integration() { all "rust integration" "python integration"; }

# First what mostly waits, and what the gate counts beside it: to link that takes a core for a minute. Then what measures time, and
# what only computes beside it, in the time that nothing else wants.
system() {
  local result=0
  ready_for_python system || result=1
  rust system --only together &
  local waiting=$!
  [[ " $layers " != *" papers "* ]] || { nice cargo build --quiet --release -p catnip-lab --example bench; nice tools/page.sh; } &
  pytest system -m "not alone" -n $((2 * $(nproc))) --dist loadfile || result=1
  wait $waiting || result=1
  wait
  [[ " $layers " != *" papers "* ]] || { when_idle computing >build/computing.txt 2>&1 & computing=$!; }
  all "rust system --only alone" "pytest system -m alone" || result=1
  return $result
}

papers() {
  local result=0
  tools/page.sh
  python papers || result=1
  if [[ $computing ]]; then
    wait "$computing" || result=1
    cat build/computing.txt
  else
    computing || result=1
  fi
  return $result
}

computing() { all "rust papers" "${PYTHON:-python3} benches/gate.py"; }

# when_idle PART: runs when no other process wants a core.
when_idle() {
  chrt --idle --pid 0 $BASHPID
  "$@"
}

all() {
  local part result=0
  for part; do $part || result=1; done
  return $result
}

has_clang() { command -v clang >/dev/null && pkg-config --exists libelf zlib; }

# rust LAYER [OPTIONS]: the test programs whose names begin so.
rust() { tools/rust_tests.py --layer "$1" "${workspace[@]}" "${@:2}" --test "$1*"; }

documented() { cargo test --quiet --doc "${workspace[@]}"; }

# python LAYER: as many side by side as there are cores.
python() { ready_for_python "$1" && pytest "$1" -n "$(nproc)" --dist worksteal; }

# pytest LAYER OPTIONS…
pytest() { [[ ! -e .venv/packages-dev ]] || $bin/pytest "tests/$1" "${@:2}"; }

# What is missing for tests in Python has been told and counted.
ready_for_python() {
  [[ -x .venv/bin/maturin ]] || return 0
  make --no-print-directory module PACKAGES=dev || return
  [[ $1 == unit ]] || make --no-print-directory programs
}

main "$@"
