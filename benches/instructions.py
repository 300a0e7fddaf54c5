"""Counts machine instructions per packet-hop under callgrind and holds them against a stored baseline.

Seconds drift with whatever else a machine does; instructions of the same binary do not. A change by more
than the tolerance fails, in either direction: a gain is worth a new baseline, too.

    .venv/bin/python benches/instructions.py            # compare
    .venv/bin/python benches/instructions.py --bless    # store what is measured now
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "benches" / "instructions.toml"
BASELINE = ROOT / "benches" / "instructions.json"
PROGRAM = ROOT / "target" / "release" / "examples" / "bench"

TOLERANCE = 0.03
"""Relative; one more branch per packet is about 1 %."""

OTHER_PLACE_TOLERANCE = 0.15
"""Another compiler makes other code, and another processor has libc choose other copying loops."""

ROUNDS = 3


def main() -> int:
    """Measures, compares or stores; 1 if a case is off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bless", action="store_true", help="store what is measured as the new baseline")
    bless = parser.parse_args().bless
    if shutil.which("valgrind") is None:
        skipped("valgrind is not installed")
        return 0
    build = ["cargo", "build", "--quiet", "--release", "-p", "catnip-lab", "--example", "bench"]
    subprocess.run(build, cwd=ROOT, check=True)
    stored = json.loads(BASELINE.read_text()) if BASELINE.exists() else {"cases": {}}
    variants = re.findall(r'^name = "(.+)"$', SCENARIO.read_text(), re.MULTILINE)
    measured = {variant: round(per_hop(variant), 1) for variant in variants}
    here = place()
    if bless:
        BASELINE.write_text(json.dumps({**here, "cases": measured}, indent=2) + "\n")
    same = all(stored.get(key) == value for key, value in here.items())
    tolerance = TOLERANCE if same else OTHER_PLACE_TOLERANCE
    off = 0
    for variant, now in measured.items():
        before = stored["cases"].get(variant)
        change = now / before - 1 if before else float("inf")
        bad = abs(change) > tolerance and not bless
        off += bad
        shown = f"{change:+.1%}" if before else "no baseline"
        print(f"{variant:36} {now:8.1f} instructions per packet-hop, {shown}{'  <-- off' if bad else ''}")
    if off:
        print(f"more than {tolerance:.0%} off the baseline; if on purpose, say why and run with --bless")
    return int(off > 0)


def skipped(why: str) -> None:
    """Says so, and writes it where `make test` counts what it could not run."""
    line = f"instructions::all: {why}"
    print(f"skipped {line}")
    if file := os.environ.get("CATNIP_SKIPPED"):
        with Path(file).open("a") as lines:
            lines.write(f"{line}\n")


def place() -> dict[str, str]:
    """What the count depends on besides our code."""
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {"rustc": rustc.stdout.strip(), "cpu": cpu[1] if cpu else "unknown"}


def per_hop(variant: str) -> float:
    """Instructions of a round beyond the first one, in which memory grows, divided by its packet-hops."""
    once, _ = count(variant, 1)
    all_rounds, hops = count(variant, ROUNDS)
    return (all_rounds - once) / sum(hops[1:])


def count(variant: str, rounds: int) -> tuple[int, list[int]]:
    """Instructions of the whole program, and packet-hops by round."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        str(PROGRAM),
        str(SCENARIO),
        variant,
    ]
    done = subprocess.run([*command, str(rounds)], capture_output=True, text=True, check=True)
    collected = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    if collected is None:
        raise RuntimeError(f"callgrind says nothing: {done.stderr}")
    return int(collected[1]), [int(json.loads(line)["hops"]) for line in done.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
