#!/usr/bin/env bash
# Steps the simulated Linux and a kernel of Debian's by the scripts of crates/drill, in a guest of tools/guest.sh whose time is
# virtual: on a busy machine, too, no packet is late. Fails if a script does not agree with both.
#
# usage: tools/drill_vm.sh PROGRAM [SCRIPT...], such as target/debug/catnip-drill; with suite and release in the environment, another
# kernel
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${suite:-sid} release=${release:-}
# Seconds for a boot and the scripts, which take a minute and a half.
limit=900
. tools/guest.sh

main() {
  local program=$1 scripts=("${@:2}")
  ((${#scripts[@]})) || scripts=(crates/drill/scripts/*.pkt crates/drill/scripts/random/*.pkt)
  prepare
  seal "$(realpath "$program")"
  modules "$sealed" tun >"$sealed/sealed.modules"
  mkdir "$sealed/scripts"
  cp "${scripts[@]}" "$sealed/scripts/"
  sealed_guest $limit "cd /scripts; $(realpath "$program") run * >/sealed.results/told; true"
  cat "$results/told"
  echo "$(grep -c 'kernel: agrees$' "$results/told") of ${#scripts[@]} agree with Linux $version"
  ! grep -qv ': agrees$' "$results/told"
}

main "$@"
