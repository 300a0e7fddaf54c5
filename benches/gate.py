#!/usr/bin/env python3
"""Performance gate: the counted cost of a packet-hop against a fixed reference commit.

Run times vary with the load of a machine; counts of a simulated processor do not. The cost of a packet-hop is
its number of instructions, plus 10 for each miss of the first-level caches and 100 for each miss of the last
level, counted by callgrind with caches of fixed sizes. The drift of a case is the relative change of its cost
since the reference commit.

    benches/gate.py                             compares all cases; exits with 1 if a drift exceeds 3 %
    benches/gate.py --case Web --case "1000 flows"      compares these cases only
    benches/gate.py --raise WHAT                makes this commit the reference; benches/README.md gets a line

gate.json holds the reference's counts. They are valid for the versions of the compiler, the C library and
valgrind that the file names; with other versions the reference commit is built in target/gate/ and counted
anew.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "benches" / "gate.json"
README = ROOT / "benches" / "README.md"

TOLERANCE = 0.03
"""Largest accepted increase of a case's cost since the reference commit, as a fraction."""
RAISED_AT_MOST = 0.05
"""Largest accepted sum of all changes of the reference cost that benches/README.md lists, as a fraction."""
MEMORY_TOLERANCE = 0.03

L1_MISS, LAST_MISS = 10, 100
"""Weights of cache misses in `Cost.total`: their approximate cycles, where an instruction counts 1."""
CACHES = ("--I1=32768,8,64", "--D1=49152,12,64", "--LL=1048576,16,64")
"""Simulated caches of callgrind: size in bytes, associativity, line size in bytes.

LL is the last cache level that is private to a core.
"""


@dataclass(frozen=True)
class Case:
    """Benchmark case: a scenario file and the variant of it that is run."""

    name: str
    file: str
    variant: str


CASES = (
    Case("100 flows", "gate/flows.toml", "100 flows"),
    Case("1000 flows", "gate/flows.toml", "1000 flows"),
    Case("10000 flows", "gate/flows.toml", "10000 flows"),
    Case("short lossy flows", "gate/short.toml", "300 flows"),
    Case("Web", "gate/web.toml", "Web"),
    Case("CUBIC over FQ-CoDel", "gate/flows.toml", "CUBIC"),
    Case("BBR over FQ-CoDel", "gate/flows.toml", "BBR"),
    Case("DiffServ tree", "gate/diffserv.toml", "FQ-CoDel"),
)


@dataclass(frozen=True)
class Cost:
    """Instructions and cache misses per packet-hop."""

    instructions: float
    l1_misses: float
    last_misses: float

    @property
    def total(self) -> float:
        """Weighted sum of instructions and misses, in instructions per packet-hop."""
        return self.instructions + L1_MISS * self.l1_misses + LAST_MISS * self.last_misses


