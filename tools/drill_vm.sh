#!/usr/bin/env bash
# Steps the simulated Linux and a kernel of Debian's by the scripts of crates/drill, in a guest of tools/guest.sh whose time is
# virtual: on a busy machine, too, no packet is late. Fails if a script does not agree with both.
#
# usage: tools/drill_vm.sh PROGRAM [SCRIPT...], such as target/debug/catnip-drill; with suite and release in the environment, another
# kernel; tools/drill_vm.sh PROGRAM random [OPTION...] draws scripts, as catnip-drill random does
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${suite:-sid} release=${release:-}
# Seconds for a boot and the scripts, which take a minute and a half.
limit=900 random_limit=7200
. tools/guest.sh

main() {
  local program=$1 scripts=("${@:2}")
  if [[ ${scripts[0]:-} == random ]]; then
    at_random "$(realpath "$program")" "${scripts[@]:1}"
    return
  fi
  ((${#scripts[@]})) || scripts=(crates/drill/scripts/*.pkt crates/drill/scripts/random/*.pkt)
  begin "$(realpath "$program")"
  mkdir "$sealed/scripts"
  cp "${scripts[@]}" "$sealed/scripts/"
  sealed_guest $limit "cd /scripts; $(realpath "$program") run * >/sealed.results/told; true"
  cat "$results/told"
  echo "$(grep -c 'kernel: agrees$' "$results/told") of ${#scripts[@]} agree with Linux $version"
  ! grep -qv ': agrees$' "$results/told"
}

# at_random PROGRAM OPTION…: one script after the other, since time passes for one only.
at_random() {
  local status
  begin "$1"
  sealed_guest $random_limit "$(printf '%q ' "$1" random --jobs 1 --alone 1 "${@:2}") >/sealed.results/told 2>&1; echo \$? >/sealed.results/ended; true"
  cat "$results/told"
  echo "beside Linux $version"
  status=$(cat "$results/ended")
  return "$status"
}

begin() {
  prepare
  seal "$1"
  modules "$sealed" tun >"$sealed/sealed.modules"
}

main "$@"
