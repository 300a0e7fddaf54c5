#!/usr/bin/env bash
# Checks what we build on: licences and sources of crates (deny.toml), and known faults of crates and of Python's packages, as far as
# their lists can be had from here.
#
# usage: tools/audit.sh    called by `make audit`
set -uo pipefail
cd "$(dirname "$0")/.."
deny=target/tools/bin/cargo-deny
result=0

main() {
  [[ -x $deny ]] || cargo install --quiet --locked --root target/tools cargo-deny || exit
  $deny check licenses bans sources || result=1
  if $deny fetch db 2>/dev/null; then
    $deny check advisories || result=1
  else
    echo "skipped: known faults of crates, whose list cannot be fetched"
  fi
  .venv/bin/pip install --quiet pip-audit || exit
  # A package that the index says nothing of is told, and no fault.
  .venv/bin/pip-audit --requirement tools/python.lock --no-deps --disable-pip || result=1
  exit $result
}

main