def main() -> int:
    """Compares this checkout's costs with those of the reference commit, or makes this commit the reference.

    Returns 1 if the cost of a case or the memory of a flow exceeds the reference by more than the tolerance.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES], help="repeatable")
    parser.add_argument("--raise", dest="bought", metavar="WHAT", help="make this commit the reference")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        skipped("valgrind is not installed")
        return 0
    cases = [case for case in CASES if arguments.case is None or case.name in arguments.case]
    program = built(ROOT)
    here = counted(program, ROOT, cases)
    memory = bytes_per_flow(program)
    stored = json.loads(REFERENCE.read_text()) if REFERENCE.exists() else None
    if arguments.bought is not None:
        return raise_reference(stored, here, memory, arguments.bought)
    if stored is None:
        raise SystemExit(f"{REFERENCE.name}: there is no reference; --raise makes one")
    reference = the_reference(stored, cases)
    if reference is None:
        return 0
    off = [name for name in here if told(name, here[name], reference[name]) > TOLERANCE]
    grown = memory / stored["bytes_per_flow"] - 1
    print(f"{'memory per flow':22} {memory:8.0f} bytes, {grown:+.1%} since {stored['commit'][:7]}")
    if grown > MEMORY_TOLERANCE:
        off.append("memory per flow")
    if off:
        print(f"more than {TOLERANCE:.0%} above the reference: {', '.join(off)}")
        print("If it is worth that: commit, then benches/gate.py --raise 'what was bought'.")
    return int(bool(off))


def told(name: str, now: Cost, then: Cost) -> float:
    """Prints the cost of a benchmark case and returns its relative change since the reference commit."""
    drift = now.total / then.total - 1
    parts = f"{now.instructions:7.1f} instructions + {L1_MISS} x {now.l1_misses:6.2f}"
    parts += f" + {LAST_MISS} x {now.last_misses:6.3f} misses"
    print(f"{name:22} {now.total:8.1f} = {parts}, {drift:+.1%}{'  <-- off' if drift > TOLERANCE else ''}")
    return drift


def built(checkout: Path) -> Path:
    """Builds crates/lab/examples/bench.rs of a checkout in release mode without PGO; returns its path."""
    build = ["cargo", "build", "--quiet", "--release", "-p", "catnip-lab", "--example", "bench"]
    target = ROOT / "target" if checkout == ROOT else checkout / "target"
    done = subprocess.run(
        build, cwd=checkout, check=False, env={**os.environ, "CARGO_TARGET_DIR": str(target)}
    )
    if done.returncode != 0:
        raise SystemExit(f"gate.py: {' '.join(build)}: exit code {done.returncode}")
    return target / "release" / "examples" / "bench"


def counted(program: Path, checkout: Path, cases: Sequence[Case]) -> dict[str, Cost]:
    """Returns the cost of each case by name, as counted by callgrind; all cores count in parallel.

    `program` runs the scenarios of its own checkout: a later one may have keys that it does not know.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(
            zip(
                (case.name for case in cases),
                pool.map(lambda case: cost(program, checkout, case), cases),
                strict=True,
            )
        )


def cost(program: Path, checkout: Path, case: Case) -> Cost:
    """Returns the cost of a case, counted in its second round, which reuses the memory of the first round."""
    # Paths of fixed length: that of a checkout would decide where the heap begins, and so what is copied when
    # lists grow, and which addresses share a cache line.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="gate-") as folder:
        links = Path(folder)
        (links / "root").symlink_to(checkout)
        (links / "bench").symlink_to(program)
        return cost_at(links / "bench", links / "root" / "benches" / case.file, case.variant)


