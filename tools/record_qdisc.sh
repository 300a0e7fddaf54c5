#!/usr/bin/env bash
# Records what Linux's qdiscs do with each packet of given schedules (tools/record_qdisc_guest.py says how), each case in a boot of
# its own. The same programs and the same seed give the same bytes.
#
# usage: tools/record_qdisc.sh FOLDER [SEED [CASE...]]; with suite and release in the environment, another kernel of Debian's
set -euo pipefail
cd "$(dirname "$0")/.."
# The program itself, not what looks for it.
python=$("${PYTHON:-python3}" -ISc 'import os, sys; print(os.path.realpath(sys.executable))')
suite=${suite:-sid} release=${release:-}
# Seconds for a boot and a case, which take thirty.
case_limit=300
. tools/guest.sh

main() {
  local folder=$1 seed=${2:-1} cases=("${@:3}") modules script
  ((${#cases[@]})) || read -ra cases < <("$python" tools/record_qdisc_guest.py)
  prepare
  mapfile -t modules < <("$python" -ISBc 'import sys
sys.path.insert(0, "tools")
import record_qdisc_guest
del sys.modules["record_qdisc_guest"]
print(*{it.__file__ for it in sys.modules.values() if getattr(it, "__file__", None)}, sep="\n")')
  seal "$python" "$(command -v tc)" "$(command -v ip)" "${modules[@]}"
  cp tools/record_qdisc_guest.py "$sealed/"
  # Neither times nor this folder must reach the guest.
  "$python" -m compileall -q -s "$sealed" -p / --invalidation-mode unchecked-hash "$sealed"
  modules "$sealed" veth sch_{htb,codel,pie,red,cake} >"$sealed/sealed.modules"
  mkdir -p "$folder"
  for case in "${cases[@]}"; do
    script="$python -ISB /record_qdisc_guest.py $case $seed /sealed.results/$case.csv"
    sealed_guest $case_limit "$script" ipv6.disable=1
    cp "$results"/*.csv "$folder/"
  done
}

main "$@"
