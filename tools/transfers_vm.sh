#!/usr/bin/env bash
# Measures TCP transfers behind emulated links in a kernel of Debian's, in a guest of tools/guest.sh whose time is virtual: on a
# busy machine, too, it measures the same. `catnip reproduce linux-tcp --kernel virtual` uses it.
#
# usage: tools/transfers_vm.sh prepare                           gets the kernel once, and prints its release
#        tools/transfers_vm.sh FOLDER EMULATOR PROGRAM SENDER    measures FOLDER/jobs.json with behind_link.py (PROGRAM), which
#                                                                writes FOLDER/NUMBER.json for each
# with suite and release in the environment, another kernel of Debian's
set -euo pipefail
cd "$(dirname "$0")/.."
# The program itself, not what looks for it.
python=$("${PYTHON:-python3}" -ISc 'import os, sys; print(os.path.realpath(sys.executable))')
suite=${suite:-sid} release=${release:-}
# Seconds for a boot and its transfers, which take some minutes of a core; a busy machine may give them a tenth of one.
limit=36000
[[ $1 == prepare ]] || boot_folder=$1/boot # of its own, so that guests can run side by side
. tools/guest.sh

main() {
  if [[ $1 == prepare ]]; then
    prepare
    echo "$version"
    return
  fi
  local folder=$1 emulator=$2 program=$3 sender=$4 used
  prepare
  mapfile -t used < <("$python" -ISBc 'import runpy, sys
for script in sys.argv[1:]: runpy.run_path(script)
print(*{it.__file__ for it in sys.modules.values() if getattr(it, "__file__", None)}, sep="\n")' "$program" "$sender")
  seal "$python" "$(realpath "$emulator")" "$(command -v ip)" "${used[@]}"
  cp "$program" "$sender" "$folder/jobs.json" "$sealed/"
  "$python" -m compileall -q -s "$sealed" -p / --invalidation-mode unchecked-hash "$sealed"
  modules "$sealed" tun tcp_bbr >"$sealed/sealed.modules"
  sealed_guest $limit "$(printf '%q ' "$python" -ISB "/${program##*/}" "$(realpath "$emulator")") /jobs.json /sealed.results"
  cp "$results"/*.json "$folder/"
}

main "$@"
