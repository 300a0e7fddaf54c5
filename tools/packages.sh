#!/usr/bin/env bash
# Installs into .venv what pyproject.toml asks for, in the versions of tools/python.lock.
#
# usage: tools/packages.sh demo|run|dev|wheel    the extras of the demonstration; all of them; also what developers, or wheels, take
#
# Fails if it cannot; without what developers take, tests in Python are counted as skipped instead.
set -euo pipefail
cd "$(dirname "$0")/.."
group=$1

main() {
  [[ -x .venv/bin/pip ]] || failed ".venv cannot be made"
  if wanted | .venv/bin/pip install --quiet --constraint tools/python.lock --requirement /dev/stdin; then
    touch ".venv/packages-$group"
  else
    failed "pip cannot install what pyproject.toml asks for"
  fi
}

failed() {
  if [[ $group == dev ]]; then
    echo "will be skipped: tests in Python, $1"
    echo "pytest::all: $1" >>"${CATNIP_SKIPPED:-/dev/null}"
    exit
  fi
  echo "make: $1" >&2
  exit 1
}

# The requirements of a group, one to a line; an extra that only names others has none of its own.
wanted() {
  .venv/bin/python - "$group" <<'END'
import sys, tomllib

project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
run = [name for name in extras if name not in ("all", "dev", "wheel")]
groups = {"demo": ["plot", "report"], "run": run, "dev": [*run, "dev"], "wheel": [*run, "wheel"]}
of_extras = (one for name in groups[sys.argv[1]] for one in extras[name] if project["name"] not in one)
print(*project["dependencies"], *of_extras, sep="\n")
END
}

main