def cost_at(program: Path, scenario: Path, variant: str) -> Cost:
    """Returns the cost of a variant of a scenario, counted in its second round."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--cache-sim=yes", *CACHES]
    command += ["--zero-before=*bench*round*", str(program), str(scenario), variant, "2"]
    # The environment is fixed, because its size shifts the stack, which changes the number of misses.
    done = subprocess.run(
        command, cwd="/", env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True
    )
    names = re.search(r"Events\s*:\s*(.+)", done.stderr)
    values = re.search(r"Collected\s*:\s*(.+)", done.stderr)
    if names is None or values is None:
        raise RuntimeError(f"callgrind says nothing: {done.stderr}")
    of = dict(zip(names[1].split(), map(int, values[1].split()), strict=True))
    hops = json.loads(done.stdout.splitlines()[-1])["hops"]
    l1_misses = of["I1mr"] + of["D1mr"] + of["D1mw"]
    last_misses = of["ILmr"] + of["DLmr"] + of["DLmw"]
    return Cost(of["Ir"] / hops, l1_misses / hops, last_misses / hops)


def bytes_per_flow(program: Path) -> float:
    """Returns the additional peak memory per additional flow, from 1000 to 10000 flows, bytes."""

    def peak_kb(variant: str) -> int:
        command = [str(program), str(ROOT / "benches" / "gate" / "flows.toml"), variant]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(json.loads(done.stdout)["peak_kb"])

    return 1024 * (peak_kb("10000 flows") - peak_kb("1000 flows")) / 9000


def the_reference(stored: Mapping[str, Any], cases: Sequence[Case]) -> dict[str, Cost] | None:
    """Returns the costs of the reference commit by case; None if the commit is not in the history.

    `stored` is the content of gate.json. Its counts are used if `place` is the same as when they were stored;
    otherwise the reference commit is built and counted.
    """
    if stored["place"] == place():
        return {name: Cost(**counts) for name, counts in stored["cases"].items()}
    print(f"another compiler, C library or valgrind: {stored['commit'][:7]} is built and counted, too")
    checkout = checkout_of(stored["commit"])
    if checkout is None:
        skipped(f"the reference {stored['commit'][:7]} is not in this clone's history")
        return None
    return counted(built(checkout), checkout, cases)


def checkout_of(commit: str) -> Path | None:
    """Returns a directory with the files of a commit; None if the commit is not in the history."""
    checkout = ROOT / "target" / "gate" / commit
    if not checkout.exists():
        archive = ["git", "-C", str(ROOT), "archive", commit]
        fetched = subprocess.run(archive, capture_output=True, check=False)
        if fetched.returncode:
            return None
        checkout.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(checkout)], input=fetched.stdout, check=True)
    return checkout


def place() -> dict[str, str]:
    """Returns the tool versions and the processor features that influence the counts."""
    flags = re.search(r"^flags\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    # The C library selects its copy routines by these features, which valgrind supports.
    vectors = sorted({"avx", "avx2", "erms", "fsrm"} & set(flags[1].split() if flags else ()))
    return {
        "rustc": output("rustc", "--version"),
        "valgrind": output("valgrind", "--version"),
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown",
        "copies": " ".join(vectors),
    }


def output(*command: str) -> str:
    """Returns the standard output of a command that must succeed."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def raise_reference(
    stored: Mapping[str, Any] | None, here: Mapping[str, Cost], memory: float, bought: str
) -> int:
    """Makes this commit the reference: writes gate.json and adds a line to benches/README.md.

    `bought` is the reason for the higher cost, which the new line states.
    """
    if output("git", "status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"):
        raise SystemExit("--raise: what is not committed cannot be the reference")
    if set(here) != {case.name for case in CASES}:
        raise SystemExit("--raise: it takes all cases")
    commit = output("git", "rev-parse", "HEAD")
    text = README.read_text()
    by = 0.0
    if stored is not None and (reference := the_reference(stored, CASES)) is not None:
        by = max(here[name].total / reference[name].total - 1 for name in here)
    if raised(text) + by > RAISED_AT_MOST:
        raise SystemExit(f"--raise: by {by:.1%} more, it is raised by more than {RAISED_AT_MOST:.0%} in all")
    costs = {name: {key: round(value, 4) for key, value in vars(of).items()} for name, of in here.items()}
    made = {"commit": commit, "place": place(), "bytes_per_flow": round(memory), "cases": costs}
    REFERENCE.write_text(json.dumps(made, indent=2) + "\n")
    line = f"| {date.today()} | {commit[:7]} | {100 * by:.1f} % | {bought} |\n"
    README.write_text(text.replace("<!-- /gate -->", f"{line}<!-- /gate -->"))
    print(f"the reference is {commit[:7]}")
    return 0


def raised(readme: str) -> float:
    """Returns the sum of the changes of the reference cost that benches/README.md lists, as a fraction.

    The change of a line is that of the case that rose most, or fell least: what was won before may be spent.
    """
    table = readme.split("<!-- gate -->")[1].split("<!-- /gate -->", maxsplit=1)[0]
    return sum(float(share) / 100 for share in re.findall(r"\| (-?[\d.]+) % \|", table))


def skipped(why: str) -> None:
    """Prints why the gate is skipped, and writes the reason to the file in which `make test` counts skips."""
    line = f"gate::all: {why}"
    print(f"skipped {line}")
    if file := os.environ.get("CATNIP_SKIPPED"):
        with Path(file).open("a") as lines:
            lines.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
