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
  if tools/profile.sh module "$work/module.profdata"; then
    flags="-Cprofile-use=$work/module.profdata"
  elif [[ $? != 3 ]]; then
    exit 1
  else
    echo "wheel::profile: llvm-tools is not installed" >>"${CATNIP_SKIPPED:-/dev/null}"
  fi

  tools/page.sh
  [[ -e python/catnip/explorer.html ]] || echo "wheel::explorer: no Node" >>"${CATNIP_SKIPPED:-/dev/null}"

  cargo-zigbuild zigbuild --quiet --release -p catnip-emu --target "$rust_host.$glibc" --config 'profile.release.strip=true'
  install -D -m 755 "${CARGO_TARGET_DIR:-target}/$rust_host/release/catnip-emu" "$data/scripts/catnip-emu"
  # Without symbols; zig does not take what the counters' run-time library asks of a linker, so the profile is made without it.
  RUSTFLAGS=$flags maturin build --quiet --release --strip --target "$rust_host" \
    --zig --compatibility "manylinux_${glibc/./_}" --out dist
  auditwheel show dist/*.whl
}

main
