#!/usr/bin/env bash
# Installs the wheel in an empty environment, away from the checkout, and has it do all that it is for: plain, then with its extras.
#
# usage: tools/try_wheel.sh [WHEEL]    by default dist/*.whl
#
# PYTHON names the interpreter. What cannot run here, because users may have no namespaces, is counted as skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:-$(echo dist/*.whl)}")
python=$(command -v "${PYTHON:-python3}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

main() {
  "$python" -m venv venv
  install "$wheel"
  answers CAT-E4 list
  answers "CATNIP-Good" run catnip-e4 --seeds 1
  answers rtt_mean_s list --json
  answers hysteresis model
  answers timeouts trace --drop 20,22
  answers "open it in a browser" explore catnip-e4 --out explorer.html
  grep -q "The page cannot start" explorer.html
  answers "time,event" trace --csv -
  refuses "--out: needs pyarrow: pip install 'catnip-net[parquet]'" run catnip-e1 --out tables
  refuses "--plot: needs matplotlib: pip install 'catnip-net[plot]'" trace --plot packets.svg
  refuses "--plot: needs matplotlib: pip install 'catnip-net[plot]'" model --sweep loss=0%:15% --plot loss.svg
  refuses "reproduce: needs matplotlib: pip install 'catnip-net[plot]'" reproduce catnip
  refuses "record: needs certifi: pip install 'catnip-net[replay]'" record site
  refuses "emulate: needs pyarrow: pip install 'catnip-net[parquet]'" emulate fading-link
  links

  install "$wheel[plot]"
  answers retransmitted trace --plot packets.svg
  refuses "--report: needs jinja2: pip install 'catnip-net[report]'" reproduce catnip --report report.html

  install "$wheel[all]"
  answers "Reno/DropTail" run catnip-e4 --seeds 1 --out tables
  answers CAT-E4 reproduce catnip --quick --report report.html --table claims.md
  grep -q "<svg" report.html
  grep -q "CAT-E4" claims.md
  answers "catnip-good" run web-queues --seeds 2 --report run.html --plot run.svg
  grep -q "Kaplan" run.html
  answers "" emulate fading-link --quiet --tolerance 60s
  echo "the wheel does what it is for"
}

install() { venv/bin/pip install --quiet "$1"; }

links() {
  answers "Usage: catnip link" link --help
  local why
  if why=$(venv/bin/catnip link --quiet --tolerance 60s -- true 2>&1); then
    echo "catnip link -- true"
  else
    # The emulator says in one line what is not permitted; anything else is a fault.
    [[ $why == *"permission: cannot create"* || $why == *"/dev/net/tun"* ]] || fails "link -- true" "$why"
    echo "wheel::link: $why" | tee -a "${CATNIP_SKIPPED:-/dev/null}"
  fi
}

# answers TEXT ARGUMENT…: leaves with 0 and prints the text
answers() {
  local text=$1 told
  shift
  told=$(catnip "$@" 2>&1) || fails "$*" "$told"
  [[ $told == *"$text"* ]] || fails "$*" "$told"
  echo "catnip $*"
}

# refuses TEXT ARGUMENT…: leaves with 2 and says in one line what is missing
refuses() {
  local text=$1 told code=0
  shift
  told=$(catnip "$@" 2>&1) || code=$?
  [[ $code == 2 && $told == "error: $text" ]] || fails "$*" "$told"
  echo "catnip $*: refused"
}

# Nothing of this machine is in its environment.
catnip() { env -i HOME="$place" LANG=C.UTF-8 PATH=/usr/bin:/bin venv/bin/catnip "$@"; }

fails() {
  printf 'catnip %s: not as it should:\n%s\n' "$1" "$(tail -n 5 <<<"$2")" >&2
  exit 1
}

main
