#!/usr/bin/env bash
# Builds dist/*.whl for any Linux with the glibc of 2018 or newer, whatever this machine has: zig brings what to link with. The
# module is compiled twice, the second time for what the first one was seen to do most. The emulator's program goes where pip
# installs programs.
#
# usage: tools/wheel.sh    called by `make wheel`, which has the packages that it takes
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
glibc=2.28
rust_host=$(rustc -vV | sed -n 's/^host: //p')
work=$PWD/build/wheel
# What maturin takes for the files of the wheel that are in no package.
data=$PWD/catnip._core.data
trap 'rm -rf "$data"' EXIT

main() {
  rm -rf "$work" "$data" dist
  mkdir -p "$work"
  local flags=
  if merge_profiles; then flags="-Cprofile-use=$work/all.profdata"; fi

  cargo-zigbuild zigbuild --quiet --release -p catnip-emu --target "$rust_host.$glibc" --config 'profile.release.strip=true'
  install -D -m 755 "${CARGO_TARGET_DIR:-target}/$rust_host/release/catnip-emu" "$data/scripts/catnip-emu"
  RUSTFLAGS=$flags module --zig --compatibility "manylinux_${glibc/./_}" --out dist
  auditwheel show dist/*.whl
}

# The least that a wheel takes beside this: the module, without symbols.
module() { maturin build --quiet --release --strip --target "$rust_host" "$@"; }

# What the hot paths did in the training; fails if there is no program to read it with.
merge_profiles() {
  local tool
  tool=$(rustc --print target-libdir)/../bin/llvm-profdata
  if [[ ! -x $tool ]]; then
    echo "wheel::profile: llvm-tools is not installed" >>"${CATNIP_SKIPPED:-/dev/null}"
    return 1
  fi
  # Not with zig, which does not take what the profile's run-time library asks of a linker.
  RUSTFLAGS=-Cprofile-generate=$work/profiles module --auditwheel skip --out "$work"
  pip install --quiet --no-deps --target "$work/instrumented" "$work"/*.whl
  train
  "$tool" merge --output "$work/all.profdata" "$work/profiles"
}

# Every kind of traffic, queue and sender that the papers know, for some seconds.
train() {
  run catnip-e4 --seeds 2
  run catnip-e6 --seeds 1
  run hysteresis --seeds 10
  run diffserv-small --variant "TCP-DS / rate=12Mbit" --variant "FQ-CoDel / rate=12Mbit" --seeds 1
  run newcwv --seeds 1
  run recorded-page --seeds 1
}

run() { PYTHONPATH=$work/instrumented python -m catnip run "$@" --threads 1 >/dev/null; }

main
